"""Keys of the labels by which tenants, models and releases are found: written by components, read by policies, status and signals."""

PREFIX = "platform.io"

TENANT = f"{PREFIX}/tenant"
MODEL = f"{PREFIX}/model"
RELEASE = f"{PREFIX}/release"
POOL = f"{PREFIX}/pool"
ENVIRONMENT = f"{PREFIX}/environment"
WORKLOAD_CLASS = f"{PREFIX}/class"

PART_OF = "headway"
