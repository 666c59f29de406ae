"""The instances of the Auto Scaling group behind a node group, as the account keeps them. Pure.

An instance is its ordinal, from which its node gets name and identity; an ordinal is never given twice in the life of a
group. It is launched at once and joins the cluster later. The trap: without a record (nobody but updates of the node
group ever changed it) the group has the first `desiredSize` ordinals, and all of them have joined.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pulumi_embedded.engine.provider import Properties
from pulumi_embedded.providers.aws.account import AccountObject


@dataclass(frozen=True, kw_only=True)
class Instance:
    """`joins` is None once its node was made."""

    ordinal: int
    launched: datetime
    joins: datetime | None = None

    def due(self, now: datetime) -> bool:
        return self.joins is None or self.joins <= now


@dataclass(frozen=True, kw_only=True)
class GroupInstances:
    """As many as the group is to have: the simulated account fills every order."""

    instances: tuple[Instance, ...]
    following: int
    """The next ordinal."""

    @classmethod
    def of(cls, object: AccountObject) -> "GroupInstances":
        return cls.read(object, object.beside)

    @classmethod
    def read(cls, object: AccountObject, record: Properties | None) -> "GroupInstances":
        if record is None:
            count = int(object.inputs["scalingConfig"]["desiredSize"])
            return cls(instances=tuple(Instance(ordinal=n, launched=object.created) for n in range(count)), following=count)
        instances = [
            Instance(ordinal=int(number), launched=datetime.fromisoformat(launched), joins=datetime.fromisoformat(joins) if joins else None)
            for number, launched, joins in record["instances"]
        ]
        return cls(instances=tuple(instances), following=int(record["following"]))

    @property
    def desired(self) -> int:
        return len(self.instances)

    def record(self) -> Properties:
        rows = [[each.ordinal, each.launched.isoformat(), each.joins.isoformat() if each.joins else None] for each in self.instances]
        return {"instances": rows, "following": self.following}

    def resized(self, count: int, now: datetime, boot: timedelta | None = None) -> "GroupInstances":
        """With `count` of them: the youngest go, and new ones join after `boot`, or are taken to have joined."""
        added = [
            Instance(ordinal=self.following + n, launched=now, joins=now + boot if boot is not None else None)
            for n in range(count - self.desired)
        ]
        return GroupInstances(instances=(*self.instances[:count], *added), following=self.following + len(added))

    def without(self, ordinal: int) -> "GroupInstances":
        return replace(self, instances=tuple(each for each in self.instances if each.ordinal != ordinal))

    def joined(self, ordinals: Collection[int]) -> "GroupInstances":
        return replace(self, instances=tuple(replace(each, joins=None) if each.ordinal in ordinals else each for each in self.instances))
