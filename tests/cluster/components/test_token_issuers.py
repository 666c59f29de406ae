"""Whose keys an issuer has, against a real API server: the first tenant's word stands, whoever comes after and however."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from components.platform import token_issuers
from components.tenant import access
from headway.wire import GATEWAY_NAMESPACE
from tests.cluster.conftest import ControlPlane, eventually
from tests.cluster.definitions import define
from tests.components.contracts import MODELS, SURROUNDINGS, tenant

ISSUER, KEYS = "https://login.test/staff", "https://login.test/staff/certs"


def rules(name: str, keys: str = KEYS, issuer: str = ISSUER) -> dict[str, Any]:
    """A tenant's tokens as its layer renders them, with this one issuer."""
    made = dict(access.gateway_rules(tenant("vision"), [MODELS["defects"]], SURROUNDINGS))["tokens"]
    rule = {**made["spec"]["jwtRules"][0], "issuer": issuer, "jwksUri": keys}
    return {**made, "metadata": {**made["metadata"], "name": f"tenant-{name}"}, "spec": {**made["spec"], "jwtRules": [rule]}}


def with_keys(body: dict[str, Any], keys: str) -> dict[str, Any]:
    (rule,) = body["spec"]["jwtRules"]
    return {**body, "spec": {**body["spec"], "jwtRules": [{**{key: said for key, said in rule.items() if key != "jwksUri"}, "jwks": keys}]}}


@pytest.fixture(scope="module")
def gateway(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    define(control_plane, "istio", "RequestAuthentication")
    control_plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GATEWAY_NAMESPACE}})
    control_plane.create(*(dict(manifest.body) for manifest in token_issuers.manifests()))
    control_plane.create(rules("victim"))
    eventually(lambda: refusal(control_plane, rules("probe", "https://evil.test/keys")))
    yield control_plane


def refusal(plane: ControlPlane, body: dict[str, Any], *, change: bool = False) -> str:
    """What the API server says against it; empty where it would take it."""
    kind = plane.resource(body)
    dry: dict[str, Any] = {"namespace": GATEWAY_NAMESPACE, "query_params": [("dryRun", "All")]}
    try:
        if change:
            kind.patch(body=body, name=body["metadata"]["name"], content_type="application/merge-patch+json", **dry)
        else:
            kind.create(body=body, **dry)
    except ApiException as error:
        assert error.status == 422 or error.status == 403, error
        return str(json.loads(error.body or "{}")["message"])
    return ""


def test_keys_of_its_own_for_anothers_issuer_are_refused(gateway: ControlPlane) -> None:
    evil, own = rules("attacker", "https://evil.test/keys"), rules("attacker", "https://own.test/keys", "https://own.test")
    beside = {**own, "spec": {**own["spec"], "jwtRules": [*own["spec"]["jwtRules"], *evil["spec"]["jwtRules"]]}}
    for body in (evil, beside):
        assert "tenant-victim states other keys for an issuer of this object" in refusal(gateway, body)


def test_keys_that_stand_in_the_object_itself_are_refused_too(gateway: ControlPlane) -> None:
    assert "tenant-victim" in refusal(gateway, with_keys(rules("attacker"), '{"keys": []}'))
    gateway.create(with_keys(rules("inside", issuer="https://inside.test"), '{"keys": []}'))
    theirs = rules("attacker", issuer="https://inside.test")
    assert "tenant-inside" in refusal(gateway, with_keys(theirs, '{"keys": [{}]}'))
    assert refusal(gateway, with_keys(theirs, '{"keys": []}')) == ""


def test_one_that_is_there_is_not_changed_into_it(gateway: ControlPlane) -> None:
    gateway.create(rules("neighbour", issuer="https://other.test"))
    assert "tenant-victim" in refusal(gateway, rules("neighbour", "https://evil.test/keys"), change=True)


def test_two_tenants_may_share_an_issuer_with_its_keys(gateway: ControlPlane) -> None:
    assert refusal(gateway, rules("friend")) == ""


def test_a_tenant_alone_with_its_issuer_may_move_its_keys(gateway: ControlPlane) -> None:
    gateway.create(rules("alone", "https://alone.test/1", "https://alone.test"))
    assert refusal(gateway, rules("alone", "https://alone.test/2", "https://alone.test"), change=True) == ""
