"""A registry by the OCI distribution API: manifests and blobs, read and written. No client library: a dozen requests.

The traps: a blob's address redirects to a store that refuses a request with the registry's own credentials, so those end at another host;
Docker Hub's API has another host than its images; and a token is for one repository and either reading or writing.
Source: opencontainers/distribution-spec `spec.md`; distribution/distribution, "Token Authentication Specification".
"""

import base64
import hashlib
import http
import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from headway.bounded_json import bounded_json
from headway.outgoing import InTime, SecureInTime, TunnelsOnly, asked, body_of, given_more_time, refusal_of
from headway.problem import Exit, UserError, shown
from headway.registry_mirror.manifest import INDEXES, LARGEST_MANIFEST, MANIFESTS, RawManifest

TIMEOUT_SECONDS = 60
LARGEST_TOKEN = 2**20
SLOWEST = 64 * 2**10
"""Bytes a second of a blob: one that drips is given up, and goes on where it ended."""
PIECE = 2**20
API_HOSTS = {"docker.io": "registry-1.docker.io"}
TOKEN_HOSTS = {"docker.io": "auth.docker.io", "registry.gitlab.com": "gitlab.com"}
"""Who gives a registry's tokens where that is another host (docs.docker.com, "Registry authentication"; docs.gitlab.com,
"Container registry"). Any other host that a registry names gets no credentials."""
_TOKEN = re.compile(r"[!-~]{1,65536}")
_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?")

Seen = Callable[[int], None]
"""Told how many more bytes have passed."""


class _OwnHostOnly(urllib.request.HTTPRedirectHandler):
    """Follows to another host without the credentials of this one, and never from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        before, after = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if before.scheme == "https" and after.scheme != "https":
            return None
        found = super().redirect_request(req, fp, code, msg, headers, newurl)
        if found is not None and (before.scheme, before.netloc) != (after.scheme, after.netloc):
            found.remove_header("Authorization")
        return found


OPENER = urllib.request.build_opener(_OwnHostOnly, TunnelsOnly, InTime, SecureInTime)


@dataclass
class RegistryClient:
    """One registry. `basic` is `user:password`, empty for none."""

    host: str
    basic: str = ""
    _tokens: dict[str, str] = field(default_factory=dict[str, str])

    def manifest(self, repository: str, reference: str) -> RawManifest | None:
        """What `reference` (a tag or a digest) names; None where nothing does. A digest is proved."""
        accept = ", ".join((*INDEXES, *MANIFESTS))
        answer = self._ask("GET", repository, f"manifests/{reference}", {"Accept": accept}, missing=True)
        if answer is None:
            return None
        with answer:
            found = RawManifest(answer.headers.get_content_type(), self._read(answer, LARGEST_MANIFEST))
        if reference.startswith("sha256:") and found.digest != reference:
            raise self._wrong(f"its manifest {reference} of {repository} is {found.digest}")
        try:
            _ = found.content
        except ValueError as odd:
            raise self._wrong(f"its manifest {reference} of {repository} is none: {odd}") from None
        return found

    def _read(self, answer: http.client.HTTPResponse, most: int) -> bytes:
        """Raises UserError."""
        try:
            return body_of(answer, most)
        except OSError as error:
            raise self._wrong(str(error) or type(error).__name__) from None

    def digest_of(self, repository: str, reference: str) -> str | None:
        """The digest of what is there, without reading it."""
        answer = self._ask("HEAD", repository, f"manifests/{reference}", {"Accept": ", ".join((*INDEXES, *MANIFESTS))}, missing=True)
        if answer is None:
            return None
        with answer:
            said = answer.headers.get("Docker-Content-Digest")
        found = None if said else self.manifest(repository, reference)
        return said or (found.digest if found else None)

    def has_blob(self, repository: str, digest: str) -> bool:
        answer = self._ask("HEAD", repository, f"blobs/{digest}", {}, missing=True)
        if answer is None:
            return False
        answer.close()
        return True

    def fetch_blob(self, repository: str, digest: str, size: int, into: Path, seen: Seen) -> None:
        """The blob as the file `into`, which may hold its beginning already; proved, and removed where it is another. No
        more than `size` bytes, which its manifest states, are kept."""
        begun = into.stat().st_size if into.exists() else 0
        headers = {"Range": f"bytes={begun}-"} if begun else {}
        try:
            answer = self._ask("GET", repository, f"blobs/{digest}", headers)
        except _UnsatisfiableError:
            answer = None
        if answer is not None:
            # A registry that knows no ranges answers with all of it.
            given_more_time(answer, size / SLOWEST)
            with answer, into.open("ab" if answer.status == 206 else "wb") as file:
                came = begun if answer.status == 206 else 0
                seen(came)
                while came <= size and (piece := self._read_some(answer)):
                    came += len(piece)
                    file.write(piece[: len(piece) - max(0, came - size)])
                    seen(len(piece))
            if came > size:
                into.unlink()
                raise self._wrong(f"blob {digest} of {repository} has more than the {size} bytes that its manifest states")
        with into.open("rb") as file:
            found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        if found != digest:
            into.unlink()
            raise self._wrong(f"blob {digest} of {repository} arrived as {found}")

    def _read_some(self, answer: http.client.HTTPResponse) -> bytes:
        """Raises UserError."""
        try:
            return answer.read(PIECE)
        except (OSError, http.client.HTTPException) as error:
            raise self._wrong(str(error) or type(error).__name__) from None

    def mount_blob(self, repository: str, digest: str, of: str) -> bool:
        """Name a blob of the repository `of` in this one too; False where the registry wants it to be sent."""
        query = urllib.parse.urlencode({"mount": digest, "from": of})
        with self._sent("POST", repository, f"blobs/uploads/?{query}", {"Content-Length": "0"}, b"") as answer:
            return answer.status == http.HTTPStatus.CREATED

    def push_blob(self, repository: str, digest: str, source: Path) -> None:
        """Upload in one piece, as docker does; the registry proves the digest, or refuses."""
        with self._sent("POST", repository, "blobs/uploads/", {"Content-Length": "0"}, b"") as answer:
            where = self._next(answer)
        length = str(source.stat().st_size)
        with (
            source.open("rb") as file,
            self._must_at(
                "PATCH", where, repository, {"Content-Type": "application/octet-stream", "Content-Length": length}, file
            ) as answer,
        ):
            where = self._next(answer)
        joint = "&" if urllib.parse.urlsplit(where).query else "?"
        self._must_at("PUT", f"{where}{joint}digest={urllib.parse.quote(digest)}", repository, {"Content-Length": "0"}, b"").close()

    def _next(self, answer: http.client.HTTPResponse) -> str:
        """Where an upload goes on. Raises UserError for a place that is none, such as a file of this machine."""
        try:
            where = urllib.parse.urljoin(answer.url, answer.headers.get("Location", ""))
        except ValueError:
            where = ""
        origin = _origin(where)
        if origin is None or origin[0] not in ("https", urllib.parse.urlsplit(self._base).scheme) or not origin[1]:
            raise self._wrong(f"it leads an upload to {shown(where) or 'nowhere'}")
        return where

    def push_manifest(self, repository: str, reference: str, manifest: RawManifest) -> None:
        self._sent("PUT", repository, f"manifests/{reference}", {"Content-Type": manifest.kind}, manifest.raw).close()

    def _ask(
        self, method: str, repository: str, what: str, headers: Mapping[str, str], *, missing: bool = False
    ) -> http.client.HTTPResponse | None:
        try:
            return self._must(method, repository, what, headers, None)
        except _MissingError:
            if missing:
                return None
            raise self._wrong(f"it has no {what} of {repository}") from None

    def _sent(self, method: str, repository: str, what: str, headers: Mapping[str, str], data: bytes) -> http.client.HTTPResponse:
        try:
            return self._must(method, repository, what, headers, data)
        except _MissingError:
            raise self._wrong(f"it has no repository {repository}") from None

    def _must(self, method: str, repository: str, what: str, headers: Mapping[str, str], data: bytes | None) -> http.client.HTTPResponse:
        return self._must_at(method, f"{self._base}/v2/{repository}/{what}", repository, headers, data)

    def _must_at(
        self, method: str, url: str, repository: str, headers: Mapping[str, str], data: bytes | IO[bytes] | None
    ) -> http.client.HTTPResponse:
        scope = f"repository:{repository}:{'pull' if method in ('GET', 'HEAD') else 'pull,push'}"
        for proved in (False, True):
            known = self._tokens.get(scope)
            request = urllib.request.Request(url, data=data, headers=dict(headers), method=method)  # noqa: S310 - http(s) by construction
            if known and self._own(url):
                request.add_header("Authorization", known)
            try:
                return OPENER.open(request, timeout=TIMEOUT_SECONDS)
            except urllib.error.HTTPError as error:
                said = refusal_of(error)
                challenge = error.headers.get("WWW-Authenticate", "")
                if error.code == 401 and challenge and not proved and self._own(error.url):
                    self._tokens[scope] = self._authorization(challenge, scope)
                    if data is not None and not isinstance(data, bytes):
                        data.seek(0)
                    continue
                if error.code == 404:
                    raise _MissingError from None
                if error.code == 416:
                    raise _UnsatisfiableError from None
                raise self._wrong(f"{method} of {repository} answers {error.code}: {said}") from None
            except (OSError, http.client.HTTPException, ValueError) as error:  # a redirect may lead to what is no address
                raise self._wrong(str(getattr(error, "reason", error)) or type(error).__name__) from None
        raise AssertionError("the second attempt returns or raises")

    def _authorization(self, challenge: str, scope: str) -> str:
        """The header that answers a challenge: the credentials, or a token that they, or nobody's, are exchanged for."""
        basic = f"Basic {base64.b64encode(self.basic.encode()).decode()}" if self.basic else ""
        kind, _, rest = challenge.partition(" ")
        if kind.lower() != "bearer":
            if not basic:
                raise self._wrong("it asks who is calling, and no credentials are known")
            return basic
        said = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        realm = said.get("realm", "")
        if not self._gives_tokens(realm):
            raise self._wrong(f"it sends callers to {shown(realm) or 'nobody'} for a token, who is not known to give its tokens")
        query = urllib.parse.urlencode({"service": said.get("service", ""), "scope": scope})
        joint = "&" if urllib.parse.urlsplit(realm).query else "?"
        request = urllib.request.Request(f"{realm}{joint}{query}", headers={"Authorization": basic} if basic else {})  # noqa: S310
        try:
            with asked(request, TIMEOUT_SECONDS) as answer:
                found = bounded_json(self._read(answer, LARGEST_TOKEN))
            token = found.get("token") or found["access_token"]
            if not _TOKEN.fullmatch(token):
                raise ValueError("it is none")
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            raise self._wrong(f"it gives no token for {scope}: {error}") from None
        return f"Bearer {token}"

    def _own(self, url: str) -> bool:
        """Whether it is an address of this registry, which alone gets credentials."""
        return _origin(url) == _origin(self._base)

    def _gives_tokens(self, realm: str) -> bool:
        """Whether a registry may send its callers there: to itself, or over https to the host that is known for it."""
        return self._own(realm) or _origin(realm) == ("https", TOKEN_HOSTS.get(self.host))

    @property
    def _base(self) -> str:
        host = API_HOSTS.get(self.host, self.host)
        return f"{'http' if _LOOPBACK.fullmatch(host) else 'https'}://{host}"

    def _wrong(self, why: str) -> UserError:
        return UserError(
            f"The registry {self.host} does not do what was asked: {why}.",
            "What was asked for is not complete; what has arrived stays.",
            "Correct it and run the command again: it goes on where it ended.",
            Exit.ENVIRONMENT,
        )


def _origin(url: str) -> tuple[str, str] | None:
    """Scheme and host with port; None for what is no address."""
    try:
        parts = urllib.parse.urlsplit(url)
        return parts.scheme, parts.netloc
    except ValueError:
        return None


class _MissingError(Exception):
    """404."""


class _UnsatisfiableError(Exception):
    """416: nothing is left of the range that was asked for."""
