"""Clients of AWS for what only asks: made when they are needed, and answers read page by page."""

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

Clients = Callable[[str], Any]
"""A boto3 client of a service, in the environment's region."""


def clients(region: str, **settings: Any) -> Clients:
    """Clients in `region` by this machine's credentials, one of each service. `settings` are botocore's `Config`."""
    import boto3
    from botocore.config import Config

    session: Any = boto3.Session(region_name=region)
    config, made, one_at_a_time = Config(**settings), dict[str, Any](), Lock()  # a session makes clients for one thread only

    def client(service: str) -> Any:
        with one_at_a_time:
            if service not in made:
                made[service] = session.client(service, config=config)
            return made[service]

    return client


def pages(client: Any, operation: str, key: str, **arguments: Any) -> Iterator[Any]:
    """Every element below `key` of all pages of an operation."""
    for page in client.get_paginator(operation).paginate(**arguments):
        yield from page[key]
