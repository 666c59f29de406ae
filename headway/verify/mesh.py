"""Whether what is said in the mesh is encrypted: what its objects demand, and what a server answers to plain text. The
judgements are pure.

Source: Istio documentation, "PeerAuthentication": the narrowest of mesh, namespace and workload wins, and PERMISSIVE
takes plain text and mutual TLS alike.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headway.environment.port import Facility
from headway.problem import Problem
from headway.verify.outcome import Sighting, failed, together
from headway.verify.probe import LABELS, NAME_LABEL, Probe, ProbeSeen
from headway.verify.site import Site
from headway.wire import MESH_NAMESPACE

RULE = "mesh"
SERVER, PLAIN, TRUSTED = "encrypted", "plain", "trusted"
PORT = 8080
SECONDS = 180.0
STRICT = "STRICT"
_PEERS = "/apis/security.istio.io/v1/peerauthentications"
_INJECTION = "istio-injection"
_PROXY = "istio-proxy"


def look(site: Site) -> Sighting:
    """Judge what the mesh demands of everybody, then ask a server of our own with and without encryption."""
    tenants = site.tenants()
    pods = {body["metadata"]["name"]: site.items(f"/api/v1/namespaces/{body['metadata']['name']}/pods") for body in tenants}
    lacks = site.environment.cannot_show(Facility.ENCRYPTION)
    judged = judge_objects(tenants, site.items(_PEERS), {} if lacks else pods)
    if lacks:
        return together((judged, Sighting(not_shown=(f"No plain text was sent to an encrypted server: {lacks}.",))))
    return together((judged, _asked(site)))


def judge_objects(
    tenants: Sequence[Mapping[str, Any]], peers: Sequence[Mapping[str, Any]], pods: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Sighting:
    """Whether mutual TLS is demanded in the whole mesh and by nobody taken back, and whether tenants' pods have proxies."""
    problems = [*_weaker(peers), *_outside(tenants, pods)]
    root = [
        each
        for each in peers
        if each["metadata"]["namespace"] == MESH_NAMESPACE and not (each.get("spec") or {}).get("selector") and _mode(each) == STRICT
    ]
    if not root:
        problems.append(
            _problem(
                "the mesh",
                f"No PeerAuthentication of {MESH_NAMESPACE} demands mutual TLS of everybody",
                "Namespaces without one of their own take plain text",
                "Deploy the platform layer again: it makes PeerAuthentication default",
            )
        )
    said = f"Mutual TLS is demanded in the whole mesh, and {len(peers)} PeerAuthentications take nothing of it back."
    proxies = sum(len(found) for found in pods.values())
    evidence = (said, *((f"{proxies} pods of {len(tenants)} tenants have their proxies.",) if proxies else ()))
    return Sighting(evidence=() if problems else evidence, problems=tuple(problems))


def _weaker(peers: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    for each in sorted(peers, key=_key):
        ports = (each.get("spec") or {}).get("portLevelMtls") or {}
        weak = [mode for mode in (_mode(each), *(entry.get("mode") for entry in ports.values())) if mode in ("PERMISSIVE", "DISABLE")]
        if weak:
            yield _problem(
                _key(each),
                f"PeerAuthentication {_key(each)} is {weak[0]}",
                "Whoever reaches these pods may speak to them in plain text, as nobody in particular",
                "Set its mtls.mode to STRICT, or delete it: the namespace's own and the mesh's then hold",
            )


def _outside(tenants: Sequence[Mapping[str, Any]], pods: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Problem]:
    for tenant in tenants:
        name = tenant["metadata"]["name"]
        if (tenant["metadata"].get("labels") or {}).get(_INJECTION) != "enabled":
            yield _problem(
                f"tenant {name}",
                f"Namespace {name} does not ask for the mesh's proxies ({_INJECTION} is not enabled)",
                "Pods that start from now on have none: nothing encrypts, counts or closes what they send",
                "Deploy the tenant layer again",
            )
    for name, found in sorted(pods.items()):
        for body in found:
            spec = body.get("spec") or {}
            inside = {each["name"] for kind in ("containers", "initContainers") for each in spec.get(kind) or ()}
            if _PROXY not in inside:
                yield _problem(
                    f"pod {name}/{body['metadata']['name']}",
                    f"Pod {body['metadata']['name']} of {name} has no proxy of the mesh",
                    "It takes plain text from whoever reaches it",
                    "Delete it, so that it is made anew; if it comes back without one, look at istiod's injection webhook",
                )


def objects() -> Iterator[tuple[str, dict[str, Any]]]:
    """(path, body): a Service for the server, without which no proxy knows that it speaks mutual TLS, and the rule that
    lets the namespace's own requests in, for the mesh refuses all by default."""
    meta = {"name": SERVER, "labels": dict(LABELS)}
    ports = [{"name": "http", "port": PORT, "targetPort": PORT}]
    yield (
        "/api/v1/services",
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": {NAME_LABEL: SERVER}, "ports": ports}},
    )
    yield (
        "/apis/security.istio.io/v1/authorizationpolicies",
        {
            "apiVersion": "security.istio.io/v1",
            "kind": "AuthorizationPolicy",
            "metadata": meta,
            "spec": {"selector": {"matchLabels": {NAME_LABEL: SERVER}}, "action": "ALLOW", "rules": [{}]},
        },
    )


def clients(namespace: str) -> tuple[Probe, Probe]:
    """The same question without a proxy and with one."""
    question = {"url": f"http://{SERVER}.{namespace}.svc.cluster.local:{PORT}/"}
    return Probe(name=PLAIN, task="ask", question=question), Probe(name=TRUSTED, task="ask", question=question, meshed=True)


def judge_answers(plain: ProbeSeen, trusted: ProbeSeen) -> Sighting:
    """Plain text refused, mutual TLS accepted: the second proves that the first was a refusal and no silence."""
    if plain.word is None or trusted.word is None:
        said = f"plain: {plain.phase} {plain.pending}; trusted: {trusted.phase} {trusted.pending}"
        return Sighting(unanswered=(f"The probes have not said what they were answered ({said}).",))
    with_proxy, without = str(trusted.word.get("answer")), str(plain.word.get("answer"))
    if with_proxy != "200":
        return failed(
            _problem(
                "the mesh",
                f"A request by mutual TLS to a server of the mesh was answered {with_proxy}",
                "Models that ask one another are not answered, and the refusal of plain text proves nothing",
                "`istioctl proxy-status`; `kubectl logs -n istio-system deploy/istiod`",
            ),
        )
    if without.isdigit():
        return failed(
            _problem(
                "the mesh",
                f"A server of the mesh answered plain text ({without})",
                "Requests can be read on the way, and callers need no identity",
                f"`kubectl get peerauthentication -A`: {MESH_NAMESPACE}/default must be STRICT",
            ),
        )
    return Sighting(evidence=(f"A server of the mesh refused plain text ({without}) and answered mutual TLS.",))


def _asked(site: Site) -> Sighting:
    for path, body in objects():
        site.create(path, body)
    site.start([Probe(name=SERVER, task="serve", question={"port": PORT, "seconds": SECONDS}, port=PORT, meshed=True)])
    server = site.until(SERVER, lambda found: found.running and bool(found.address), SECONDS)
    if not server.running:
        return Sighting(unanswered=(f"The probe that serves does not run ({server.pending or server.phase}).",))
    found = site.finished(clients(site.namespace), SECONDS)
    return judge_answers(found[PLAIN], found[TRUSTED])


def _mode(peer: Mapping[str, Any]) -> str:
    return str(((peer.get("spec") or {}).get("mtls") or {}).get("mode") or "UNSET")


def _key(body: Mapping[str, Any]) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def _problem(subject: str, fact: str, consequence: str, remedy: str) -> Problem:
    return Problem(rule=RULE, subject=subject, fact=fact, consequence=consequence, remedy=remedy)
