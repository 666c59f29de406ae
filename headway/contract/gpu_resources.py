"""The extended resources by which Kubernetes counts GPUs: whole ones, shares of one (time slicing, MPS) and MIG slices.

Not every name under `nvidia.com/` is one: labels such as `nvidia.com/gpu.product` share the prefix.
"""

WHOLE_GPU = "nvidia.com/gpu"
SHARED_GPU = "nvidia.com/gpu.shared"
MIG_PREFIX = "nvidia.com/mig-"


def is_gpu(resource: str) -> bool:
    """Whether a resource of this name stands for a GPU, a share of one or a MIG slice."""
    return resource in (WHOLE_GPU, SHARED_GPU) or resource.startswith(MIG_PREFIX)
