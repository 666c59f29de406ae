"""The double of the pulumi aws provider: checks as the SDK, the service models and the catalogue say, and keeps what it makes in an account.

Trap: `create` may be repeated after a kill, and the engine says when it is. What the cut-off one made is to AWS somebody's object, and so it
is here: its name is taken, and what has no name is made a second time (pulumi/pulumi#11599), but for what a creation only sets
(`overwriting.py`). A host whose own command goes on where it was killed says `takes_over`: an object that this URN made and that the engine
has not named in this operation is then adopted when its inputs are the same and discarded when they are not.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pulumi_embedded.engine.provider import (
    UNKNOWN,
    CheckFailure,
    CheckResult,
    DiffKind,
    DiffResult,
    LiveResource,
    PartialFailureError,
    Properties,
    Provider,
    ProviderError,
    ProviderStep,
)
from pulumi_embedded.providers.aws import functions, offerings, references
from pulumi_embedded.providers.aws.account import AccountObject, SimulatedAccount
from pulumi_embedded.providers.aws.backend import ObjectBackend
from pulumi_embedded.providers.aws.catalogue import CATALOGUE
from pulumi_embedded.providers.aws.changes import compare
from pulumi_embedded.providers.aws.kind import ACCOUNT_ID, AwsKind, Facts, at, merged_tags
from pulumi_embedded.providers.aws.limits import violations
from pulumi_embedded.providers.aws.naming import identified, is_made_up, made_up_name
from pulumi_embedded.providers.aws.overwriting import ANSWERED_AGAIN, OVERWRITTEN
from pulumi_embedded.providers.conform import closest, join, nonconformities
from pulumi_embedded.providers.schema import declares, provider_schema

VERSION = "7.51.1"
_MAX_TAGS, _MAX_TAG_KEY, _MAX_TAG_VALUE = 50, 128, 256
"""AWS tagging limits, general reference."""
_FORCED = {"aws:iam/role:Role": "forceDetachPolicies", "aws:cloudwatch/eventRule:EventRule": "forceDestroy"}
"""Input that makes the deletion of an object take along what would otherwise forbid it."""
_PROTECTION = {"aws:eks/cluster:Cluster": "deletionProtection", "aws:cloudwatch/logGroup:LogGroup": "deletionProtectionEnabled"}


@dataclass(frozen=True)
class AccountSite:
    """What one simulated account holds, and what stands behind it."""

    account: SimulatedAccount
    backends: Mapping[str, ObjectBackend]


class AwsProvider(Provider):
    """One provider resource: a region and default tags over one account. `connect` opens the account of an id."""

    package = "aws"
    version = VERSION

    def __init__(
        self,
        connect: Callable[[str], AccountSite],
        *,
        environment: Mapping[str, str],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        takes_over: bool = False,
    ) -> None:
        self._connect, self._takes_over = connect, takes_over
        self._connected: AccountSite | None = None
        self._account_id = ACCOUNT_ID
        self._environment = environment
        self._clock = clock
        self._region = ""
        self._tags: Mapping[str, str] = {}
        self._named_by_engine: set[tuple[str, str]] = set()

    # -- configuration

    def check_config(self, urn: str, old: Properties, new: Properties) -> CheckResult:
        inputs = {key: _decoded(value) for key, value in new.items()}
        own = {key: value for key, value in inputs.items() if key not in ("version", "pluginDownloadURL")}
        failures = nonconformities(own, provider_schema("aws"), "the aws provider")
        region = self._region_of(inputs)
        if region == "":
            failures.append(CheckFailure("region", "no region: set the configuration aws:region or the variable AWS_REGION"))
        elif region != UNKNOWN and region not in offerings.regions():
            known = ", ".join(offerings.regions())
            failures.append(
                CheckFailure("region", f'"{region}" is no region the double knows{closest(region, offerings.regions())}: {known}')
            )
        forbidden, account = own.get("forbiddenAccountIds"), _account_of(own)
        if isinstance(forbidden, list) and account in forbidden:
            failures.append(CheckFailure("forbiddenAccountIds", f"AWS account ID not allowed: {account}, the simulated account, is listed"))
        for index, id in enumerate(own.get("allowedAccountIds") or []):
            if id != UNKNOWN and not re.fullmatch(r"\d{12}", str(id)):
                failures.append(CheckFailure(f"allowedAccountIds[{index}]", f'"{id}" is no AWS account ID: it has 12 digits'))
        failures += _tag_failures(at(own, "defaultTags.tags"), "defaultTags.tags")
        return CheckResult(new, tuple(failures))

    def diff_config(self, urn: str, old: Properties, new: Properties) -> DiffResult:
        changed: dict[str, DiffKind] = {}
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                changed[key] = "add" if key not in old else "delete" if key not in new else "update"
        # Another region is another place: nothing of the old one can be found there.
        replaces = ("region",) if "region" in changed and self._region_of(old) != self._region_of(new) else ()
        return DiffResult(changed, replaces)

    def configure(self, inputs: Properties) -> None:
        decoded = {key: _decoded(value) for key, value in inputs.items()}
        self._account_id = _account_of(decoded)
        self._connected = self._connect(self._account_id)
        self._region = self._region_of(decoded)
        self._tags = dict(at(decoded, "defaultTags.tags") or {})

    def _region_of(self, inputs: Properties) -> str:
        return str(inputs.get("region") or self._environment.get("AWS_REGION") or self._environment.get("AWS_DEFAULT_REGION") or "")

    # -- resources

    def check(self, urn: str, type: str, name: str, old: Properties | None, new: Properties) -> CheckResult:
        kind = CATALOGUE.get(type)
        if kind is None:
            return CheckResult(new, (CheckFailure("", _unmodelled(type)),))
        inputs = self._named(kind, urn, name, old, new)
        region = self._place(kind, inputs)
        failures = nonconformities(inputs, kind.schema.inputs, type)
        # Values of the wrong form would only be complained about twice.
        wrong = {re.split(r"[.\[]", failure.property)[0] for failure in failures}
        sound = {key: value for key, value in inputs.items() if key not in wrong}
        failures += violations(sound, kind.limits)
        if not failures:
            failures += [failure for rule in kind.rules for failure in rule(sound, region)]
        failures += _tag_failures(sound.get("tags"), "tags")
        if region and region != UNKNOWN and region not in offerings.regions():
            failures.append(CheckFailure("region", f'"{region}" is no region the double knows: {", ".join(offerings.regions())}'))
        return CheckResult(inputs, tuple(failures))

    def diff(
        self,
        urn: str,
        type: str,
        id: str,
        old_inputs: Properties,
        old_outputs: Properties,
        new: Properties,
        ignore_changes: Sequence[str],
    ) -> DiffResult:
        kind = self._kind(type)
        self._named_by_engine.add((urn, id))
        result = compare(kind, old_inputs, new, same_name=self._keeps_name(kind, urn, id, old_inputs, new))
        details = dict(result.details)
        if "tagsAll" in kind.schema.outputs.members and "tags" not in {path.split(".")[0].split("[")[0] for path in details}:
            tags = merged_tags(Facts(inputs=new, urn=urn, region="", tags=self._tags))
            if tags != old_outputs.get("tagsAll", tags):
                details["tagsAll"] = "update"
        object = self._account.get(type, id, self._place(kind, old_inputs))
        if object is not None:
            details |= dict.fromkeys(self._backend(type).drifted(object), "update")
        return DiffResult(details, result.replaces, result.delete_before_replace)

    def create(self, urn: str, type: str, name: str, inputs: Properties, step: ProviderStep) -> tuple[str, Properties]:
        kind = self._kind(type)
        facts = self._facts(kind, urn, inputs, self._account.generation(urn) + 1)
        if step.preview:
            return "", kind.compute(facts)
        known = {id for own, id in self._named_by_engine if own == urn}
        found_again = step.repeated and (self._takes_over or type in OVERWRITTEN or type in ANSWERED_AGAIN)
        orphan = self._account.orphan(type, urn, known) if found_again else None
        if orphan is not None and orphan.inputs == _concealed(kind, inputs):
            return self._finish(kind, orphan, inputs, step)
        if orphan is not None and (self._takes_over or type in OVERWRITTEN):
            self._discard(orphan, step)
        references.check(self._account, kind, facts)
        facts = replace(facts, created=self._clock(), extra=self._backend(type).before(facts))
        facts = identified(kind, facts)
        outputs = kind.compute(facts)
        try:
            object = self._account.insert(
                type, facts.id, self._record_region(kind, facts), urn, _concealed(kind, inputs), _concealed(kind, outputs), dict(facts.extra),
                facts.created or self._clock(), references.handles(kind, facts.id, outputs), references.links(kind, facts),
            )  # fmt: skip
        except KeyError as error:
            handle = error.args[0]
            whose = (
                "this resource's own creation was cut off and may have made it: delete it there"
                if step.repeated
                else ("it belongs to another resource: choose another name")
            )
            raise ProviderError(
                f"AlreadyExists: {handle.of} {handle.value} exists in the simulated account; {whose}, or import it"
            ) from None
        return self._finish(kind, object, inputs, step)

    def read(self, urn: str, type: str, id: str, inputs: Properties, outputs: Properties) -> LiveResource | None:
        kind = self._kind(type)
        self._named_by_engine.add((urn, id))
        object = self._account.get(type, id, self._place(kind, inputs))
        if object is None:
            return None
        recorded = {key: value for key, value in object.inputs.items() if not inputs or key in inputs}
        for key in kind.concealed:
            if key in recorded and recorded[key] == _digest(inputs.get(key)):
                recorded[key] = inputs[key]
        live = self._backend(type).live(object, recorded)
        if live is None:
            return None
        return LiveResource(id, live, {**object.outputs, **{key: outputs[key] for key in kind.concealed if key in outputs}})

    def update(
        self, urn: str, type: str, id: str, old_inputs: Properties, old_outputs: Properties, new: Properties, step: ProviderStep
    ) -> Properties:
        kind = self._kind(type)
        self._named_by_engine.add((urn, id))
        object = self._account.get(type, id, self._place(kind, new))
        if object is None and not step.preview:
            raise ProviderError(f"{kind.title} {id} does not exist any more in the simulated account; run a refresh, then up again")
        facts = self._facts(kind, urn, new, object.generation if object else 1)
        arn = object.outputs.get("arn", "") if object else old_outputs.get("arn", "")
        facts = replace(facts, id=id, arn=arn, created=object.created if object else None, extra=object.extra if object else {})
        if step.preview or object is None:
            return kind.compute(facts, updating=True)
        references.check(self._account, kind, facts)
        backend = self._backend(type)
        facts = replace(facts, extra=backend.before(facts))
        checked = replace(object, extra=dict(facts.extra), outputs=kind.compute(facts))
        facts = replace(facts, extra=backend.updated(checked, old_inputs, facts.inputs, step))
        return self._record(kind, object, facts, new)

    def delete(self, urn: str, type: str, id: str, inputs: Properties, outputs: Properties, step: ProviderStep) -> None:
        kind = self._kind(type)
        self._named_by_engine.add((urn, id))
        object = self._account.get(type, id, self._place(kind, inputs))
        if object is None:
            return
        protection = _PROTECTION.get(type)
        if protection and object.inputs.get(protection) is True:
            raise ProviderError(f"{kind.title} {id} cannot be deleted: {protection} is true; set it to false, run up, then delete it")
        forced = object.inputs.get(_FORCED.get(type, "")) is True
        held = [] if forced else self._account.holders(object, "blocks")
        if held:
            by = "; ".join(f"{schema_title(other)} {other.name} ({other.id}, by {path})" for other, path in held[:5])
            more = f" and {len(held) - 5} more" if len(held) > 5 else ""
            raise ProviderError(
                f"DependencyViolation: {kind.title} {id} cannot be deleted while others need it: {by}{more}; delete those first"
            )
        self._discard(object, step)

    def invoke(self, token: str, args: Properties, preview: bool) -> Properties:
        where = functions.Where(self._region, self._account_id, self._tags, self._connected.account.of if self._connected else None)
        return functions.answer(token, args, where)

    def plan(self, type: str, inputs: Properties, old_outputs: Properties | None) -> Properties:
        """Without a configuration neither region nor account is known, so nothing computed is."""
        kind = CATALOGUE.get(type)
        return (
            kind.compute(Facts(inputs=inputs, urn="", region=UNKNOWN, account=UNKNOWN)) if kind else super().plan(type, inputs, old_outputs)
        )

    def close(self) -> None:
        if self._connected is not None:
            self._connected.account.close()

    # -- inside

    @property
    def _account(self) -> SimulatedAccount:
        if self._connected is None:
            raise ProviderError("the aws provider is not configured yet; its region or another of its inputs is not known")
        return self._connected.account

    def _kind(self, type: str) -> AwsKind:
        kind = CATALOGUE.get(type)
        if kind is None:
            raise ProviderError(_unmodelled(type))
        return kind

    def _backend(self, type: str) -> ObjectBackend:
        return self._connected.backends.get(type, _RECORD_ONLY) if self._connected else _RECORD_ONLY

    def _place(self, kind: AwsKind, inputs: Properties) -> str:
        return "" if kind.is_global else str(inputs.get("region") or self._region)

    def _record_region(self, kind: AwsKind, facts: Facts) -> str:
        return "" if kind.is_global else facts.region

    def _facts(self, kind: AwsKind, urn: str, inputs: Properties, generation: int) -> Facts:
        region = str(inputs.get("region") or self._region)
        facts = Facts(inputs=inputs, urn=urn, region=region, generation=generation, tags=self._tags, account=self._account_id)
        named = kind.named
        if named and named.prefix and inputs.get(named.field) is None and isinstance(inputs.get(named.prefix), str):
            made_up = UNKNOWN if inputs[named.prefix] == UNKNOWN else inputs[named.prefix] + facts.digest("name")[:17]
            facts = replace(facts, inputs={**inputs, named.field: made_up})
        return facts

    def _named(self, kind: AwsKind, urn: str, name: str, old: Properties | None, new: Properties) -> Properties:
        named = kind.named
        if named is None or new.get(named.field) is not None or (named.prefix and new.get(named.prefix) is not None):
            return dict(new)
        before = (old or {}).get(named.field)
        if isinstance(before, str) and is_made_up(named, name, before):
            return {**new, named.field: before}
        generation = self._connected.account.generation(urn) if self._connected else 0
        return {**new, named.field: made_up_name(named, name, f"{urn}#{generation + 1}")}

    def _keeps_name(self, kind: AwsKind, urn: str, id: str, old: Properties, new: Properties) -> bool:
        """Whether a replacement would find its own name, or the id that follows from its inputs, taken by its predecessor."""
        if kind.named is None:
            facts = replace(self._facts(kind, urn, new, self._account.generation(urn) + 1), created=self._clock())
            return identified(kind, facts).id == id
        value = new.get(kind.named.field)
        if value is None or value == UNKNOWN or value != old.get(kind.named.field):
            return False
        return not is_made_up(kind.named, urn.rsplit("::", 1)[-1], str(value))

    def _finish(self, kind: AwsKind, object: AccountObject, inputs: Properties, step: ProviderStep) -> tuple[str, Properties]:
        """Make the recorded object real and record what that taught; also the second half of a create that was killed."""
        facts = self._facts(kind, object.urn, inputs, object.generation)
        facts = replace(facts, id=object.id, arn=object.outputs.get("arn", ""), created=object.created, extra=object.extra)
        current = replace(object, outputs=kind.compute(facts))
        try:
            extra = self._backend(object.type).created(current, facts.inputs, step)
        except PartialFailureError:
            raise
        except Exception:
            self._account.delete(object.key)
            raise
        outputs = self._record(kind, object, replace(facts, extra=extra), inputs)
        return object.id, outputs

    def _record(self, kind: AwsKind, object: AccountObject, facts: Facts, inputs: Properties) -> Properties:
        outputs = kind.compute(facts)
        self._account.update(
            object.key, object.region, _concealed(kind, inputs), _concealed(kind, outputs), dict(facts.extra),
            references.handles(kind, object.id, outputs), references.links(kind, facts),
        )  # fmt: skip
        return outputs

    def _discard(self, object: AccountObject, step: ProviderStep) -> None:
        """What AWS refuses, the backend refuses first; what belonged to the object then goes with it."""
        self._backend(object.type).deleted(object, step)
        self._forget(object)

    def _forget(self, object: AccountObject) -> None:
        going = self._account.holders(object, "falls")
        if object.inputs.get(_FORCED.get(object.type, "")) is True:
            going += self._account.holders(object, "blocks")
        self._account.delete(object.key)
        for other, _ in going:
            self._forget(other)


_RECORD_ONLY = ObjectBackend()


def schema_title(object: AccountObject) -> str:
    """Class name of an object's type."""
    return object.type.rsplit(":", 1)[-1]


def _unmodelled(type: str) -> str:
    if not declares(type):
        return (
            f"{type} is no resource of pulumi_aws {VERSION}{closest(type, CATALOGUE)}; the README of pulumi-embedded lists what is modelled"
        )
    return (
        f"{type} is not modelled by the embedded aws provider{closest(type, CATALOGUE)}; it knows the {len(CATALOGUE)} types that the README of "
        "pulumi-embedded lists: add it to providers/aws/catalogue, or leave it out of this stack"
    )


def _tag_failures(tags: Any, path: str) -> list[CheckFailure]:
    if not isinstance(tags, dict):
        return []
    found = [CheckFailure(path, f"{len(tags)} tags; AWS allows {_MAX_TAGS}")] if len(tags) > _MAX_TAGS else []
    for key, value in tags.items():
        if key.lower().startswith("aws:"):
            found.append(CheckFailure(join(path, key), "tag keys that begin with aws: are reserved"))
        if len(key) > _MAX_TAG_KEY or (isinstance(value, str) and len(value) > _MAX_TAG_VALUE):
            found.append(
                CheckFailure(join(path, key), f"AWS allows {_MAX_TAG_KEY} characters in a tag's key and {_MAX_TAG_VALUE} in its value")
            )
    return found


def _decoded(value: Any) -> Any:
    """Provider configuration arrives as JSON text wherever it is not a string."""
    if not isinstance(value, str) or value == UNKNOWN:
        return value
    try:
        decoded = json.loads(value)
    except ValueError:
        return value
    return decoded if isinstance(decoded, (dict, list, bool)) else value


def _account_of(config: Properties) -> str:
    """The double stands in for the account that the program expects; the check that it is that one has nothing to compare."""
    allowed = config.get("allowedAccountIds")
    named = [str(id) for id in allowed if id != UNKNOWN] if isinstance(allowed, list) else []
    return ACCOUNT_ID if ACCOUNT_ID in named or not named else named[0]


def _concealed(kind: AwsKind, values: Properties) -> Properties:
    """`values` as the account may keep them: of a secret only its digest."""
    return {key: _digest(value) if key in kind.concealed and value is not None else value for key, value in values.items()}


def _digest(value: Any) -> str:
    return "sha256:" + hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
