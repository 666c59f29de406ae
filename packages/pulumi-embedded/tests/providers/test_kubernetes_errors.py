"""What the user reads when the API server refuses, and which answers are only passing."""

import pytest

from pulumi_embedded.providers.kubernetes.errors import ApiRefusal, ApiUnreachableError, UnknownKindError, explain, refusal
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind

DEPLOYMENT = ObjectKind("apps", "v1", "Deployment")
SECRET = ObjectKind("", "v1", "Secret")
# Recorded from kube-apiserver v1.36.2.
TYPED = (
    "failed to create typed patch object (team/x; networking.istio.io/v1, Kind=VirtualService): errors:\n"
    "  .spec.http[0].route[0].weight: expected numeric (int or float), got string\n"
    "  .spec.http[0].routez: field not declared in schema"
)
TYPED_ONE = (
    "failed to create typed patch object (team/x; apps/v1, Kind=Deployment): "
    '.spec.template.spec.containers[name="c"].imagee: field not declared in schema'
)
QUOTA = 'services "web2" is forbidden: exceeded quota: q, requested: services=1, used: services=1, limited: services=1'
POLICY = "configmaps \"b\" is forbidden: ValidatingAdmissionPolicy 'no-bad' with binding 'everywhere' denied request: no bad names"


def told(error: ApiRefusal | UnknownKindError | ApiUnreachableError, kind: ObjectKind = DEPLOYMENT) -> str:
    return str(explain(error, kind, "team/x"))


def test_every_wrong_field_is_named_by_its_path_though_the_answer_is_a_500() -> None:
    text = told(ApiRefusal(500, "", TYPED))
    assert "\n  spec.http[0].route[0].weight: expected numeric (int or float), got string\n" in text
    assert "\n  spec.http[0].routez: field not declared in schema\n" in text
    assert "correct the fields" in text


def test_a_single_wrong_field_is_named_without_the_types_around_it() -> None:
    assert '\n  spec.template.spec.containers[name="c"].imagee: field not declared in schema\n' in told(ApiRefusal(500, "", TYPED_ONE))
    assert "typed patch" not in told(ApiRefusal(500, "", TYPED_ONE))


def test_a_value_of_the_wrong_type_is_shown_without_the_servers_own_types() -> None:
    message = "failed to create typed patch object (t/x; apps/v1, Kind=Deployment): .spec.image: expected string, got &value.valueUnstructured{Value:5}"
    assert "spec.image: expected string, got 5\n" in told(ApiRefusal(500, "", message))


def test_every_cause_of_a_validation_error_is_named() -> None:
    causes = (("spec.replicas", "Invalid value: -1: must not be negative"), ("spec.selector", "Required value"))
    text = told(ApiRefusal(422, "Invalid", "Deployment.apps is invalid", causes))
    assert "\n  spec.replicas: Invalid value: -1: must not be negative\n  spec.selector: Required value\n" in text


def test_a_conflict_names_the_other_owner_and_the_ways_out() -> None:
    text = told(ApiRefusal(409, "Conflict", "Apply failed", ((".spec.replicas", 'conflict with "keda" using autoscaling/v1'),)))
    assert "spec.replicas: owned by keda" in text
    assert "pulumi.com/patchForce" in text
    assert "ignoreChanges" in text


def test_an_exceeded_quota_is_told_with_its_figures() -> None:
    text = told(ApiRefusal(403, "Forbidden", QUOTA))
    assert all(part in text for part in ("quota q ", "requested services=1", "used services=1", "limit services=1"))


def test_a_policy_is_named_with_its_reason() -> None:
    text = told(ApiRefusal(422, "Invalid", POLICY))
    assert all(part in text for part in ("no-bad", "everywhere", "no bad names"))


@pytest.mark.parametrize(
    "error",
    [
        ApiRefusal(422, "Invalid", 'Secret "x" is invalid', (("data[a]", 'Invalid value: "hunter2": bad'),)),
        ApiRefusal(500, "", "failed to create typed patch object (t/x; v1, Kind=Secret): .stringData.a: expected string, got hunter2"),
        ApiRefusal(400, "BadRequest", "illegal base64 data: hunter2"),
    ],
)
def test_the_value_of_a_secret_is_never_shown(error: ApiRefusal) -> None:
    assert "hunter2" not in told(error, SECRET)
    assert "Secret team/x" in told(error, SECRET)


def test_the_path_of_a_wrong_field_in_a_secret_is_still_shown() -> None:
    assert "data[a]" in told(ApiRefusal(422, "Invalid", "x", (("data[a]", 'Invalid value: "hunter2"'),)), SECRET)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (ApiRefusal(401, "Unauthorized", "Unauthorized"), "credentials"),
        (ApiRefusal(403, "Forbidden", "unable to create new content in namespace t because it is being terminated"), "is being deleted"),
        (ApiRefusal(403, "Forbidden", 'User "u" cannot patch resource'), "give the user"),
        (ApiRefusal(404, "NotFound", 'namespaces "t" not found'), "create the Namespace"),
        (ApiRefusal(422, "Invalid", "spec is immutable after creation"), "--replace"),
        (ApiRefusal(418, "", "no tea"), "correct the object"),
        (UnknownKindError(ObjectKind("keda.sh", "v1", "ScaledObject")), "CustomResourceDefinition"),
        (ApiUnreachableError("refused"), "start it, or correct the provider's kubeconfig"),
    ],
)
def test_every_refusal_says_what_to_do(error: ApiRefusal | UnknownKindError | ApiUnreachableError, remedy: str) -> None:
    assert remedy in told(error)
    assert told(error).startswith("Deployment team/x: ")


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (ApiRefusal(429, "TooManyRequests", ""), True),
        (ApiRefusal(503, "ServiceUnavailable", ""), True),
        (ApiRefusal(500, "InternalError", "etcdserver: leader changed"), True),
        (ApiRefusal(403, "Forbidden", "status unknown for quota: q, resources: pods"), True),
        (ApiRefusal(409, "Conflict", "the object has been modified; please apply your changes to the latest version and try again"), True),
        (ApiRefusal(500, "", TYPED), False),
        (ApiRefusal(403, "Forbidden", QUOTA), False),
        (ApiRefusal(409, "Conflict", "Apply failed with 1 conflict", (("a", 'conflict with "b"'),)), False),
        (ApiRefusal(422, "Invalid", "etcdserver:"), False),
    ],
)
def test_only_what_may_pass_is_repeated(error: ApiRefusal, passing: bool) -> None:
    assert error.transient is passing


def test_a_refusal_names_the_objects_whose_rule_it_states() -> None:
    assert ApiRefusal(403, "", QUOTA).governor == (("ResourceQuota", "q"),)
    assert ApiRefusal(422, "", POLICY).governor == (
        ("ValidatingAdmissionPolicy", "no-bad"),
        ("ValidatingAdmissionPolicyBinding", "everywhere"),
    )
    assert ApiRefusal(422, "", "other").governor == ()


def test_an_answer_is_read_with_its_causes_and_its_patience() -> None:
    body = {"reason": "Invalid", "message": " m ", "details": {"causes": [{"field": ".a", "message": "b"}]}}
    found = refusal(422, body, "7")
    assert (found.code, found.reason, found.message, found.causes, found.retry_after) == (422, "Invalid", "m", ((".a", "b"),), 7.0)


def test_an_answer_that_is_plain_text_is_read_too() -> None:
    assert refusal(404, "404 page not found", None).message == "404 page not found"


@pytest.mark.parametrize("said", ["rpc error: code = Unavailable desc = etcd is gone", "context deadline exceeded", ""])
def test_a_server_whose_store_is_gone_is_not_said_to_refuse_the_object(said: str) -> None:
    text = told(refusal(500, {"kind": "Status", "code": 500, "reason": "InternalError", "message": said}, None))
    assert "cannot do it now" in text and "etcd" in text and "correct the object" not in text


def test_a_page_or_a_piece_of_json_is_said_on_one_short_line() -> None:
    text = told(refusal(502, '{"a":\n' + "[" * 5000, None))
    assert len(text) < 800 and "\n" not in text
