"""VirtualServices as Envoy's routes, the way istiod writes them. Pure.

Order is kept: the first route that matches wins. A match that names gateways holds for those only; the same
VirtualService yields other routes at the gateway than inside the mesh.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from sandbox.traffic.mesh.object_reader import Reader, duration, items, seconds
from sandbox.traffic.mesh.snapshot import MeshSnapshot, cluster_name, destination_port, full_host
from sandbox.traffic.mesh.types import EnvoyMessage, MeshObject

MESH = "mesh"
_SPEC = {"hosts", "gateways", "http"}
_HTTP = {"name", "match", "route", "timeout", "retries", "mirror", "mirrorPercentage", "headers", "directResponse"}
_MATCH = {"name", "headers", "withoutHeaders", "uri", "method", "port", "gateways"}
_ROUTE = {"destination", "weight", "headers"}
_RETRIES = {"attempts", "perTryTimeout", "retryOn"}
_HOST_ATTEMPTS = 5
"""As istiod: a retry looks this often for a replica that was not tried yet."""
_RETRY_ON = "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes"
"""Of istiod, where a route says nothing."""
_REASONS = {
    *("5xx", "gateway-error", "reset", "reset-before-request", "connect-failure", "retriable-4xx", "refused-stream"),
    *("retriable-status-codes", "retriable-headers", "envoy-ratelimited", "http3-post-connect-failure"),
    *("cancelled", "deadline-exceeded", "internal", "resource-exhausted", "unavailable"),
}
"""What istiod's webhook takes for `retryOn`, beside status codes."""


def check(item: MeshObject) -> Reader:
    """Everything in a VirtualService that is not modelled."""
    reader, spec = Reader.of(item), item["spec"]
    reader.only(spec, "spec", _SPEC)
    for path, rule in items(spec.get("http"), "spec.http"):
        reader.only(rule, path, _HTTP)
        for place, match in items(rule.get("match"), f"{path}.match"):
            reader.only(match, place, _MATCH)
            for name, text in [*(match.get("headers") or {}).items(), *(match.get("withoutHeaders") or {}).items()]:
                reader.only(text, f"{place}.headers[{name}]", {"exact", "prefix", "regex"})
            for name in ("uri", "method"):
                reader.only(match.get(name) or {}, f"{place}.{name}", {"exact", "prefix", "regex"})
        for place, route in items(rule.get("route"), f"{path}.route"):
            reader.only(route, place, _ROUTE)
            reader.only(route["destination"], f"{place}.destination", {"host", "port"})
            _check_headers(reader, route.get("headers") or {}, f"{place}.headers")
        _check_headers(reader, rule.get("headers") or {}, f"{path}.headers")
        reader.only(rule.get("retries") or {}, f"{path}.retries", _RETRIES)
        for reason in _reasons((rule.get("retries") or {}).get("retryOn") or ""):
            if not reason.isdigit():
                reader.choice(reason, f"{path}.retries.retryOn", _REASONS)
        reader.only(rule.get("mirror") or {}, f"{path}.mirror", {"host", "port"})
        answer = rule.get("directResponse") or {}
        reader.only(answer, f"{path}.directResponse", {"status", "body"})
        reader.only(answer.get("body") or {}, f"{path}.directResponse.body", {"string"})
        if not rule.get("route") and "directResponse" not in rule:
            reader.refuse(path, "leads nowhere: neither route nor directResponse")
        if len(rule.get("route") or ()) > 1 and sum(int(each.get("weight", 0)) for each in rule["route"]) != 100:
            reader.refuse(f"{path}.route", "weights do not add up to 100")
    return reader


def _check_headers(reader: Reader, headers: MeshObject, path: str) -> None:
    reader.only(headers, path, {"request", "response"})
    for side in ("request", "response"):
        reader.only(headers.get(side) or {}, f"{path}.{side}", {"set", "add", "remove"})


def hosts(item: MeshObject) -> list[str]:
    return [full_host(host, item["metadata"]["namespace"]) for host in item["spec"]["hosts"]]


def gateways(item: MeshObject) -> list[str]:
    """Names of gateways as `<namespace>/<name>`, or `mesh`; without any it is the mesh."""
    place = item["metadata"]["namespace"]
    return [each if each == MESH or "/" in each else f"{place}/{each}" for each in item["spec"].get("gateways") or (MESH,)]


def routes(item: MeshObject, gateway: str, listener_port: int, snapshot: MeshSnapshot) -> list[EnvoyMessage]:
    """Routes of one VirtualService at a gateway (or MESH) that listens on `listener_port` as the cluster sees it."""
    return [route for rule in item["spec"].get("http") or () for route in _rule(rule, item, gateway, listener_port, snapshot)]


def _rule(rule: MeshObject, item: MeshObject, gateway: str, listener_port: int, snapshot: MeshSnapshot) -> Iterator[EnvoyMessage]:
    namespace = item["metadata"]["namespace"]
    for match in rule.get("match") or ({},):
        named = [each if each == MESH or "/" in each else f"{namespace}/{each}" for each in match.get("gateways") or ()]
        if (named and gateway not in named) or match.get("port", listener_port) != listener_port:
            continue
        # As istiod, so that a log tells which match it was.
        name = ".".join(filter(None, (rule.get("name") or "default", match.get("name"))))
        made: EnvoyMessage = {"name": name, "match": _match(match)}
        if "directResponse" in rule:
            answer = rule["directResponse"]
            body = (answer.get("body") or {}).get("string")
            made["direct_response"] = {"status": answer["status"], **({"body": {"inline_string": body}} if body else {})}
        else:
            made["route"] = _action(rule, namespace, listener_port, snapshot)
        made |= _headers(rule.get("headers") or {})
        yield made


def _match(match: MeshObject) -> EnvoyMessage:
    uri = match.get("uri") or {}
    if "exact" in uri:
        found: EnvoyMessage = {"path": uri["exact"]}
    elif "regex" in uri:
        found = {"safe_regex": {"regex": uri["regex"]}}
    else:
        found = {"prefix": uri.get("prefix", "/")}
    headers = [_header(name, text) for name, text in sorted((match.get("headers") or {}).items())]
    headers += [{**_header(name, text), "invert_match": True} for name, text in sorted((match.get("withoutHeaders") or {}).items())]
    if match.get("method"):
        headers.append(_header(":method", match["method"]))
    return {**found, **({"headers": headers} if headers else {})}


def _header(name: str, text: MeshObject) -> EnvoyMessage:
    if not text:
        return {"name": name, "present_match": True}
    kind, value = next(iter(text.items()))
    return {"name": name, "string_match": {"safe_regex": {"regex": value}} if kind == "regex" else {kind: value}}


def _action(rule: MeshObject, namespace: str, listener_port: int, snapshot: MeshSnapshot) -> EnvoyMessage:
    def cluster(destination: MeshObject) -> str:
        host = full_host(destination["host"], namespace)
        asked = (destination.get("port") or {}).get("number")
        return cluster_name(host, destination_port(snapshot, host, asked, listener_port))

    targets = rule["route"]
    key = _sticky(targets, namespace, snapshot)
    action: EnvoyMessage = {"timeout": duration(rule["timeout"]) if rule.get("timeout") else "0s"}
    if key:
        action["hash_policy"] = [{"header": {"header_name": key}}]
    if len(targets) == 1 and not targets[0].get("headers"):
        action["cluster"] = cluster(targets[0]["destination"])
    else:
        weighted: EnvoyMessage = {
            "clusters": [
                {
                    "name": cluster(each["destination"]),
                    "weight": int(each.get("weight", 100 if len(targets) == 1 else 0)),
                    **_headers(each.get("headers") or {}),
                }
                for each in targets
            ]
        }
        if key:
            weighted["use_hash_policy"] = True
        action["weighted_clusters"] = weighted
    again = retries(rule.get("retries"), sticky=key is not None)
    if again is not None:
        action["retry_policy"] = again
    if rule.get("mirror"):
        percent = float((rule.get("mirrorPercentage") or {}).get("value", 100.0))
        share = {"default_value": {"numerator": round(percent * 10_000), "denominator": "MILLION"}}
        action["request_mirror_policies"] = [{"cluster": cluster(rule["mirror"]), "runtime_fraction": share}]
    return action


def _sticky(targets: list[MeshObject], namespace: str, snapshot: MeshSnapshot) -> str | None:
    """The header by which a destination's rule keeps a caller with one replica: it then also decides the arm."""
    for each in targets:
        host = full_host(each["destination"]["host"], namespace)
        for item in snapshot.of_kind("DestinationRule"):
            if full_host(item["spec"]["host"], item["metadata"]["namespace"]) == host:
                balancer = (item["spec"].get("trafficPolicy") or {}).get("loadBalancer") or {}
                name = (balancer.get("consistentHash") or {}).get("httpHeaderName")
                if name:
                    return str(name)
    return None


def retries(given: MeshObject | None, *, sticky: bool = False) -> EnvoyMessage | None:
    """The retry policy of a route as istiod writes it: its own where the route has none, none for no attempts.

    On another replica where there is one, unless callers are kept with theirs.
    """
    asked = given or {}
    if int(asked.get("attempts", 2 if given is None else 0)) <= 0:
        return None
    reasons = _reasons(asked.get("retryOn") or _RETRY_ON)
    codes = [int(each) for each in reasons if each.isdigit()]
    named = [each for each in reasons if not each.isdigit()]
    if codes and "retriable-status-codes" not in named:
        named.append("retriable-status-codes")
    found: EnvoyMessage = {
        "num_retries": int(asked.get("attempts", 2)),
        "retry_on": ",".join(named),
        "host_selection_retry_max_attempts": str(_HOST_ATTEMPTS),
    }
    if codes:
        found["retriable_status_codes"] = codes
    if not sticky:
        typed = {"@type": "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"}
        found["retry_host_predicate"] = [{"name": "envoy.retry_host_predicates.previous_hosts", "typed_config": typed}]
    if asked.get("perTryTimeout") and seconds(asked["perTryTimeout"]) > 0:
        found["per_try_timeout"] = duration(asked["perTryTimeout"])
    return found


def _reasons(text: str) -> list[str]:
    return [part for each in text.split(",") if (part := each.strip())]


def _headers(given: Mapping[str, Any]) -> EnvoyMessage:
    found: EnvoyMessage = {}
    for side in ("request", "response"):
        wanted = given.get(side) or {}
        added = [_option(name, value, "OVERWRITE_IF_EXISTS_OR_ADD") for name, value in sorted((wanted.get("set") or {}).items())]
        added += [_option(name, value, "APPEND_IF_EXISTS_OR_ADD") for name, value in sorted((wanted.get("add") or {}).items())]
        if added:
            found[f"{side}_headers_to_add"] = added
        if wanted.get("remove"):
            found[f"{side}_headers_to_remove"] = sorted(wanted["remove"])
    return found


def _option(name: str, value: str, action: str) -> EnvoyMessage:
    return {"header": {"key": name, "value": value}, "append_action": action}
