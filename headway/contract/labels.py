"""Keys of the labels by which tenants, models and releases are found: written by components, read by policies, status and signals."""

PREFIX = "platform.io"

TENANT = f"{PREFIX}/tenant"
MODEL = f"{PREFIX}/model"
RELEASE = f"{PREFIX}/release"
POOL = f"{PREFIX}/pool"
ENVIRONMENT = f"{PREFIX}/environment"
WORKLOAD_CLASS = f"{PREFIX}/class"
QUARANTINE = f"{PREFIX}/quarantine"
"""Taint and annotation of a node that is set apart; no workload may tolerate it."""

PART_OF = "headway"
