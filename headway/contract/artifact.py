"""The model artifact: immutable files in object storage, each with its SHA-256 and size, and where the registry knows them from.

The artifact's own digest is derived from its file list, never written, so that it cannot disagree with it. A URI `artifacts://...` lies in the
artifact bucket of whichever environment reads the contract, so that one contract, and with it one release id, moves from staging to production.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum, unique
from typing import Annotated

from pydantic import Field

from headway.contract.part import Digest, Part, Text, between
from headway.contract.units import Bytes
from headway.problem import Problem, problem


@unique
class Registry(StrEnum):
    """The system that keeps a model's versions and approvals; not the store that holds its files."""

    MLFLOW = "mlflow"
    SAGEMAKER = "sagemaker"


class RegistryEntry(Part):
    """Which entry of a model registry this artifact is."""

    system: Registry
    """The registry: `mlflow` or `sagemaker`."""
    model: Text
    """Name of the registered model there."""
    version: Text
    """Its version there, as the registry writes it."""


class File(Part):
    """One file of the artifact. The fetching init container refuses a file whose size or SHA-256 differs."""

    path: Annotated[
        str,
        Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$", max_length=255, examples=["defects/1/model.onnx"]),
    ]
    """Path below the artifact's URI; plain ASCII, no leading slash, no `..`."""
    sha256: Digest
    """SHA-256 of the file's content, as `sha256sum` prints it."""
    md5: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", examples=["d41d8cd98f00b204e9800998ecf8427e"])] | None = None
    """MD5 of the same, as `md5sum` prints it: Triton proves the file once more at every load. Only for files of its models."""
    size: Annotated[Bytes, between(Bytes(0), Bytes(4 * 2**40))]
    """Size of the file; the sum over all files decides download time and disk."""


def digest_of(files: Iterable[File]) -> str:
    """SHA-256 of the list that `sha256sum` would print for `files`, sorted by path: what identifies an artifact."""
    listing = "".join(f"{file.sha256}  {file.path}\n" for file in sorted(files, key=lambda file: file.path))
    return hashlib.sha256(listing.encode()).hexdigest()


RELATIVE = "artifacts://"
"""How a URI begins that is below the environment's own artifact bucket."""


def located(uri: str, bucket: str) -> str:
    """Where the files of `uri` lie in an environment whose artifact bucket is `bucket`: an absolute URI."""
    return f"s3://{bucket}/{uri.removeprefix(RELATIVE)}" if uri.startswith(RELATIVE) else uri


def without_dots(*path: str, uri: str) -> Iterator[Problem]:
    """A bucket whose name has dots is outside S3's certificate, which is for one label before `.s3.<region>.amazonaws.com` (S3 user guide,
    "Virtual hosting of general purpose buckets")."""
    bucket = uri.removeprefix("s3://").partition("/")[0]
    if uri.startswith("s3://") and "." in bucket:
        yield problem(
            "bucket-without-dots",
            *path,
            value=uri,
            fact=f"the name of the bucket {bucket} contains a dot",
            consequence="S3's certificate does not cover its address, so no pod could read or write there",
            remedy="Use a bucket without dots in its name",
        )


class Artifact(Part):
    """What is served. A new artifact is a new release; it never rebuilds an image."""

    uri: Annotated[
        str,
        Field(
            pattern=r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/|artifacts://)([A-Za-z0-9_.=-]+/)+$",
            max_length=512,
            examples=["artifacts://vision/defects/2026.11.2/", "s3://models/vision/defects/2026.11.2/"],
        ),
    ]
    """Prefix in object storage, ending in `/`. `artifacts://<tenant>/...` lies in the artifact bucket of each environment; `s3://bucket/...` names
    one bucket for all of them, and begins with the tenant's name there too. The tenant's identity may read below that name. Such a bucket is of
    the account and the region of each environment, and encrypted with S3's own keys: pods are refused all others."""
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,38}[A-Za-z0-9])?$", examples=["2026.11.2"])]
    """The version by which people know it; becomes the label `platform.io/version`. A release is identified by content, not by this."""
    registry: RegistryEntry
    """Where the model registry lists it."""
    files: Annotated[tuple[File, ...], Field(min_length=1, max_length=2_000)]
    """Every file that the server needs, and no other."""

    def violations(self) -> Iterator[Problem]:
        for path, times in Counter(file.path for file in self.files).items():
            if times > 1:
                yield problem(
                    "artifact-file-listed-once",
                    "files",
                    value=path,
                    fact=f"the file {path} is listed {times} times",
                    consequence="Two digests for one file cannot both be verified",
                    remedy="Keep one entry for it",
                )
        if not any(int(file.size) for file in self.files):
            yield problem(
                "artifact-not-empty",
                "files",
                fact="all files together hold 0 bytes",
                consequence="There is nothing to serve",
                remedy="Write the real size of each file (`stat -c %s`), with the unit B",
            )
        yield from without_dots("uri", uri=self.uri)
        if re.search(r"(^|/)latest/", self.uri):
            yield problem(
                "artifact-immutable",
                "uri",
                value=self.uri,
                fact="the prefix contains a part named `latest`",
                consequence="Its content may change under a running release, and checksums would then stop new replicas from starting",
                remedy="Point to a prefix that is written once, such as .../<version>/",
            )

    def located(self, bucket: str) -> str:
        """See `located`."""
        return located(self.uri, bucket)

    @property
    def size(self) -> Bytes:
        return Bytes(sum(int(file.size) for file in self.files))

    @property
    def digest(self) -> str:
        """See `digest_of`."""
        return digest_of(self.files)

    def size_below(self, folder: str) -> Bytes:
        """Bytes of the files below `folder`, which ends in a slash."""
        return Bytes(sum(int(file.size) for file in self.files if file.path.startswith(folder)))
