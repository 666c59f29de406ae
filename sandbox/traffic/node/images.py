"""Which images a node of the sandbox cannot pull, in a kubelet's words. Pure.

There is no registry, and the server's programs are this machine's, so any image counts as there. Only the digest of
zeros is refused, which `headway new` writes until somebody fills it in: no content has it, so no registry holds it.
Reasons and messages: kubernetes, `pkg/kubelet/images/image_manager.go`; the registry's answer: containerd,
`core/remotes/docker/resolver.go`.
"""

PULL, BACK_OFF = "ErrImagePull", "ImagePullBackOff"
_NOBODYS = f"@sha256:{'0' * 64}"


def refused(image: str) -> str:
    """Why the image cannot be pulled; empty where it can."""
    if not image.endswith(_NOBODYS):
        return ""
    return (
        f'rpc error: code = NotFound desc = failed to pull and unpack image "{image}": failed to resolve reference "{image}": '
        f"{image}: not found"
    )


def backing_off(image: str) -> str:
    return f'Back-off pulling image "{image}"'
