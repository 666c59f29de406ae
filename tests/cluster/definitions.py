"""Kinds of add-ons, stored and served before anything of them is made."""

from typing import Any

from pulumi_embedded.providers.kubernetes import crds
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.progress import Silent
from tests.cluster.conftest import ControlPlane, eventually


def define(control_plane: ControlPlane, add_on: str, *kinds: str) -> None:
    """Install the definitions of `add_on` (if kinds are named, of these only: each takes the API server up to half a second of CPU), wait until
    the API server serves them all, and have the client see them. May be called again, for instance after a try that ran out of time."""
    there = {each["metadata"]["name"] for each in _definitions(control_plane)}
    files = ensure_toolchain(control_plane.layout, Silent()).crds(add_on)
    if kinds:
        files = tuple(file for file in files if any(f" kind: {kind}\n" in file.read_text(encoding="utf-8") for kind in kinds))
    for body in crds.read(files):
        if body["metadata"]["name"] not in there and (not kinds or body["spec"]["names"]["kind"] in kinds):
            control_plane.create({key: value for key, value in body.items() if key != "status"})
    eventually(lambda: _served(control_plane), within=120.0)
    control_plane.client.resources.invalidate_cache()


def _definitions(control_plane: ControlPlane) -> list[dict[str, Any]]:
    return control_plane.list("CustomResourceDefinition", api_version="apiextensions.k8s.io/v1")


def _served(control_plane: ControlPlane) -> bool:
    conditions = [each.get("status", {}).get("conditions") or () for each in _definitions(control_plane)]
    return all(any(c["type"] == "Established" and c["status"] == "True" for c in of_one) for of_one in conditions)
