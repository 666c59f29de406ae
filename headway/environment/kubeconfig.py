"""A kubeconfig as settings of the official Kubernetes client, for as many threads as wish.

Trap: the client keeps certificates of a kubeconfig in temporary files that it finds again by a table without a lock, and enters a file
there before it has written it: a second thread then trusts an empty file, and its TLS handshake fails. The table is the process's, so the
lock is too: nobody else makes a client of a kubeconfig.
"""

import threading
from collections.abc import Mapping
from typing import Any

from yaml import YAMLError

_LOADING = threading.Lock()


def settings(kubeconfig: Mapping[str, Any] | str | None, context: str | None = None) -> Any:
    """A client `Configuration` of a kubeconfig's content, or of the file at a path; None inside a pod.

    Raises the client's ConfigException for a kubeconfig that it cannot use.
    """
    from kubernetes import client, config

    made: Any = client.Configuration()
    with _LOADING:
        try:
            if kubeconfig is None:
                config.load_incluster_config(client_configuration=made)
            elif isinstance(kubeconfig, str):
                config.load_kube_config(kubeconfig, context, made)
            else:
                config.load_kube_config_from_dict(dict(kubeconfig), context, made, persist_config=False)
        except (YAMLError, UnicodeDecodeError, AttributeError, KeyError, TypeError):
            # The client reads any file as if it were a kubeconfig, and what it meets there may be a secret.
            named = kubeconfig if isinstance(kubeconfig, str) else "what was given"
            raise config.ConfigException(f"{named} is no kubeconfig") from None
    return made


def connected(kubeconfig: Mapping[str, Any] | str | None) -> Any:
    """An `ApiClient` by `settings`."""
    from kubernetes import client

    return client.ApiClient(settings(kubeconfig))
