"""An environment as checks of a verification see it: an API server of lists, probes that end at once with planted words."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.contract.pool import Pool
from headway.environment.api_answer import ApiAnswer
from headway.environment.port import Facility
from headway.verify.site import Site

NAMESPACE = "headway-verify-1"


@dataclass
class World:
    """Cluster and port at once. Time passes only while somebody sleeps.

    `lists`: the API server's answers by path, or what makes one. `words`: the last word of each probe by its name; a
    probe without one waits for `pending`. `placed` says on which node a probe stands.
    """

    lists: dict[str, "list[Any] | Callable[[], list[Any]]"] = field(default_factory=dict[str, Any])
    words: dict[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    placed: Callable[[str], str] = lambda name: "n1"
    pending: str = ""
    endless: bool = False
    """Whether a probe that has a node runs for ever, as a simulated one does."""
    lacks: Mapping[Facility, str] = field(default_factory=dict[Facility, str])
    nodes_can_be_added: bool = True
    metrics_address: str | None = None
    metrics_hint: str = ""
    executed: "Callable[[str, str, list[str]], str]" = lambda pod, container, arguments: ""
    now: float = 0.0
    made: dict[str, Any] = field(default_factory=dict[str, Any])

    def site(self, *pools: Pool) -> Site:
        environment: Any = self
        return Site(
            environment=environment,
            namespace=NAMESPACE,
            began="2026-11-23T15:00:00Z",
            pools=pools,
            clock=lambda: self.now,
            sleep=self._pass,
            say=lambda _: None,
            image="registry.test/headway@sha256:0",
        )

    # -- the port

    @property
    def kubernetes(self) -> "World":
        return self

    def cannot_show(self, facility: Facility) -> str | None:
        return self.lacks.get(facility)

    def simulated(self, pods: Any) -> bool:
        return False

    def execute(self, pod: Mapping[str, Any], container: str, arguments: list[str], seconds: float) -> str:
        return self.executed(pod["metadata"]["name"], container, arguments)

    # -- the API server

    def request(self, method: str, path: str, query: Any = None) -> Any:
        found = self.lists.get(path, [])
        return {"items": found() if callable(found) else found}

    def answer(self, method: str, path: str, query: Any = None, body: Any = None) -> ApiAnswer:
        if method == "POST":
            self.made[f"{path}/{body['metadata']['name']}"] = body
        elif method == "DELETE":
            self.made.pop(path, None)
        return ApiAnswer(status=200, content=json.dumps(body or {}).encode())

    def get(self, path: str) -> Any:
        body = self.made.get(path)
        if body is None or body["kind"] != "Pod":
            return body
        name = body["metadata"]["name"]
        node, word = self.placed(name), self.words.get(name)
        if not node or word is None:
            refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": self.pending}
            return {**body, "status": {"phase": "Pending", "conditions": [refused]}}
        if self.endless:
            return {**body, "spec": {**body["spec"], "nodeName": node}, "status": {"phase": "Running"}}
        ended = {"name": "probe", "state": {"terminated": {"message": json.dumps(word)}}}
        spec = {**body["spec"], "nodeName": node}
        return {**body, "spec": spec, "status": {"phase": "Succeeded", "containerStatuses": [ended]}}

    def _pass(self, seconds: float) -> None:
        self.now += seconds
