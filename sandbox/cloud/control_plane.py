"""The sandbox's Kubernetes cluster as the control plane behind every EKS cluster, with simulated nodes.

Owns the official client's nodes API. Trap: the kubeconfig holds the administrator's key: it is read here, and never logged or shown.
"""

import base64
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from headway.environment.kubernetes import settings
from headway.wire import MIG_CONFIG
from pulumi_embedded.engine.provider import ProviderError
from pulumi_embedded.providers.aws.nodes import SimulatedNode
from pulumi_embedded.providers.control_plane import Address, NewTaints, NodeState, retainted
from sandbox.cloud import mig
from sandbox.cluster.nodes import node_manifest

_EXISTS, _ABSENT = 409, 404
GROUP_ANNOTATION = "sandbox.headway/node-group"
"""ARN of the node group that a simulated node belongs to."""


class LocalControlPlane:
    """The control plane behind a kubeconfig. The client is made at first use, so that a preview without nodes never pays for it."""

    def __init__(self, kubeconfig: Path) -> None:
        self._file = kubeconfig
        self._client: Any = None

    def address(self) -> Address:
        try:
            document = yaml.safe_load(self._file.read_text(encoding="utf-8"))
            cluster = document["clusters"][0]["cluster"]
        except FileNotFoundError:
            raise ProviderError(
                "the sandbox has no control plane yet, so there is no cluster that an EKS resource could stand for; start it with "
                "`headway sandbox up`"
            ) from None
        except (KeyError, IndexError, TypeError, yaml.YAMLError) as error:
            raise ProviderError(f"the sandbox's kubeconfig {self._file} cannot be read: {error!r}; run `headway sandbox reset`") from None
        authority = cluster.get("certificate-authority-data")
        if not authority:
            authority = base64.b64encode(Path(cluster["certificate-authority"]).read_bytes()).decode()
        return Address(cluster["server"], authority, document)

    def version(self) -> str:
        from kubernetes import client

        api: Any = client.VersionApi(self._api())
        return str(_answered(api.get_code).git_version)

    def reachable(self) -> bool:
        if not self._file.exists():
            return False
        try:
            self.version()
        except ProviderError:
            return False
        return True

    def nodes(self, group: str) -> list[NodeState]:
        name = group.split("/")[2]
        listed = _answered(lambda: self._core().list_node(label_selector=f"eks.amazonaws.com/nodegroup={name}"))
        return sorted(
            (_state(n) for n in listed.items if (n.metadata.annotations or {}).get(GROUP_ANNOTATION) == group), key=lambda n: n.name
        )

    def create_node(self, node: SimulatedNode, group: str) -> None:
        core = self._core()
        manifest = node_manifest(
            node.name,
            labels=mig.uncut(node.labels),
            taints=node.taints,
            capacity=mig.uncut(node.capacity),
            annotations={GROUP_ANNOTATION: group, **_promises(node)},
            provider_id=node.provider_id,
            reserved=mig.uncut(node.allocatable),
        )
        if _answered(lambda: core.create_node(manifest), _EXISTS) is None:
            self.delete_node(node.name)
            _answered(lambda: core.create_node(manifest))

    def relabel(self, name: str, labels: Mapping[str, str | None], taints: NewTaints) -> None:
        core = self._core()
        live = _answered(lambda: core.read_node(name))
        before: Mapping[str, str] = live.metadata.labels or {}
        metadata: dict[str, Any] = {"labels": {key: value for key, value in labels.items() if not mig.is_late(key)}}
        if before.get(MIG_CONFIG) != labels.get(MIG_CONFIG, before.get(MIG_CONFIG)):
            # Another layout: the MIG manager begins anew.
            metadata["labels"] |= {key: None for key in before if mig.is_late(key)}
            metadata["annotations"] = {mig.MIG_LABELS: mig.promised({key: value for key, value in labels.items() if value})}
        spec = {"taints": retainted(_taints(live), taints)} if taints else {}
        _answered(lambda: core.patch_node(name, {"metadata": metadata, "spec": spec}))

    def resize(self, name: str, capacity: Mapping[str, str], allocatable: Mapping[str, str]) -> None:
        core = self._core()
        live = _answered(lambda: core.read_node(name))
        promise = mig.promised(capacity)
        stays = promise == (live.metadata.annotations or {}).get(mig.MIG_RESOURCES)
        if not stays:
            _answered(lambda: core.patch_node(name, {"metadata": {"annotations": {mig.MIG_RESOURCES: promise}}}))
        gone = {key: None for key in live.status.capacity or {} if key not in capacity or (mig.is_late(key) and not stays)}
        patch = {"capacity": {**mig.uncut(capacity), **gone}, "allocatable": {**mig.uncut(allocatable), **gone}}
        _answered(lambda: core.patch_node_status(name, {"status": patch}))

    def delete_node(self, name: str) -> None:
        core = self._core()
        if _answered(lambda: core.patch_node(name, {"spec": {"unschedulable": True}}), _ABSENT) is None:
            return
        for pod in _answered(lambda: core.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={name}")).items:
            at = (pod.metadata.name, pod.metadata.namespace)
            _answered(partial(core.delete_namespaced_pod, *at, grace_period_seconds=0), _ABSENT)
        _answered(lambda: core.delete_node(name), _ABSENT)

    def _core(self) -> Any:
        from kubernetes import client

        return client.CoreV1Api(self._api())

    def _api(self) -> Any:
        if self._client is None:
            from kubernetes import client

            found = settings(self.address().kubeconfig)
            # On loopback a control plane that does not answer at once is down.
            found.retries = False
            self._client = client.ApiClient(found)
        return self._client


def _state(node: Any) -> NodeState:
    ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or [])
    return NodeState(node.metadata.name, ready, node.spec.provider_id or "", dict(node.metadata.labels or {}), _taints(node))


def _taints(node: Any) -> list[dict[str, str]]:
    return [{"key": t.key, "effect": t.effect, **({"value": t.value} if t.value else {})} for t in node.spec.taints or []]


def _promises(node: SimulatedNode) -> dict[str, str]:
    found = {mig.MIG_RESOURCES: mig.promised(node.capacity), mig.MIG_LABELS: mig.promised(node.labels)}
    return {key: value for key, value in found.items() if value}


def _answered(call: Callable[[], Any], *accepted: int) -> Any:
    """What the API server says; None for a status that is `accepted`."""
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    try:
        return call()
    except ApiException as error:
        if error.status in accepted:
            return None
        raise ProviderError(f"the local cluster refused: {error.status} {error.reason}: {str(error.body)[:300]}") from None
    except (OSError, HTTPError) as error:
        raise ProviderError(
            f"the local cluster does not answer ({type(error).__name__}), so the nodes of EKS cannot be simulated; "
            "start it with `headway sandbox up`"
        ) from None
