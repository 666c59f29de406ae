"""A kubeconfig as settings of the official Kubernetes client, for as many threads as wish.

Trap: the client keeps certificates of a kubeconfig in temporary files that it finds again by a table without a lock, and enters a file
there before it has written it: a second thread then trusts an empty file, and its TLS handshake fails.
"""

import threading
from collections.abc import Mapping
from typing import Any

_LOADING = threading.Lock()


def settings(kubeconfig: Mapping[str, Any], context: str | None = None) -> Any:
    """A client `Configuration`. Raises the client's ConfigException for a kubeconfig that it cannot use."""
    from kubernetes import client, config

    made: Any = client.Configuration()
    with _LOADING:
        config.load_kube_config_from_dict(dict(kubeconfig), context, made, persist_config=False)
    return made
