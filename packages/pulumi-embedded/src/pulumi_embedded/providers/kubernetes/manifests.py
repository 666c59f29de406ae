"""Reads Kubernetes manifests from YAML, fast (libyaml) and the way Kubernetes reads them.

YAML 1.1 gives a bare `=` a type of its own, which no Python loader can construct; the Prometheus operator's CRDs list it among the operators
of a matcher. Here it is the string it is meant to be.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml


class _Loader(yaml.CSafeLoader):
    pass


_Loader.add_constructor("tag:yaml.org,2002:value", yaml.CSafeLoader.construct_scalar)


def read(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Every document of the files, in order; empty documents are left out."""
    return [document for path in paths for document in yaml.load_all(path.read_text(encoding="utf-8"), Loader=_Loader) if document]
