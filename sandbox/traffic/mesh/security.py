"""Who may call: RequestAuthentications and AuthorizationPolicies as Envoy's jwt_authn and RBAC filters. Pure.

Tokens of the contracts' issuers are verified with keys of the sandbox's own (`tokens.py`), because no issuer can be
reached. A rule about the caller's namespace or service account is taken as met: it rests on mutual TLS, which is not
done here. Without `clear_route_cache` the route is chosen before the claims are headers, and a client that forges the
header picks its own.
"""

from collections.abc import Iterable, Mapping, Sequence

from sandbox.traffic.mesh.object_reader import Reader, items
from sandbox.traffic.mesh.snapshot import MeshSnapshot
from sandbox.traffic.mesh.types import EnvoyMessage, MeshObject

JWT, RBAC = "envoy.filters.http.jwt_authn", "envoy.filters.http.rbac"
_RULE = {"issuer", "audiences", "jwksUri", "forwardOriginalToken", "outputClaimToHeaders"}
_SOURCE = {"requestPrincipals", "notRequestPrincipals", "namespaces", "principals"}
_OPERATION = {"hosts", "notHosts", "paths", "notPaths", "methods"}
_AUDIENCES = "request.auth.audiences"
_PAYLOAD = "payload"


def check_authentication(item: MeshObject) -> Reader:
    reader = Reader.of(item)
    reader.only(item["spec"], "spec", {"selector", "jwtRules"})
    for path, rule in items(item["spec"].get("jwtRules"), "spec.jwtRules"):
        reader.only(rule, path, _RULE)
    return reader


def check_authorization(item: MeshObject) -> Reader:
    reader, spec = Reader.of(item), item.get("spec") or {}
    reader.only(spec, "spec", {"selector", "action", "rules"})
    reader.choice(spec.get("action", "ALLOW"), "spec.action", {"ALLOW", "DENY"})
    for path, rule in items(spec.get("rules"), "spec.rules"):
        reader.only(rule, path, {"from", "to", "when"})
        for place, each in items(rule.get("from"), f"{path}.from"):
            reader.only(each.get("source") or {}, f"{place}.source", _SOURCE)
            if {"namespaces", "principals"} & set(each.get("source") or {}) and spec.get("action") == "DENY":
                reader.refuse(f"{place}.source", "a refusal by the caller's identity rests on mutual TLS, which is not done here")
        for place, each in items(rule.get("to"), f"{path}.to"):
            reader.only(each.get("operation") or {}, f"{place}.operation", _OPERATION)
        for place, each in items(rule.get("when"), f"{path}.when"):
            reader.choice(each["key"], f"{place}.key", {_AUDIENCES})
    return reader


def authentication(rules: Iterable[MeshObject], keys: Mapping[str, str]) -> EnvoyMessage | None:
    """The filter that verifies tokens; `keys` are issuers to their key sets (JSON). None without rules."""
    found = [rule for item in rules for rule in item["spec"].get("jwtRules") or ()]
    if not found:
        return None
    providers = {f"provider-{number}": _provider(rule, keys[rule["issuer"]]) for number, rule in enumerate(found)}
    anyone = [{"provider_name": name} for name in providers] + [{"allow_missing": {}}]
    return {
        "name": JWT,
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
            "providers": providers,
            "rules": [{"match": {"prefix": "/"}, "requires": {"requires_any": {"requirements": anyone}}}],
        },
    }


def _provider(rule: MeshObject, keys: str) -> EnvoyMessage:
    return {
        "issuer": rule["issuer"],
        "audiences": list(rule.get("audiences") or ()),
        "forward": bool(rule.get("forwardOriginalToken", False)),
        "payload_in_metadata": _PAYLOAD,
        "clear_route_cache": True,
        "local_jwks": {"inline_string": keys},
        "claim_to_headers": [
            {"header_name": each["header"], "claim_name": each["claim"]} for each in rule.get("outputClaimToHeaders") or ()
        ],
    }


def claimed_headers(rules: Iterable[MeshObject]) -> list[str]:
    """Headers that only a verified token may set; what a client sends under these names is dropped before."""
    return sorted(
        {each["header"] for item in rules for rule in item["spec"].get("jwtRules") or () for each in rule.get("outputClaimToHeaders") or ()}
    )


def authorization(policies: Sequence[MeshObject]) -> list[EnvoyMessage]:
    """The filters that refuse and allow, as istiod orders them: refusals first; where any policy allows, one must
    match."""
    filters: list[EnvoyMessage] = []
    for action in ("DENY", "ALLOW"):
        chosen = [item for item in policies if (item.get("spec") or {}).get("action", "ALLOW") == action]
        if chosen:
            filters.append(_rbac(action, chosen))
    return filters


def of_workload(snapshot: MeshSnapshot, namespace: str, labels: MeshObject) -> list[MeshObject]:
    return snapshot.selecting("AuthorizationPolicy", namespace, labels)


def _rbac(action: str, policies: Sequence[MeshObject]) -> EnvoyMessage:
    rules: EnvoyMessage = {}
    for item in policies:
        name = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        for number, rule in enumerate((item.get("spec") or {}).get("rules") or ()):
            rules[f"{name}/{number}"] = {"permissions": [_permission(rule)], "principals": [_principal(rule)]}
    return {
        "name": f"{RBAC}.{action.lower()}",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
            "rules": {"action": action, "policies": rules},
        },
    }


def _all(parts: Sequence[EnvoyMessage]) -> EnvoyMessage:
    return {"and_rules": {"rules": list(parts)}} if parts else {"any": True}


def _permission(rule: MeshObject) -> EnvoyMessage:
    operations = [each.get("operation") or {} for each in rule.get("to") or ()]
    if not operations:
        return {"any": True}
    return {"or_rules": {"rules": [_operation(each) for each in operations]}}


def _operation(given: MeshObject) -> EnvoyMessage:
    parts: list[EnvoyMessage] = []
    for key, made in (("hosts", _host), ("paths", _path)):
        if given.get(key):
            parts.append({"or_rules": {"rules": [made(value) for value in given[key]]}})
        negated = f"not{key.capitalize()}"
        if given.get(negated):
            parts.append({"not_rule": {"or_rules": {"rules": [made(value) for value in given[negated]]}}})
    if given.get("methods"):
        parts.append({"or_rules": {"rules": [{"header": _text(":method", value)} for value in given["methods"]]}})
    return _all(parts)


def _host(value: str) -> EnvoyMessage:
    return {"header": _text(":authority", value, ignore_case=True)}


def _path(value: str) -> EnvoyMessage:
    if "{" in value:
        # As istiod writes Istio's own wildcards; Envoy 1.40 ends with an uncaught exception on the braces.
        pattern = {"path_template": value.replace("{**}", "**").replace("{*}", "*")}
        typed = {"@type": "type.googleapis.com/envoy.extensions.path.match.uri_template.v3.UriTemplateMatchConfig", **pattern}
        return {"uri_template": {"name": "uri-template", "typed_config": typed}}
    return {"url_path": {"path": _pattern(value)}}


def _text(header: str, value: str, *, ignore_case: bool = False) -> EnvoyMessage:
    return {"name": header, "string_match": {**_pattern(value), **({"ignore_case": True} if ignore_case else {})}}


def _pattern(value: str) -> EnvoyMessage:
    """Istio's string match: `*` anything, `x*` a prefix, `*x` a suffix, else exactly."""
    if value == "*":
        return {"safe_regex": {"regex": ".+"}}
    if value.endswith("*"):
        return {"prefix": value[:-1]}
    return {"suffix": value[1:]} if value.startswith("*") else {"exact": value}


def _principal(rule: MeshObject) -> EnvoyMessage:
    parts: list[EnvoyMessage] = []
    sources = [each.get("source") or {} for each in rule.get("from") or ()]
    if sources:
        parts.append({"or_ids": {"ids": [_source(each) for each in sources]}})
    for each in rule.get("when") or ():
        if each.get("values"):
            parts.append({"or_ids": {"ids": [_audience(value) for value in each["values"]]}})
        if each.get("notValues"):
            parts.append({"not_id": {"or_ids": {"ids": [_audience(value) for value in each["notValues"]]}}})
    return {"and_ids": {"ids": parts}} if parts else {"any": True}


def _source(given: MeshObject) -> EnvoyMessage:
    parts: list[EnvoyMessage] = []
    if given.get("requestPrincipals"):
        parts.append({"or_ids": {"ids": [_caller(value) for value in given["requestPrincipals"]]}})
    if given.get("notRequestPrincipals"):
        parts.append({"not_id": {"or_ids": {"ids": [_caller(value) for value in given["notRequestPrincipals"]]}}})
    return {"and_ids": {"ids": parts}} if parts else {"any": True}


def _caller(value: str) -> EnvoyMessage:
    """`<issuer>/<subject>`; a subject of `*` is anyone whom the issuer vouches for, and no token without a subject
    (istio/istio, pilot/pkg/security/authz/model/generator.go, requestPrincipalGenerator).
    """
    issuer, _, subject = value.rpartition("/")
    said = (("iss", {"exact": issuer}), ("sub", _pattern(subject)))
    return {"and_ids": {"ids": [_claim(name, {"string_match": match}) for name, match in said]}}


def _audience(value: str) -> EnvoyMessage:
    """A token's audience is one text or a list of them."""
    match = {"string_match": _pattern(value)}
    return {"or_ids": {"ids": [_claim("aud", match), _claim("aud", {"list_match": {"one_of": match}})]}}


def _claim(name: str, match: EnvoyMessage) -> EnvoyMessage:
    wanted = {"filter": JWT, "path": [{"key": _PAYLOAD}, {"key": name}], "value": match}
    return {"sourced_metadata": {"metadata_matcher": wanted, "metadata_source": "DYNAMIC"}}
