"""Where witnesses are: parameters in SSM beside an environment in AWS, or a folder of one machine.

A parameter has rights of its own, which no right on a bucket includes, and SSM keeps its last hundred values (Systems
Manager user guide, "Working with parameter versions").
"""

import secrets
from functools import cached_property
from pathlib import Path
from typing import Any

from headway.ledger.witness import SilentWitnessError
from headway.wire import witness_path

TIMEOUT_SECONDS = 3.0
"""Longest wait for an answer: a witness delays a release and never decides it."""
_LONGEST = 200
"""Characters that are read of what a witness says."""


class ParameterWitness:
    """Parameters of SSM below the environment's path. `client`: boto3's; made when it is first asked."""

    def __init__(self, environment: str, region: str, client: Any = None) -> None:
        self._path, self._region, self._given = witness_path(environment), region, client

    @cached_property
    def _client(self) -> Any:
        if self._given is not None:
            return self._given
        import boto3
        from botocore.config import Config

        config = Config(
            connect_timeout=TIMEOUT_SECONDS, read_timeout=TIMEOUT_SECONDS, retries={"total_max_attempts": 1, "mode": "standard"}
        )
        session: Any = boto3.Session()
        return session.client("ssm", region_name=self._region, config=config)

    def said(self, chain: str) -> str | None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return str(self._client.get_parameter(Name=f"{self._path}/{chain}")["Parameter"]["Value"])[:_LONGEST]
        except ClientError as refusal:
            if _code(refusal) == "ParameterNotFound":
                return None
            raise SilentWitnessError(_code(refusal)) from None
        except BotoCoreError as failure:
            raise SilentWitnessError(type(failure).__name__) from None

    def write(self, chain: str, text: str) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self._client.put_parameter(Name=f"{self._path}/{chain}", Value=text, Type="String", Overwrite=True)
        except ClientError as refusal:
            raise SilentWitnessError(_code(refusal)) from None
        except BotoCoreError as failure:
            raise SilentWitnessError(type(failure).__name__) from None


def _code(refusal: Any) -> str:
    return str(refusal.response.get("Error", {}).get("Code", "an answer without a code"))


class FolderWitness:
    """Files below a folder, for a ledger of one machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def said(self, chain: str) -> str | None:
        try:
            with (self._root / chain).open(encoding="utf-8", errors="replace") as file:
                return file.read(_LONGEST)
        except FileNotFoundError:
            return None
        except OSError as failure:
            raise SilentWitnessError(str(failure)) from None

    def write(self, chain: str, text: str) -> None:
        path = self._root / chain
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(text, encoding="utf-8")
            draft.replace(path)
        except OSError as failure:
            raise SilentWitnessError(str(failure)) from None
