"""Where a verification works: the environment's API server, the probes in a namespace of its own, and HTTP to what
watches the platform. The only module of the package that touches the world; the others say what to make and judge what
was seen.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headway.contract.pool import Pool
from headway.environment.kubernetes import CONFLICT, NOT_FOUND, KubernetesApi, Object
from headway.environment.port import Environment, OutOfReachError
from headway.outgoing import asked, body_of, refusal_of
from headway.problem import Exit, UserError
from headway.verify import probe
from headway.verify.probe import Probe, ProbeSeen
from headway.wire import TENANT

if TYPE_CHECKING:
    from headway.verify.sample import EndedRelease

LOOK_SECONDS = 2.0
GONE_SECONDS = 90.0
HTTP_SECONDS = 20.0
LARGEST_ANSWER = 64 * 2**20
_NEVER_PULLED = "probe.invalid/none"
_IMAGE_FROM = "/apis/apps/v1/namespaces/release-guard/deployments/release-guard"


@dataclass(kw_only=True)
class Site:
    """One run. `clock` counts seconds; `say` tells a person what is waited for."""

    environment: Environment
    namespace: str
    began: str
    """UTC, ISO 8601."""
    pools: tuple[Pool, ...]
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    say: Callable[[str], None]
    image: str = ""
    """For probes; the one of the platform's own loops unless one is named."""
    ended_releases: "Callable[[], tuple[EndedRelease, ...]] | None" = None
    """The last release of each service that ended; None where nobody looks into a ledger."""
    _made: bool = False

    # -- reading -------------------------------------------------------------------------------------------------------------

    @property
    def api(self) -> KubernetesApi:
        return self.environment.kubernetes

    def items(self, path: str, selector: str = "") -> list[Object]:
        """Objects of a list, none of a kind that the cluster does not know. Raises OutOfReachError, UserError."""
        return (self.api.request("GET", path, {"labelSelector": selector} if selector else None) or {}).get("items", [])

    def tenants(self) -> list[Object]:
        """Tenants' namespaces by name."""
        return sorted(self.items("/api/v1/namespaces", TENANT), key=lambda body: body["metadata"]["name"])

    def nodes(self, pool_label: str) -> list[Object]:
        return self.items("/api/v1/nodes", pool_label)

    # -- probes --------------------------------------------------------------------------------------------------------------

    def create(self, kind_path: str, body: Object) -> None:
        """Make an object in the verification's namespace, which the first one makes. `kind_path`: `/api/v1/services`.
        Raises OutOfReachError, UserError."""
        if not self._made:
            self._made = True  # an answer that is lost may have been a yes
            self._create("/api/v1/namespaces", probe.namespace(self.namespace, self.began))
        group, _, plural = kind_path.rpartition("/")
        self._create(f"{group}/namespaces/{self.namespace}/{plural}", body)

    def start(self, probes: Sequence[Probe], *, only_placed: bool = False) -> None:
        """Post pods. Raises UserError where no image is known, unless they are `only_placed` and nothing pulls one."""
        image = (self.image or _NEVER_PULLED) if only_placed else self.probe_image()
        for each in probes:
            self.create("/api/v1/pods", probe.pod(each, image))

    def look(self, name: str) -> ProbeSeen:
        return probe.seen(self.api.get(f"{self._pods}/{name}"))

    def until(self, name: str, there: Callable[[ProbeSeen], bool], seconds: float) -> ProbeSeen:
        """The probe as soon as it is `there`, or as it is after `seconds`; what passes in between is said once."""
        deadline, told = self.clock() + seconds, ""
        while True:
            found = self.look(name)
            if there(found) or found.over or self.clock() >= deadline:
                return found
            if found.pending and found.pending != told:
                told = found.pending
                self.say(f"{name} waits: {told}")
            self.sleep(LOOK_SECONDS)

    def finished(self, probes: Sequence[Probe], seconds: float) -> Mapping[str, ProbeSeen]:
        """Post them and wait for their last words."""
        self.start(probes)
        return {each.name: self.until(each.name, lambda found: found.over, seconds) for each in probes}

    def remove(self, name: str) -> None:
        self.api.answer("DELETE", f"{self._pods}/{name}", {"gracePeriodSeconds": "0"})

    def probe_image(self) -> str:
        """Raises UserError where none is known."""
        if not self.image:
            body = self.api.get(_IMAGE_FROM)
            containers = body["spec"]["template"]["spec"]["containers"] if body else []
            self.image = str(containers[0]["image"]) if containers else ""
        if not self.image:
            raise UserError(
                "No image is known that a probe could run.",
                "Nothing can be looked at from inside the cluster.",
                "Name an image with Python by digest with --image, or let `headway:loops` of the platform layer name one.",
            )
        return self.image

    def close(self) -> str:
        """Remove all that was made; answers what is left and how to remove it, nothing where nothing is."""
        if not self._made:
            return ""
        path, failure = f"/api/v1/namespaces/{self.namespace}", "it is still being removed"
        try:
            answer = self.api.answer("DELETE", path)
            if not answer.ok and answer.status != NOT_FOUND:
                failure = answer.message
            deadline = self.clock() + GONE_SECONDS
            while self.clock() < deadline and (answer.ok or answer.status in (NOT_FOUND, CONFLICT)):
                if self.api.answer("GET", path).status == NOT_FOUND:
                    self._made = False
                    return ""
                self.sleep(LOOK_SECONDS)
        except OutOfReachError as trouble:
            failure = f"the API server does not answer: {trouble}"
        return f"Namespace {self.namespace} is left ({failure}). Remove it: `kubectl delete namespace {self.namespace}`."

    # -- HTTP ----------------------------------------------------------------------------------------------------------------

    def http(self, url: str, body: Any = None) -> bytes:
        """What a server of the platform answers; JSON is posted where there is a body. Raises OutOfReachError."""
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {})  # noqa: S310 - the port's own address
        try:
            with asked(request, HTTP_SECONDS) as answer:
                return body_of(answer, LARGEST_ANSWER)
        except urllib.error.HTTPError as refusal:
            raise OutOfReachError(f"{url.partition('?')[0]} answers {refusal.code}: {refusal_of(refusal)}") from None
        except OSError as failure:
            raise OutOfReachError(f"{url.partition('?')[0]} does not answer ({getattr(failure, 'reason', failure)})") from None

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def _create(self, path: str, body: Object) -> None:
        answer = self.api.answer("POST", path, body=body)
        if answer.status >= 500 or answer.status == 429:
            raise OutOfReachError(f"{path}: {answer.message}")
        if not answer.ok and answer.status != CONFLICT:
            raise UserError(
                f"The API server refuses {body.get('kind')} {body['metadata']['name']}: {answer.message}",
                "The check cannot look from inside the cluster.",
                "Use an identity that administers the cluster, or grant it what the message names.",
                Exit.REFUSED,
            )
