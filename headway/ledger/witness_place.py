"""Where witnesses are: parameters in SSM beside an environment in AWS, or a folder of one machine.

A parameter has rights of its own, which no right on a bucket includes, and SSM keeps its last hundred values (Systems
Manager user guide, "Working with parameter versions").
"""

from collections.abc import Callable
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path
from threading import Thread
from typing import Any

from headway.ledger.witness import SilentWitnessError, named
from headway.whole_file import replaced
from headway.wire import witness_path

TIMEOUT_SECONDS = 3.0
"""Longest wait for a piece of an answer: a witness delays a release and never decides it."""
WHOLE_SECONDS = 10.0
"""Longest wait for all of it, with whatever credentials have to be asked for first."""
_LONGEST = 200
"""How much is read of what a witness says."""


class ParameterWitness:
    """Parameters of SSM below the environment's path, of the ledger at address `ledger`. `client`: boto3's; made when it is first asked.
    `seconds`: longest wait for a whole answer."""

    def __init__(self, environment: str, region: str, ledger: str, client: Any = None, seconds: float = WHOLE_SECONDS) -> None:
        self._path, self._region, self._ledger = witness_path(environment), region, ledger
        self._given, self._seconds = client, seconds

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
        answer = self._asked(lambda client: client.get_parameter(Name=self._name(chain)))
        return None if answer is None else str(answer["Parameter"]["Value"])[:_LONGEST]

    def write(self, chain: str, text: str) -> None:
        self._asked(lambda client: client.put_parameter(Name=self._name(chain), Value=text, Type="String", Overwrite=True))

    def _name(self, chain: str) -> str:
        return f"{self._path}/{named(chain, self._ledger)}"

    def _asked(self, act: Callable[[Any], Any]) -> Any:
        """The whole answer in time, for botocore's limit is for each piece of it; None where there is no such parameter.
        Raises SilentWitnessError."""
        from botocore.exceptions import BotoCoreError, ClientError

        answer = Future[Any]()

        def ask(client: Any) -> None:
            try:
                answer.set_result(act(client))
            except BaseException as failure:  # told to who waits
                answer.set_exception(failure)

        try:
            Thread(target=ask, args=(self._client,), daemon=True).start()  # made here: reading its descriptions takes its time
            return answer.result(self._seconds)
        except TimeoutError:
            raise SilentWitnessError(f"no whole answer in {self._seconds:g} s") from None
        except ClientError as refusal:
            code = str(refusal.response.get("Error", {}).get("Code", "an answer without a code"))
            if code == "ParameterNotFound":
                return None
            raise SilentWitnessError(code) from None
        except BotoCoreError as failure:
            raise SilentWitnessError(type(failure).__name__) from None


class FolderWitness:
    """Files of a folder, for a ledger of one machine. A chain may lie below another one, and a file below no file: so
    slashes become dots, which no name has."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def said(self, chain: str) -> str | None:
        try:
            with self._file(chain).open("rb") as file:
                return file.read(_LONGEST).decode(errors="replace")
        except FileNotFoundError:
            return None
        except OSError as failure:
            raise SilentWitnessError(str(failure)) from None

    def write(self, chain: str, text: str) -> None:
        try:
            replaced(self._file(chain), text.encode())
        except OSError as failure:
            raise SilentWitnessError(str(failure)) from None

    def _file(self, chain: str) -> Path:
        return self._root / chain.replace("/", ".")
