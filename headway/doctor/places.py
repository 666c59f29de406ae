"""Whether what the environment will reach is there: names of buckets, images, and the way from here to the API server. The
judgements are pure.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network

from headway.capacity.described import Described
from headway.doctor.check import DoctorResult, Unanswered, judged, unknown, wrong
from headway.problem import Problem, ProblemLevel

BUCKETS, IMAGES, REACH = "buckets", "images", "reachability"
_MODEL_WAITS = "No replica of the model starts, and the tenant's update fails when the start-up budget is spent"
BUCKET_ROLES = ("access-logs", "artifacts", "ledger", "telemetry")


class BucketOwner(StrEnum):
    """Of a name that is one for the whole world."""

    NOBODY = "nobody"
    OURS = "ours"
    ANOTHER = "another"
    ELSEWHERE = "elsewhere"
    """Ours, in another region."""


def bucket_names(environment: str, layer: Described) -> tuple[str, ...]:
    """As `components/naming.py` makes them, where they need no shortening; a test holds the two to each other."""
    return tuple(f"headway-{environment}-{role}-{layer.account_id}" for role in BUCKET_ROLES)


def judge_buckets(owners: Mapping[str, BucketOwner] | Unanswered) -> DoctorResult:
    """Whether each name is free, or this account's already."""
    if isinstance(owners, Unanswered):
        return unknown(BUCKETS, owners)
    problems = [
        Problem(
            rule=BUCKETS,
            subject=f"bucket {name}",
            fact=f"Bucket {name} belongs to another account",
            consequence="The cluster layer fails when it makes its storage, for names of buckets are one for the whole world",
            remedy="Choose another name for the environment; if the other account is yours too, delete the bucket there",
        )
        for name, owner in sorted(owners.items())
        if owner is BucketOwner.ANOTHER
    ] + [
        Problem(
            rule=BUCKETS,
            subject=f"bucket {name}",
            path=("account", "region"),
            fact=f"Bucket {name} is this account's, in another region",
            consequence="The cluster layer fails at its roles and buckets: an account has each name of them once, whatever the region",
            remedy="Bring up the environment of the other region in another account, or correct headway:account.region",
        )
        for name, owner in sorted(owners.items())
        if owner is BucketOwner.ELSEWHERE
    ]
    ours = sum(owner is BucketOwner.OURS for owner in owners.values())
    return judged(BUCKETS, f"{len(owners) - ours} names of buckets are free, and {ours} are this account's.", problems)


def judge_images(found: Mapping[str, bool | Unanswered], contracts: Mapping[str, str], loops: str | None = None) -> DoctorResult:
    """Whether each image, by the address from which nodes will pull it, is there. A registry that did not answer hides no
    image that is missing. `contracts`: who serves from an image, as tenant/model, by image; `loops`: the loops' own."""
    silent = {name: answer for name, answer in found.items() if isinstance(answer, Unanswered)}
    problems = [
        Problem(
            rule=IMAGES,
            subject=contracts.get(name, name),
            fact=f"There is no image {name}",
            consequence=_MODEL_WAITS if name in contracts else "Its pods never start, and the chart that waits for them fails the apply",
            remedy="Name an image that its registry has, in runtime.image of the contract"
            if name in contracts
            else "Make it: `headway loops push`"
            if name == loops
            else "Fill the mirror: `headway mirror --push REGISTRY/PREFIX`; or correct the version in components/versions.py",
        )
        for name, answer in sorted(found.items())
        if answer is False
    ]
    if silent and not problems:
        name, answer = next(iter(sorted(silent.items())))
        return unknown(IMAGES, Unanswered(f"{len(silent)} of {len(found)} images could not be asked for, {name} first ({answer.why})"))
    return judged(IMAGES, f"All {len(found)} images are there.", problems)


def judge_reach(layer: Described, own: Sequence[str], answers: bool | Unanswered) -> DoctorResult:
    """Whether this machine reaches the API server. `own`: its addresses; `answers`: whether the endpoint takes a connection
    from here, or why that could not be tried, as before the cluster exists."""
    if answers is True:
        return judged(REACH, "The API server takes connections from here.")
    inside = [IPv4Network(cidr) for cidr in (layer.cidr, *layer.private_cidrs) if cidr]
    near = [address for address in own if any(IPv4Address(address) in network for network in inside)]
    if answers is False or (not layer.public_cidrs and not near):
        open_to = ", ".join(layer.public_cidrs) or "nobody on the internet"
        return wrong(
            Problem(
                rule=REACH,
                path=("control_plane", "public_cidrs"),
                value=list(layer.public_cidrs),
                fact="The API server takes no connection from here"
                if answers is False
                else f"The API server will be open to {open_to}, and no address of this machine is in its network",
                consequence="The platform and the tenants cannot be deployed from here",
                remedy="Run it from within the network or a range of private_cidrs, or name this machine's public range in public_cidrs",
                level=ProblemLevel.ERROR if answers is False else ProblemLevel.WARNING,
            )
        )
    if near:
        return judged(REACH, f"{near[0]} is in a range from which the API server will be reached.")
    return unknown(REACH, answers)
