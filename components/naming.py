"""Physical names: the one place that knows how long a name may be and which characters it may hold.

Logical names (Pulumi's state keys) are not made here: they are `f"{name}-{role}"` in the component itself. Cutting a
name at its limit makes two long names equal; here a name that is too long ends in a digest of the whole of it.
"""

import hashlib
import re

LABEL_LIMIT = 63
"""Characters of a DNS label and of a Kubernetes label value (RFC 1123)."""

ROLE_LIMIT = 64
"""Characters of an IAM role name."""

POLICY_NAME_LIMIT = 128
"""Characters of the name of an IAM policy."""

BUCKET_LIMIT = 63
"""Characters of an S3 bucket name."""

QUEUE_LIMIT = 75
"""Characters of an SQS queue name (80), less those of its dead-letter queue's ending."""

DIGEST_CHARACTERS = 8
"""32 bits: with 10,000 names that are cut, the chance of any two meeting is about 1 %; they also share the part
before the digest.
"""

_FOREIGN = re.compile(r"[^a-z0-9]+")


def physical(*parts: str, limit: int = LABEL_LIMIT) -> str:
    """One DNS-safe name out of `parts`: lower case, joined by hyphens, at most `limit` characters.

    A name that had to be changed in any way but its case (cut, or characters replaced) ends in a digest of the
    original parts, so that different parts never become the same name by the change. Raises ValueError when nothing
    legal is left of the parts.
    """
    if limit <= DIGEST_CHARACTERS + 1:
        raise ValueError(f"a limit of {limit} leaves no room for a name beside its {DIGEST_CHARACTERS}-character digest")
    plain = "-".join(parts).lower()
    name = _FOREIGN.sub("-", plain).strip("-")
    if not name:
        raise ValueError(f"no letter or digit in {parts!r}: a name needs at least one")
    if name == plain and len(name) <= limit:
        return name
    return _cut(name, parts, limit)


def _cut(name: str, parts: tuple[str, ...], limit: int) -> str:
    """`name` with a digest of `parts` at its end; the digest alone where there is room for no more."""
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:DIGEST_CHARACTERS]
    beginning = name[: max(0, limit - DIGEST_CHARACTERS - 1)].rstrip("-")
    return f"{beginning}-{digest}" if beginning else digest


def distinct(*parts: str, limit: int) -> str:
    """One name out of DNS labels, at most `limit` characters, that no other labels give: hyphens between them would
    make the model `b-c` of tenant `a` one with the model `c` of `a-b`, so they are joined by underscores, which no
    label holds. Only the last is cut where there is room for a digest: by the others, policies know whose it is.
    """
    name, owner = "_".join(parts), "_".join(parts[:-1])
    if len(name) <= limit:
        return name
    room = limit - len(owner) - 1
    return physical(*parts, limit=limit) if room < DIGEST_CHARACTERS else f"{owner}_{_cut(parts[-1], parts, room)}"


def label_value(text: str) -> str:
    """`text` as a Kubernetes label value: unchanged where that is legal, else made legal with a digest. Empty stays
    empty.
    """
    if len(text) <= LABEL_LIMIT and re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?", text):
        return text
    return physical(text)


def cluster_name(environment: str) -> str:
    """The EKS cluster of an environment: known while planning, so that ARNs and tags can name it."""
    return physical("headway", environment)


def cluster_arn(environment: str, account_id: str, region: str) -> str:
    """What tells the EKS cluster of an environment from every other one."""
    return f"arn:aws:eks:{region}:{account_id}:cluster/{cluster_name(environment)}"


def bucket_name(environment: str, role: str, account_id: str) -> str:
    """A bucket of an environment; the account makes it unique in the world."""
    return physical("headway", environment, role, account_id, limit=BUCKET_LIMIT)


def bucket_arn(physical_name: str) -> str:
    """The ARN of a bucket."""
    return f"arn:aws:s3:::{physical_name}"


def batch_queue_name(environment: str) -> str:
    """The queue of batch requests of an environment."""
    return physical(cluster_name(environment), "batch", limit=QUEUE_LIMIT)
