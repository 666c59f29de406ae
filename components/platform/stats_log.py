"""Envoy's access logger that counts: statistics of requests by what filters have written of them. Pure.

istiod's proxies of 1.31 hold it (istio/proxy, bazel/extension_config). What is written is dynamic metadata, of one namespace a filter.
"""

from typing import Any

NAME = "envoy.access_loggers.stats"
_TYPE = "type.googleapis.com/envoy.extensions.access_loggers.stats.v3.Config"


def logger(prefix: str, which: dict[str, Any], **counted: list[dict[str, Any]]) -> dict[str, Any]:
    """Of requests that fit the filter `which`, these `histograms` or `counters`, whose names begin with the prefix."""
    return {"name": NAME, "filter": which, "typed_config": {"@type": _TYPE, "stat_prefix": prefix, **counted}}


def histogram(prefix: str, which: dict[str, Any], name: str, unit: str, value: str, tags: list[dict[str, str]]) -> dict[str, Any]:
    """A logger of one histogram."""
    return logger(prefix, which, histograms=[{"stat": {"name": name, "tags": tags}, "unit": unit, "value_format": value}])


def written(state: str, key: str) -> str:
    """The format of what was written."""
    return f"%DYNAMIC_METADATA({state}:{key})%"


def tag(name: str, state: str, key: str) -> dict[str, str]:
    return {"name": name, "value_format": written(state, key)}


def present(state: str, key: str) -> dict[str, Any]:
    """The filter of requests of which this was written."""
    return _of(state, key, {"present_match": True}, found=False)


def absent(state: str, key: str) -> dict[str, Any]:
    """The filter of those of which it was not: what is there is a number, and no number is null."""
    return _of(state, key, {"null_match": {}}, found=True)


def status(op: str, code: int) -> dict[str, Any]:
    """The filter of requests by the code of their answer, 0 where there was none. `op`: GE or LE."""
    # Envoy asks for the name of a switch, which nobody sets.
    return {"status_code_filter": {"comparison": {"op": op, "value": {"default_value": code, "runtime_key": "headway.counted_codes"}}}}


def header(name: str, pattern: str) -> dict[str, Any]:
    """The filter of those whose header `name` is there and matches whole."""
    return {"header_filter": {"header": {"name": name, "string_match": {"safe_regex": {"regex": pattern}}}}}


def every(*filters: dict[str, Any]) -> dict[str, Any]:
    """The filter of those that fit all of them, of which there are two at least."""
    return {"and_filter": {"filters": list(filters)}}


def either(*filters: dict[str, Any]) -> dict[str, Any]:
    """Of those that fit one of them."""
    return {"or_filter": {"filters": list(filters)}}


def _of(state: str, key: str, value: dict[str, Any], *, found: bool) -> dict[str, Any]:
    """`found`: what holds where nobody wrote anything."""
    return {"metadata_filter": {"matcher": {"filter": state, "path": [{"key": key}], "value": value}, "match_if_key_not_found": found}}
