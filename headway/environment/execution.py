"""A command in a container of a running pod, through the API server: what `kubectl exec` does. Needs `create` on `pods/exec`.

The official client swaps its own request method while it opens such a stream, so every call gets a client of its own.
"""

from collections.abc import Sequence
from typing import Any

from headway.environment.port import OutOfReachError


def execute(configuration: Any, namespace: str, pod: str, container: str, command: Sequence[str], seconds: float) -> str:
    """Standard output of `command`, which has `seconds`. Raises OutOfReachError when it failed, nobody answered or exec is not
    allowed."""
    from kubernetes import client
    from kubernetes.stream import stream
    from kubernetes.stream.ws_client import STDERR_CHANNEL, STDOUT_CHANNEL

    core: Any = client.CoreV1Api(client.ApiClient(configuration))
    asked = {"container": container, "command": list(command), "stderr": True, "stdin": False, "stdout": True, "tty": False}
    try:
        connection: Any = stream(core.connect_get_namespaced_pod_exec, pod, namespace, **asked, _preload_content=False)
    except (client.ApiException, AttributeError) as failure:
        # A refused stream has no body, which the client tries to decode (kubernetes 36): what happened is in the error before.
        refusal = failure if isinstance(failure, client.ApiException) else failure.__context__
        reason = str(getattr(refusal, "reason", refusal)).partition(" -+-+- ")[0]
        if "403" in reason:
            reason = f"this identity may not: it needs create and get on pods/exec in {namespace}"
        raise OutOfReachError(f"exec in {pod}: {reason}") from None
    try:
        connection.run_forever(timeout=seconds)
        if connection.is_open():
            raise OutOfReachError(f"exec in {pod}: no end within {seconds:g} s")
        said, failed = connection.read_channel(STDOUT_CHANNEL), connection.returncode
        if failed:
            raise OutOfReachError(f"exec in {pod}: exit {failed}: {connection.read_channel(STDERR_CHANNEL).strip()[-200:]}")
    finally:
        connection.close()
    return str(said)
