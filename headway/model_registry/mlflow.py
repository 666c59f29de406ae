"""MLflow's model registry, by its REST API: one version, where it lies, its tags. No client library: two requests.

Address and credentials are those of MLflow's own clients: MLFLOW_TRACKING_URI, MLFLOW_TRACKING_TOKEN or _USERNAME and _PASSWORD. The trap:
`source` of a version may name a run or a logged model; where the files lie says only `get-download-uri`.
Source: mlflow.org/docs/latest/api_reference/rest-api.html.
"""

import base64
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.bounded_json import bounded_json
from headway.model_registry.entry import DIGEST_TAG, Registered
from headway.outgoing import asked, body_of, is_private, refusal_of
from headway.problem import UserError

TIMEOUT_SECONDS = 20
LARGEST_ANSWER = 4 * 2**20
READY = "READY"


@dataclass(frozen=True)
class MlflowRegistry:
    """A tracking server. `authorization` is the header's value, empty for none."""

    address: str
    authorization: str = ""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "MlflowRegistry":
        """The server that the environment names. Raises UserError without one."""
        address = environment.get("MLFLOW_TRACKING_URI", "")
        if not address.startswith(("http://", "https://")):
            raise UserError(
                "MLFLOW_TRACKING_URI names no MLflow server." if address else "MLFLOW_TRACKING_URI is not set.",
                "Contracts whose artifacts are registered in MLflow cannot be compared with it.",
                "Set it to the server's http(s) address, and MLFLOW_TRACKING_TOKEN where it asks for one.",
            )
        named = environment.get("MLFLOW_TRACKING_TOKEN") or environment.get("MLFLOW_TRACKING_USERNAME")
        if not is_private(address) and (named or "@" in urllib.parse.urlsplit(address).netloc):
            raise UserError(
                "MLFLOW_TRACKING_URI is an http address, and credentials are set.",
                "Whoever is on the way would read them, so nothing was asked.",
                "Use the server's https address, or take the credentials out.",
            )
        if environment.get("MLFLOW_TRACKING_TOKEN"):
            return cls(address, f"Bearer {environment['MLFLOW_TRACKING_TOKEN']}")
        if environment.get("MLFLOW_TRACKING_USERNAME"):
            pair = f"{environment['MLFLOW_TRACKING_USERNAME']}:{environment.get('MLFLOW_TRACKING_PASSWORD', '')}"
            return cls(address, f"Basic {base64.b64encode(pair.encode()).decode()}")
        return cls(address)

    def find(self, model: str, version: str) -> Registered | None:
        answer = self._get("get", model, version)
        where = self._get("get-download-uri", model, version) if answer is not None else None
        if answer is None or where is None:
            return None
        try:
            found = answer["model_version"]
            tags = {str(tag["key"]): str(tag["value"]) for tag in found.get("tags", ())}
            uri, status = str(where["artifact_uri"]), str(found.get("status", READY))
        except (KeyError, TypeError, AttributeError):
            raise self._unreadable("what it answers is no model version") from None
        return Registered(uri, tags.get(DIGEST_TAG), None if status == READY else status.lower().replace("_", " "))

    def _get(self, what: str, model: str, version: str) -> Any:
        """The answer; None for what does not exist."""
        query = urllib.parse.urlencode({"name": model, "version": version})
        url = f"{self.address.rstrip('/')}/api/2.0/mlflow/model-versions/{what}?{query}"
        headers = {"Authorization": self.authorization} if self.authorization else {}
        try:
            with asked(urllib.request.Request(url, headers=headers), TIMEOUT_SECONDS) as answer:  # noqa: S310
                return bounded_json(body_of(answer, LARGEST_ANSWER), LARGEST_ANSWER)
        except urllib.error.HTTPError as error:
            said = refusal_of(error, 10_000)
            # A version that is no number is an invalid parameter to MLflow; to a contract it is one that does not exist.
            if error.code == 404 or (error.code == 400 and "INVALID_PARAMETER_VALUE" in said):
                return None
            if 300 <= error.code < 400:
                raise self._unreadable(f"it redirects to {_host(error.headers.get('Location') or '')}, which gets no credentials") from None
            raise self._unreadable(f"it answers {error.code} {error.reason}") from None
        except ValueError as odd:
            raise self._unreadable(f"what it answers is no JSON that is read ({odd})") from None
        except OSError as error:
            raise self._unreadable(str(getattr(error, "reason", error))) from None

    def _unreadable(self, why: str) -> UserError:
        host = urllib.parse.urlsplit(self.address).hostname or "the server"
        return UserError(
            f"MLflow at {host} cannot be asked: {why}.",
            "Contracts were not compared with it.",
            "Check MLFLOW_TRACKING_URI and its credentials, and that this machine can reach it.",
        )


def _host(url: str) -> str:
    try:
        to = urllib.parse.urlsplit(url)
        return f"{to.scheme}://{to.hostname}"
    except ValueError:
        return "an address that is none"
