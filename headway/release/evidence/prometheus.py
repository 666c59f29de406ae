"""Asking Prometheus, by prometheus-api-client, with what it lacks: limits of time and size, no hidden retries, warnings refused, TLS, and a
bearer token or a login from a file.

The client throws away `warnings`, by which Thanos and Mimir say that an answer is partial; so every response is read here first, and an
answer that is not whole raises UnansweredError. A timeout of `requests` bounds the silence between two bytes, not the whole answer.
"""

import base64
import io
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3 import Retry

from headway.bounded_json import bounded_json
from headway.problem import ODD, UserError
from headway.release.evidence.samples import Series, TimedValue

TIMEOUT_SECONDS = 5.0
LARGEST_ANSWER_BYTES = 256 * 2**20
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class UnansweredError(Exception):
    """No usable answer: nothing can be concluded. The message says why, without credentials."""


@dataclass(frozen=True, kw_only=True)
class PrometheusEndpoint:
    """One Prometheus, or what speaks like one. Raises UserError for what would leak a secret."""

    url: str
    token_file: Path | None = None
    """Holds a bearer token; read anew for each question, because tokens are rotated."""
    login_file: Path | None = None
    """Holds `user:password` for basic authentication; read anew like a token."""
    ca_file: Path | None = None
    """Certificates of who may have signed the server's; left out, the system's."""
    certificate: tuple[Path, Path] | None = None
    """Ours, and its key."""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            parts.port  # noqa: B018  raises for what is no number of a port
        except ValueError as error:
            raise UserError(
                f"An address of Prometheus cannot be read ({error}).", "It cannot be asked.", "Give http://host:port or https://host:port."
            ) from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            written = self.url.rpartition("@")[2] or "nothing"  # what stands before may be a login
            raise UserError(
                f"{written} is no address of a Prometheus.", "It cannot be asked.", "Give http://host:port or https://host:port."
            )
        if parts.username or parts.password:
            raise UserError(
                f"The address of {parts.hostname} holds credentials.",
                "They would be seen in logs and in the ledger.",
                "Put them into a file: HEADWAY_PROMETHEUS_LOGIN_FILE.",
            )
        if self.token_file and self.login_file:
            raise UserError(
                f"{self.shown} is given a token and a login.", "Only one of them could be sent.", "Leave one of the two files out."
            )
        if (self.token_file or self.login_file) and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise UserError(
                f"{self.shown} is not encrypted.", "What is in its file could be read on the way.", "Use https, or leave the file out."
            )
        self._readable()

    def _readable(self) -> None:
        """Raise UserError for certificates that could never be used: a connection would fail with less to say."""
        context = ssl.create_default_context()
        try:
            if self.ca_file:
                context.load_verify_locations(self.ca_file)
            if self.certificate:
                context.load_cert_chain(*self.certificate)
        except (OSError, ssl.SSLError) as error:
            which = self.ca_file if not self.certificate else f"{self.ca_file or ''} {self.certificate[0]} {self.certificate[1]}".strip()
            raise UserError(
                f"The certificates for {self.shown} cannot be used ({which}: {error.strerror or error}).",
                "Nobody could tell whether it is who it should be, so it is not asked.",
                "Give a file of PEM certificates that exists (HEADWAY_PROMETHEUS_CA_FILE), and a key that fits its certificate.",
            ) from None

    @property
    def shown(self) -> str:
        """The address as it may be written down."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path.rstrip('/')}"


class _Secret(AuthBase):
    """Sends what a file holds: a bearer token, or `user:password`."""

    def __init__(self, file: Path, *, login: bool) -> None:
        self._file, self._login = file, login

    def __call__(self, r: requests.PreparedRequest) -> requests.PreparedRequest:
        what = "login" if self._login else "token"
        try:
            secret = self._file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise UnansweredError(f"the {what} file {self._file} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise UnansweredError(f"the {what} file {self._file} holds no text") from None
        if not secret or not secret.isprintable() or (self._login and ":" not in secret):
            raise UnansweredError(f"the {what} file {self._file} holds no {'user:password' if self._login else 'token'}")
        sent = f"Basic {base64.b64encode(secret.encode()).decode()}" if self._login else f"Bearer {secret}"
        r.headers["Authorization"] = sent
        return r


def _authentication(endpoint: PrometheusEndpoint) -> _Secret | None:
    if endpoint.login_file:
        return _Secret(endpoint.login_file, login=True)
    return _Secret(endpoint.token_file, login=False) if endpoint.token_file else None


class _Whole(HTTPAdapter):
    """Reads each answer to its end within a time and a size, and refuses one that is not whole."""

    def __init__(self, timeout_seconds: float, largest: int) -> None:
        super().__init__(max_retries=Retry(total=0, redirect=0))
        self._timeout, self._largest = timeout_seconds, largest

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        begun = time.monotonic()
        response = super().send(request, *args, **{**options, "stream": True})
        body = bytearray()
        while chunk := response.raw.read1(2**16, decode_content=True):
            body += chunk
            if len(body) > self._largest:
                response.close()
                raise UnansweredError(f"the answer is larger than {self._largest} bytes")
            if time.monotonic() - begun > self._timeout:
                response.close()
                raise UnansweredError(f"the answer was not complete within {self._timeout:g} s")
        response.raw = io.BytesIO(bytes(body))
        if response.status_code == requests.codes.ok and "/api/" in (request.url or ""):
            _refuse_partial(bytes(body))
        return response


def _refuse_partial(body: bytes) -> None:
    try:
        answer = bounded_json(body, LARGEST_ANSWER_BYTES)
    except ValueError:
        raise UnansweredError("the answer is not JSON; a page of a proxy or a login, perhaps") from None
    if not isinstance(answer, dict) or answer.get("status") != "success":
        raise UnansweredError("the answer does not say that it is a success")
    if warnings := answer.get("warnings"):
        raise UnansweredError(f"the answer is partial: {'; '.join(map(str, warnings))[:500]}")


class Prometheus:
    """One endpoint. Not for several threads."""

    def __init__(self, endpoint: PrometheusEndpoint, timeout_seconds: float = TIMEOUT_SECONDS, largest: int = LARGEST_ANSWER_BYTES) -> None:
        self.endpoint = endpoint
        session = requests.Session()
        # Neither a proxy nor a password of the environment's: what is asked, and as whom, is what was configured.
        session.trust_env = False
        session.max_redirects = 0
        session.verify = str(endpoint.ca_file) if endpoint.ca_file else True
        session.cert = (str(endpoint.certificate[0]), str(endpoint.certificate[1])) if endpoint.certificate else None
        session.auth = _authentication(endpoint)
        self._client = PrometheusConnect(
            url=endpoint.url.rstrip("/"),
            session=session,
            timeout=timeout_seconds,  # pyright: ignore[reportArgumentType]  requests takes any number
            retry=Retry(total=0),
            method="POST",
        )
        session.mount(endpoint.url.rstrip("/"), _Whole(timeout_seconds, largest))

    def samples(self, query: str, at: float | None) -> list[Series]:
        """Evaluate `query` at a moment (Unix seconds; None: its own now): a range selector gives all samples in it, a vector the latest
        of each series.

        Raises UnansweredError.
        """
        try:
            found = self._client.custom_query(query, params={"time": f"{at:.3f}"} if at is not None else {})
            return sorted(map(_series, found), key=lambda series: sorted(series.labels.items()))
        except UnansweredError:
            raise
        except PrometheusApiClientException as error:
            raise UnansweredError(f"{self.endpoint.shown} refused {query}: {str(error)[:500]}") from None
        except requests.exceptions.SSLError as error:
            said = str(getattr(error.args[0], "reason", error) if error.args else error)
            raise UnansweredError(
                f"{self.endpoint.shown} is not who it should be, or speaks no TLS: {said.rpartition('] ')[2] or said}; "
                "HEADWAY_PROMETHEUS_CA_FILE names who may have signed its certificate"
            ) from None
        except requests.RequestException as error:
            raise UnansweredError(f"{self.endpoint.shown} did not answer: {type(error).__name__}") from None
        except ODD as error:
            raise UnansweredError(f"{self.endpoint.shown} gave an answer of another shape ({type(error).__name__})") from None

    def close(self) -> None:
        self._client.close()


def _series(entry: Mapping[str, Any]) -> Series:
    pairs: Sequence[Sequence[Any]] = entry["values"] if "values" in entry else [entry["value"]]
    samples: list[TimedValue] = [(float(moment), float(value)) for moment, value in pairs]
    return Series({str(name): str(value) for name, value in entry["metric"].items()}, samples)
