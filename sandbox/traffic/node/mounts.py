"""A container's paths on a machine without containers. Pure.

A process has no mount namespace of its own here, so every path of a mount in its command line and configuration is
rewritten to the folder that stands for the volume, and its 127.0.0.1 to the pod's own loopback address. A path is a
whole argument or what follows `=`; a prefix inside a word (`/modelset`) is none.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_OWN_HOST = "http://127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Mounts:
    """Mount path to folder of one container, and the address that stands for the pod's own 127.0.0.1."""

    folders: Mapping[str, Path]
    address: str

    def text(self, value: str) -> str:
        """One argument or one configured string, with its path or own address rewritten."""
        if value == _OWN_HOST or value.startswith((f"{_OWN_HOST}:", f"{_OWN_HOST}/")):
            return f"http://{self.address}{value.removeprefix(_OWN_HOST)}"
        flag, equals, path = value.rpartition("=")
        for mount in sorted(self.folders, key=len, reverse=True):
            if path == mount or path.startswith(f"{mount}/"):
                return f"{flag}{equals}{self.folders[mount]}{path.removeprefix(mount)}"
        return value

    def document(self, value: Any) -> Any:
        """A JSON document with every string rewritten."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.document(item) for item in value]
        if isinstance(value, dict):
            return {key: self.document(item) for key, item in value.items()}
        return value

    def json(self, text: str) -> str:
        """A JSON text, rewritten."""
        return json.dumps(self.document(json.loads(text)), indent=1, sort_keys=True) + "\n"
