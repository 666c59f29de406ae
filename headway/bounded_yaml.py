"""YAML that somebody else wrote: read within bounds, so that nothing in it costs memory or ends the process. Pure.

For a file of which a command needs a value or two; contracts are read by `headway.contract.reading.document`, which says where each mistake is.
"""

from typing import Any

import yaml

LARGEST_YAML = 1_000_000
"""Bytes: a stack file has a few thousand."""
DEEPEST = 32


def bounded_yaml(content: bytes | str, largest: int = LARGEST_YAML) -> Any:
    """What a text says. Raises ValueError and nothing else, also for an alias: a few lines of them say a billion values.

    The trap: the loader written in C ends the process on a text that is nested too deep; and tags that are written out reach constructors of
    PyYAML that raise whatever comes.
    """
    if len(content) > largest:
        raise ValueError(f"it has {len(content)} bytes, and at most {largest} are read")
    try:
        depth = 0
        for event in yaml.parse(content, Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise ValueError(f"it is nested more than {DEEPEST} levels deep")
            if isinstance(event, yaml.AliasEvent):
                raise ValueError(f"it has an alias in line {event.start_mark.line + 1}")
        return yaml.load(content, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, TypeError) as odd:
        raise ValueError(" ".join(str(odd).split())) from None
