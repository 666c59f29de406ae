"""The two kinds of JSON document that the mesh handles: what the API server answers, and what Envoy reads."""

from collections.abc import Mapping
from typing import Any

MeshObject = Mapping[str, Any]
"""A Kubernetes object as the API server answers it, or a part of one."""

EnvoyMessage = dict[str, Any]
"""A part of Envoy's configuration, as the JSON form of its protocol buffers."""
