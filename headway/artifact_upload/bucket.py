"""Uploads into a bucket that takes each object once: conditional, resumable, and verified against what S3 reports.

`If-None-Match: *` stands on PutObject and, for a multipart upload, on CompleteMultipartUpload; neither creating an upload nor uploading a
part takes it, and the bucket's policy exempts both (S3 user guide, "Enforce conditional writes on Amazon S3 buckets"). An interrupted upload
is found again by ListMultipartUploads, and its parts by ListParts with their SHA-256. The trap: an ETag is no digest where KMS encrypts.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from headway.artifact_upload.plan import FileUpload, encoded
from headway.problem import Exit, UserError

CONNECTIONS = 8
"""Parts under way at once; each is held in memory."""
PIECE_BYTES = 2**20
RIGHTS = (
    "s3:PutObject",
    "s3:GetObject",
    "s3:ListBucket",
    "s3:ListBucketMultipartUploads",
    "s3:ListMultipartUploadParts",
    "s3:AbortMultipartUpload",
)
"""What an upload asks of S3."""
Told = Callable[[int], None]
"""Is told of bytes that need not be sent any more."""
Result = TypeVar("Result")


class OtherContentError(Exception):
    """The object exists with other content. Carries the key."""


@dataclass(frozen=True, kw_only=True)
class ArtifactPrefix:
    """Where an artifact's files go: `prefix` ends in `/`. `client` is boto3's of S3."""

    client: Any
    bucket: str
    prefix: str

    def holds(self, file: FileUpload) -> bool:
        """Whether the very same file is there. Raises OtherContentError for another one, UserError where S3 refuses."""
        found = self._asked(lambda: self._head(file))
        if found is None:
            return False
        if int(found["ContentLength"]) != file.size:
            raise OtherContentError(self._key(file))
        # A composite checksum ends in "-" and the number of parts.
        said = str(found.get("ChecksumSHA256") or "").partition("-")[0]
        if said != file.checksum and self._asked(lambda: self._read(file)) != file.sha256:
            raise OtherContentError(self._key(file))
        return True

    def put(self, file: FileUpload, told: Told) -> None:
        """Write `file` and verify it. Raises OtherContentError when somebody else has written something else meanwhile."""
        if file.whole:
            data = file.read(1)
            taken = self._once(
                lambda: self.client.put_object(
                    Bucket=self.bucket, Key=self._key(file), Body=data, ChecksumSHA256=encoded(file.parts[0]), IfNoneMatch="*"
                )
            )
            told(file.size)
        else:
            taken = self._put_in_parts(file, told)
        if not self.holds(file):
            raise UserError(
                f"s3://{self.bucket}/{self._key(file)} is not there, although S3 took it.",
                "Nobody could fetch it.",
                "Run the command again; if that does not help, see who deletes objects of this bucket.",
            )
        if taken and not file.whole:
            self._abort(file)

    def _put_in_parts(self, file: FileUpload, told: Told) -> bool:
        upload, there = self._unfinished(file) or (self._begin(file), dict[int, Any]())
        told(sum(file.length(number) for number in there))

        def send(number: int) -> dict[str, Any]:
            digest = encoded(file.parts[number - 1])
            if number not in there:
                data = file.read(number)
                answer = self._asked(
                    lambda: self.client.upload_part(
                        Bucket=self.bucket, Key=self._key(file), UploadId=upload, PartNumber=number, Body=data, ChecksumSHA256=digest
                    )
                )
                told(len(data))
                tag = answer["ETag"]
            else:
                tag = there[number]["ETag"]
            return {"PartNumber": number, "ETag": tag, "ChecksumSHA256": digest}

        with ThreadPoolExecutor(max_workers=CONNECTIONS) as senders:
            waiting = [senders.submit(send, number) for number in range(1, len(file.parts) + 1)]
            try:
                parts = [each.result() for each in waiting]
            except BaseException:
                senders.shutdown(cancel_futures=True)
                raise
        return self._once(
            lambda: self.client.complete_multipart_upload(
                Bucket=self.bucket, Key=self._key(file), UploadId=upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
            )
        )

    def _begin(self, file: FileUpload) -> str:
        return self._asked(
            lambda: self.client.create_multipart_upload(Bucket=self.bucket, Key=self._key(file), ChecksumAlgorithm="SHA256")
        )["UploadId"]

    def _unfinished(self, file: FileUpload) -> tuple[str, dict[int, Any]] | None:
        """The upload of this file that has the most of it, with its parts that are right; None where none has any."""
        found = [(upload, self._parts(file, upload)) for upload in self._uploads(file)]
        best = max(found, key=lambda each: len(each[1]), default=None)
        return best if best and best[1] else None

    def _uploads(self, file: FileUpload) -> list[str]:
        pages: Iterable[Any] = self._asked(
            lambda: list(self.client.get_paginator("list_multipart_uploads").paginate(Bucket=self.bucket, Prefix=self._key(file)))
        )
        uploads = [each for page in pages for each in page.get("Uploads", ()) if each["Key"] == self._key(file)]
        return [each["UploadId"] for each in uploads if each.get("ChecksumAlgorithm") == "SHA256"]

    def _parts(self, file: FileUpload, upload: str) -> dict[int, Any]:
        pages: Iterable[Any] = self._asked(
            lambda: list(self.client.get_paginator("list_parts").paginate(Bucket=self.bucket, Key=self._key(file), UploadId=upload))
        )
        listed = {int(each["PartNumber"]): each for page in pages for each in page.get("Parts", ())}
        return {number: each for number, each in listed.items() if _right(file, number, each)}

    def _abort(self, file: FileUpload) -> None:
        """Of uploads whose object somebody else has completed: their parts would be paid for."""
        for upload in self._uploads(file):
            self._asked(lambda upload=upload: self.client.abort_multipart_upload(Bucket=self.bucket, Key=self._key(file), UploadId=upload))

    def _key(self, file: FileUpload) -> str:
        return f"{self.prefix}{file.path}"

    def _head(self, file: FileUpload) -> Mapping[str, Any] | None:
        from botocore.exceptions import ClientError

        try:
            return self.client.head_object(Bucket=self.bucket, Key=self._key(file), ChecksumMode="ENABLED")
        except ClientError as refusal:
            if _status(refusal) == 404:
                return None
            raise

    def _read(self, file: FileUpload) -> str:
        whole = hashlib.sha256()
        for piece in self.client.get_object(Bucket=self.bucket, Key=self._key(file))["Body"].iter_chunks(PIECE_BYTES):
            whole.update(piece)
        return whole.hexdigest()

    def _once(self, act: Callable[[], object]) -> bool:
        """Do a conditional write; whether somebody had been there before."""
        from botocore.exceptions import ClientError

        def tried() -> bool:
            try:
                act()
            except ClientError as refusal:
                if _status(refusal) == 412:
                    return True
                if _status(refusal) == 409:  # another conditional write to this key is under way (S3 user guide, "conditional writes")
                    raise UserError(
                        f"Somebody else is writing below s3://{self.bucket}/{self.prefix} at this moment.",
                        "Which of the two comes first is not decided yet.",
                        "Wait until the other upload has ended; then run the command again.",
                        Exit.BUSY,
                    ) from None
                raise
            return False

        return self._asked(tried)

    def _asked(self, act: Callable[[], Result]) -> Result:
        """Run one request. Raises UserError, with no more of the answer than its code."""
        from botocore.exceptions import BotoCoreError, ClientError

        place = f"s3://{self.bucket}/{self.prefix}"
        try:
            return act()
        except ClientError as refusal:
            code = refusal.response.get("Error", {}).get("Code") or _status(refusal)
            raise UserError(
                f"S3 refuses a request to {place} ({code}).",
                "The artifact is not complete; what has arrived is kept for seven days.",
                f"Check account, bucket and the rights of your identity ({', '.join(RIGHTS)}, and the key's kms:GenerateDataKey and kms:Decrypt); "
                "then run the command again.",
                Exit.ENVIRONMENT,
            ) from None
        except BotoCoreError as failure:
            raise UserError(
                f"{place} cannot be reached ({type(failure).__name__}).",
                "The artifact is not complete; what has arrived is kept for seven days.",
                "Check the network and your AWS credentials; then run the command again: it goes on where it ended.",
                Exit.ENVIRONMENT,
            ) from None


def _right(file: FileUpload, number: int, part: Mapping[str, Any]) -> bool:
    if not 1 <= number <= len(file.parts) or int(part["Size"]) != file.length(number):
        return False
    return part.get("ChecksumSHA256") == encoded(file.parts[number - 1])


def _status(refusal: Any) -> int:
    return int(refusal.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
