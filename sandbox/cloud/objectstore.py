"""Object storage and queues of the sandbox: a moto server on loopback that remembers, kept like every other process.

Trap: its address depends on the sandbox (a port is chosen once and stored), so programs take it from `AWS_ENDPOINT_URL_S3` and
`AWS_ENDPOINT_URL_SQS`, never from code. The credentials open nothing but this server.
"""

import http.client
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.problem import UserError
from pulumi_embedded.providers.aws.kind import ACCOUNT_ID
from sandbox.cluster.processes import Process, Supervisor
from sandbox.layout import Layout
from sandbox.progress import Progress

NAME = "object-store"
READY_PATH = "/_sandbox/ready"
CREDENTIALS = {"aws_access_key_id": "sandbox", "aws_secret_access_key": "sandbox"}
_START_SECONDS = 60.0


def endpoint(layout: Layout, supervisor: Supervisor | None = None) -> str:
    """Where it answers; chosen at the first call."""
    return f"http://127.0.0.1:{(supervisor or Supervisor(layout)).port(NAME)}"


def environment(layout: Layout) -> Mapping[str, str]:
    """What makes any AWS SDK use it."""
    url = endpoint(layout)
    return {
        "AWS_ACCESS_KEY_ID": CREDENTIALS["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": CREDENTIALS["aws_secret_access_key"],
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ENDPOINT_URL_SQS": url,
    }


def ensure_running(layout: Layout, progress: Progress) -> str:
    """Have it run and answer; its endpoint. UserError when the servers' environment is missing or it does not start."""
    supervisor = Supervisor(layout)
    supervisor.ensure(process(layout, supervisor), progress)
    return endpoint(layout, supervisor)


def process(layout: Layout, supervisor: Supervisor) -> Process:
    """How it is started. UserError without the servers' environment."""
    python = layout.project / ".venv-servers" / "bin" / "python"
    if not python.exists():
        raise UserError(
            f"{python} is missing.",
            "There is no object storage, so buckets and queues cannot be made.",
            "Install the servers' environment: `make .venv-servers/.ready`.",
        )
    port = supervisor.port(NAME)
    script = Path(__file__).parent / "objectserver.py"
    return Process(
        name=NAME,
        argv=(str(python), str(script), str(port), str(layout.cloud / "objects")),
        ready=lambda: unready(port),
        environment={"MOTO_ACCOUNT_ID": ACCOUNT_ID},
        ports=(port,),
        inputs=(script,),
        start_seconds=_START_SECONDS,
    )


def unready(port: int) -> str | None:
    """None once the server on `port` has played its journal and answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2.0)
    try:
        connection.request("GET", READY_PATH)
        return None if connection.getresponse().status == 200 else "it does not answer"
    except (OSError, http.client.HTTPException):
        return "reading its journal"
    finally:
        connection.close()


def client(service: str, region: str, url: str | None, account: str = ACCOUNT_ID) -> Any:
    """A boto3 client of `account` at `url`; None leaves the address to botocore, for tests that run moto in process."""
    import boto3
    from botocore.config import Config

    retries = {"mode": "standard", "total_max_attempts": 3}
    config = Config(retries=retries, s3={"addressing_style": "path"}, connect_timeout=5, read_timeout=30)
    made: Any = boto3.client(service, region_name=region, endpoint_url=url, config=config, **CREDENTIALS)  # pyright: ignore[reportCallIssue, reportArgumentType]
    # moto takes the account of a request from this header, and otherwise from MOTO_ACCOUNT_ID.
    made.meta.events.register("before-sign", lambda **sent: sent["request"].headers.add_header("x-moto-account-id", account))  # pyright: ignore[reportUnknownLambdaType]
    return made
