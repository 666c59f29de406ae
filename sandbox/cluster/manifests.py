"""Reads and writes Kubernetes manifests as YAML."""

import yaml

from pulumi_embedded.providers.kubernetes.manifests import read

__all__ = ["dump", "read"]


def dump(*documents: object) -> str:
    """The documents as one YAML text, the same for the same content."""
    return yaml.dump_all(documents, Dumper=yaml.CSafeDumper, sort_keys=True, width=1000)
