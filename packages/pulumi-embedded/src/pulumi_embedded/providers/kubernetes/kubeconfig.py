"""A kubeconfig as settings of the official Kubernetes client, for any number of threads.

The trap: the client keeps certificates of a kubeconfig in temporary files that it finds again by a table without a lock, and enters a file
there before it has written it: a second thread then trusts an empty file, and its TLS handshake fails. The table belongs to the process, so
the lock has to as well: a host that loads kubeconfigs itself hands its own loader to the provider.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from yaml import YAMLError

Loader = Callable[[Mapping[str, Any], str | None], Any]
"""(kubeconfig, context) -> a client `Configuration`; raises the client's ConfigException."""

_LOADING = threading.Lock()


def loaded(kubeconfig: Mapping[str, Any], context: str | None) -> Any:
    """The loader where the host has none of its own."""
    from kubernetes import client, config

    made: Any = client.Configuration()
    with _LOADING:
        try:
            config.load_kube_config_from_dict(dict(kubeconfig), context, made, persist_config=False)
        except (YAMLError, UnicodeDecodeError, AttributeError, KeyError, TypeError):
            # What it meets there may be a secret.
            raise config.ConfigException("what was given is no kubeconfig") from None
    return made
