"""What docs/guide/aws.md asks of an account before the first layer, answered by one in memory.

The AWS CLI is made of botocore's models and prints what botocore answers as JSON (aws-cli, `awscli/formatter.py`), so the
commands are read by the same models and asked of moto.
"""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import boto3
import botocore
import jmespath
import pytest
from moto import mock_aws

from tests.guide_page import commands, hold, shown

REGION = "us-west-2"
SERVICES = {"s3api": "s3"}
NOT_ASKED = "aws eks update-kubeconfig "
"""It writes a file, and asks for a cluster that comes later."""


def said(line: str, region: str = REGION) -> str:
    """What the AWS CLI would print for a line, its inner `$(aws ...)` run first."""
    line = re.sub(r"\"?\$\((aws .+?)\)\"?", lambda inner: said(inner[1]).strip(), line)
    _, service, operation, *options = shlex.split(line)
    if (service, operation) == ("s3", "mb"):
        return _made(options[0].removeprefix("s3://"), region)
    given = dict(zip(options[::2], options[1::2], strict=True))
    query, shape = given.pop("--query", None), given.pop("--output", "json")
    client: Any = boto3.client(SERVICES.get(service, service), region_name=REGION)
    name = next(name for name in client.meta.service_model.operation_names if botocore.xform_name(name, "-") == operation)
    members = client.meta.service_model.operation_model(name).input_shape.members
    named = {f"--{botocore.xform_name(member, '-')}": member for member in members}
    answer = getattr(client, botocore.xform_name(name))(**{named[option]: _value(value) for option, value in given.items()})
    answer.pop("ResponseMetadata")
    found = jmespath.search(query, answer) if query else answer
    return f"{found}\n" if shape == "text" else f"{json.dumps(found, indent=4, default=str)}\n" if found else ""


def _made(bucket: str, region: str) -> str:
    """aws-cli, `awscli/customizations/s3/subcommands.py`, MbCommand: no constraint in the one region that takes none."""
    constraint = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    boto3.client("s3", region_name=region).create_bucket(Bucket=bucket, **constraint)  # pyright: ignore[reportArgumentType]
    return f"make_bucket: {bucket}\n"


def _value(value: str) -> Any:
    """The CLI's shorthand for a structure of one member, or a text."""
    key, equals, rest = value.partition("=")
    return {key: rest} if equals else value


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """What each command that asks the account says, in the page's order."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "nobody")
    with mock_aws():
        yield {line: said(line) for line in commands() if line.startswith("aws ") and not line.startswith(NOT_ASKED)}


def test_the_page_shows_what_the_account_says(answers: dict[str, str]) -> None:
    hold(answers)


@pytest.mark.parametrize("region", ["eu-west-1", "us-east-1"])
def test_the_bucket_of_states_is_made_in_every_region(region: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "nobody")
    (line,) = [line for line in commands() if line.endswith("s3://YOUR-STATE") and line.startswith("aws ")]
    with mock_aws():
        assert said(line, region) == "make_bucket: YOUR-STATE\n"


@pytest.mark.usefixtures("answers")
def test_the_state_is_versioned_and_its_key_has_the_name_that_secrets_use() -> None:
    clients: Any = (boto3.client("s3", region_name=REGION), boto3.client("kms", region_name=REGION))
    assert clients[0].get_bucket_versioning(Bucket="YOUR-STATE")["Status"] == "Enabled"
    (given,) = [line for line in commands() if line.startswith("SECRETS=")]
    assert clients[1].describe_key(KeyId=given.removeprefix("SECRETS=awskms://"))["KeyMetadata"]["Enabled"]


def test_what_others_run_stays_as_it_stands_even_where_two_look_alike() -> None:
    page = "```\naws iam make --of a\naws iam make --of b\n```\n\n```text\n$ aws iam make\nfirst\n$ aws iam make\nsecond\n```\n"
    assert shown(page, {}) == page
