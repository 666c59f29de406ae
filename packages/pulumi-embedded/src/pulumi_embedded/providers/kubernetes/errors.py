"""The API server's refusals in the user's words: fact, consequence, remedy, and the path of every field at once.

Pure. Three traps: a wrong or unknown field under server-side apply comes back as HTTP 500; a policy's refusal says `Invalid` or
`Forbidden` as the policy pleases; and messages may repeat values, which for a Secret must not be shown.
"""

import re
from dataclasses import dataclass
from typing import Any

from pulumi_embedded.engine.provider import Properties, ProviderError
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind

_TYPED = re.compile(
    r"^\s*(?:failed to create typed patch object \([^)]*\): )?(?:errors:)?\s*\.?([^\s:]+): (field not declared in schema|expected .+)$",
    re.M,
)
_GO_VALUE = re.compile(r"&value\.valueUnstructured\{Value:(.*)\}")
_QUOTA = re.compile(r"exceeded quota: (?P<quota>[^,]+), requested: (?P<asked>.+), used: (?P<used>.+), limited: (?P<limit>.+)$", re.S)
_POLICY = re.compile(r"ValidatingAdmissionPolicy '(?P<policy>[^']+)' with binding '(?P<binding>[^']+)' denied request: (?P<why>.+)$", re.S)
_OWNER = re.compile(r'conflict with "([^"]+)"')
_TRANSIENT = ("status unknown for quota", "etcdserver:", "leader changed", "object has been modified", "connection refused", "try again")


class ApiUnreachableError(Exception):
    """No answer came from the API server within the patience of the call."""


class UnknownKindError(Exception):
    """The API server serves no such kind (any more, or yet)."""

    def __init__(self, kind: ObjectKind) -> None:
        super().__init__(str(kind))
        self.kind = kind


@dataclass(eq=False)
class ApiRefusal(Exception):  # noqa: N818 - it is the API server's word, not a fault of ours
    """An answer other than 2xx: its HTTP status and the fields of its Status object."""

    code: int
    reason: str
    message: str
    causes: tuple[tuple[str, str], ...] = ()
    """(field, message), as the API server gives them."""
    retry_after: float = 0.0
    """Seconds, from the answer's header."""

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}" if self.reason else f"{self.code}: {self.message}"

    @property
    def transient(self) -> bool:
        """Whether the same request may well succeed in a moment."""
        if self.code in (429, 503, 504):
            return True
        return self.code in (403, 409, 500) and self.reason != "FieldManagerConflict" and any(word in self.message for word in _TRANSIENT)

    @property
    def conflicts(self) -> tuple[tuple[str, str], ...]:
        """(field, its owner) of a server-side apply that another manager stands against."""
        found = ((field, _OWNER.search(message)) for field, message in self.causes)
        return tuple((field.lstrip("."), owner.group(1)) for field, owner in found if owner) if self.code == 409 else ()

    @property
    def misses_kind(self) -> bool:
        """The endpoint itself is not there: a definition that is established but not served yet, or gone."""
        return self.code == 404 and "could not find the requested resource" in self.message

    @property
    def governor(self) -> tuple[tuple[str, str], ...]:
        """(kind, name) of the objects whose rule this refusal states; a preview that changes one of them cannot trust it."""
        if quota := _QUOTA.search(self.message):
            return (("ResourceQuota", quota["quota"].strip()),)
        if policy := _POLICY.search(self.message):
            return (("ValidatingAdmissionPolicy", policy["policy"]), ("ValidatingAdmissionPolicyBinding", policy["binding"]))
        return ()


def refusal(code: int, body: Any, retry_after: str | None) -> ApiRefusal:
    """The refusal that an answer's Status object (or plain text) states."""
    status: Properties = body if isinstance(body, dict) else {"message": _in_words(str(body))}
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    pairs = tuple((str(cause.get("field", "")), str(cause.get("message", ""))) for cause in causes or () if isinstance(cause, dict))
    seconds = float(retry_after) if retry_after and retry_after.isdecimal() else 0.0
    return ApiRefusal(code, str(status.get("reason", "")), str(status.get("message", "")).strip(), pairs, seconds)


_LONGEST_WORDS = 300


def _in_words(text: str) -> str:
    """A plain text on one line, shortened: a page of HTML or a piece of JSON says no more."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_WORDS else f"{line[:_LONGEST_WORDS]}..."


def explain(error: ApiRefusal | UnknownKindError | ApiUnreachableError, kind: ObjectKind, where: str) -> ProviderError:
    """What to tell the user about `kind` at `where` (`namespace/name`)."""
    subject = f"{kind.kind} {where}"
    if isinstance(error, ApiUnreachableError):
        return ProviderError(
            f"{subject}: the Kubernetes API server does not answer ({error}), so the object was left as it is; "
            "start it, or correct the provider's kubeconfig, then run the update again"
        )
    if isinstance(error, UnknownKindError):
        return ProviderError(
            f"{subject}: the API server serves no kind {kind}, so the object cannot exist; install its CustomResourceDefinition first "
            "(depends_on the Release or the definition that brings it), or correct apiVersion and kind"
        )
    return ProviderError(f"{subject}: {_because(error, secret=kind == _SECRET)}")


_SECRET = ObjectKind("", "v1", "Secret")


def _because(error: ApiRefusal, *, secret: bool) -> str:
    if error.conflicts:
        owners = "".join(f"\n  {field}: owned by {owner}" for field, owner in sorted(error.conflicts))
        return (
            f"another manager owns fields that this update would change, so nothing was changed:{owners}\n"
            'leave the fields out, list them in ignoreChanges, or take them over with the annotation pulumi.com/patchForce: "true"'
        )
    if quota := _QUOTA.search(error.message):
        return (
            f"the quota {quota['quota'].strip()} of its namespace would be exceeded, so nothing was created: "
            f"requested {quota['asked']}, used {quota['used']}, limit {quota['limit']}; ask for less, free some, or raise the quota"
        )
    if policy := _POLICY.search(error.message):
        return (
            f"the cluster's admission policy {policy['policy']} (binding {policy['binding']}) refused it, so nothing was changed: "
            f"{policy['why']}; change the object so that the policy holds"
        )
    if fields := _fields(error, secret=secret):
        lines = "".join(f"\n  {field}: {why}" for field, why in fields)
        return f"the API server refused it, so nothing was changed:{lines}\ncorrect the fields in the program"
    return _plain(error, secret=secret)


def _fields(error: ApiRefusal, *, secret: bool) -> list[tuple[str, str]]:
    typed = [(field, _GO_VALUE.sub(r"\1", why)) for field, why in _TYPED.findall(error.message) if error.code in (400, 422, 500)]
    found = typed or [(field.lstrip("."), why) for field, why in error.causes if field and error.code in (400, 422)]
    return sorted(
        {
            (field, "is not valid (the reason is not shown: it may repeat the value)" if secret and "not declared" not in why else why)
            for field, why in found
        }
    )


def _plain(error: ApiRefusal, *, secret: bool) -> str:
    said = (
        f"({error.code} {error.reason})" if secret and error.code in (400, 422, 500) else error.message or f"({error.code} {error.reason})"
    )
    if error.code >= 500:
        return (
            f"the API server cannot do it now, so the object may be as it was: {said}; its store (etcd) or a webhook may be away: "
            "run the update again when `kubectl get --raw /readyz` says ok"
        )
    if error.code == 401:
        return f"the API server does not accept the credentials of the kubeconfig, so nothing was done; renew them: {said}"
    if error.code == 403 and "being terminated" in error.message:
        return f"its namespace is being deleted, so nothing can be created in it: {said}; run the update again when it is gone"
    if error.code == 403:
        return f"the API server forbids it, so nothing was changed: {said}; give the user of the kubeconfig the right, or change the object"
    if error.code == 404 and "namespaces" in error.message:
        return f"its namespace does not exist, so nothing was created: {said}; create the Namespace in the program and refer to its name"
    if error.code == 422 and "immutable" in error.message:
        return f"a field cannot be changed in place, so nothing was changed: {said}; replace the object with --replace"
    return f"the API server refused it, so nothing was changed: {said}; correct the object in the program"
