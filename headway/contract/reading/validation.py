"""From a document to a contract: validation by the models, and each of pydantic's errors as a problem with its place.

The words for errors of form are in `wording`; contradictions bring their own from the models. The trap: pydantic's error paths name the
chosen alternative of a union (`runtime.triton.models`), which is no key of the document and is taken out again here.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from headway.contract.part import Part
from headway.contract.reading.document import Document
from headway.contract.reading.fields import field_at, tags
from headway.contract.reading.wording import WrongValue, kind_of, meant_for, nearest, wrong_value
from headway.problem import FieldPath, Problem, problem, shown

P = TypeVar("P", bound=Part)

MOST_LOOKED_UP = 200
"""Errors of a document for which a misspelling is looked up: as many as are shown. Each costs a quarter of a millisecond."""


def contract_from(document: Document, kind: type[P]) -> tuple[P | None, tuple[Problem, ...]]:
    """The contract in `document`, or everything that is wrong with it. Findings of the document itself are not repeated."""
    if document.findings:
        return None, _once(_errors(document, kind))
    try:
        return kind.model_validate(document.data), ()
    except ValidationError as error:
        return None, _once(_findings(document, kind, error))


def _once(findings: Iterable[Problem]) -> tuple[Problem, ...]:
    """Without the fields that are missing because they are written wrongly, which is told already."""
    told = tuple(findings)
    meant = {(each.path[:-1], each.remedy) for each in told if each.rule == "field-unknown"}
    return tuple(e for e in told if e.rule != "field-missing" or (e.path[:-1], meant_for(str(e.path[-1]))) not in meant)


def _errors(document: Document, kind: type[Part]) -> Iterator[Problem]:
    """Errors of form in a document that is already refused, so that all mistakes show at once."""
    if document.data is not None:
        told = {finding.path for finding in document.findings if finding.rule == "document-finite-number"}
        try:
            kind.model_validate(document.data)
        except ValidationError as error:
            # What stands in for a number that could not be read was never written.
            yield from (finding for finding in _findings(document, kind, error) if finding.path not in told)


def _findings(document: Document, kind: type[Part], error: ValidationError) -> Iterator[Problem]:
    for number, details in enumerate(error.errors(include_url=False)):
        raw = tuple(details["loc"])
        path = _document_path(document.data, raw, missing=details["type"] == "missing")
        context = details.get("ctx", {})
        if details["type"] == "too_short" and len(details["input"]) >= context["min_length"]:
            continue  # pydantic counts valid entries only; the invalid ones have their own errors
        if details["type"] == "violations":
            for violation in cast(tuple[Problem, ...], context["found"]):
                yield at(document, violation, path)
        elif _without_gpu(kind, path, str(details["type"]), context):
            yield at(document, _NO_GPU, path[:2])
        elif details["type"] == "union_tag_invalid" or details["type"] == "union_tag_not_found":
            yield _wrong_alternative(document, path, details["input"], context, field_at(kind, raw))
        else:
            wrong = WrongValue(
                document=document,
                kind=kind,
                location=raw,
                path=path,
                type=str(details["type"]),
                message=str(details["msg"]),
                given=details["input"],
                context=context,
                looked_up=number < MOST_LOOKED_UP,
            )
            yield wrong_value(wrong)


_NO_GPU = problem(
    "every-model-holds-a-gpu",
    fact="the model uses no GPU",
    consequence="The pools, quotas and rollouts of this platform count GPUs, so nothing would place, charge or roll it out",
    remedy="Request a small part of one, such as {share: mps, accelerator: l4, memory: 1Gi}; deploy a server without a GPU by your own manifests",
)
"""Why: docs/adr/0013-every-model-needs-a-gpu.md."""


def _without_gpu(kind: type[Part], path: FieldPath, type_: str, context: Mapping[str, Any]) -> bool:
    """Whether a model's GPU is left out, or declined by a word for none."""
    if "envelope" not in kind.model_fields or path[:2] != ("envelope", "gpu"):
        return False
    if type_ == "union_tag_invalid":
        return str(context.get("tag")).lower() in ("none", "cpu", "no", "0")
    return type_ == "missing" and len(path) == 2


def at(document: Document, problem: Problem, above: FieldPath = ()) -> Problem:
    """The same problem, placed in its document: with the whole path, the place and the value as text."""
    path = (*above, *problem.path)
    place = document.place(path)
    return replace(problem, subject="", file=document.file, line=place.line, column=place.column, path=path, value=problem.value_text)


def _document_path(data: Any, raw: FieldPath, *, missing: bool) -> FieldPath:
    """`raw` without the parts that name a union's alternative or a mapping's key."""
    path: list[str | int] = []
    for number, part in enumerate(raw):
        last = number == len(raw) - 1
        if isinstance(data, dict) and part in data:
            data = cast(dict[Any, Any], data)[part]
        elif isinstance(data, list) and isinstance(part, int) and part < len(cast(list[Any], data)):
            data = cast(list[Any], data)[part]
        elif not (missing and last):
            continue
        path.append(part)
    return tuple(path)


def _wrong_alternative(document: Document, path: FieldPath, given: Any, context: dict[str, Any], field: FieldInfo | None) -> Problem:
    chooser = str(context.get("discriminator", "")).strip("'")
    path = (*path, chooser)
    place = document.place(path)
    choices = tags(field, chooser)
    listed = ", ".join(choices)
    tag = context.get("tag")
    otherwise = f"Write {chooser}: with one of {listed}"
    if tag is not None:
        fact = f"{shown(tag)!r} is not one of {listed}"
    else:
        fact = f"{chooser} is missing" if isinstance(given, dict) else f"there is {kind_of(given)}, where a mapping is expected"
    return Problem(
        rule="value-not-legal" if tag is not None else "field-missing",
        file=document.file,
        line=place.line,
        column=place.column,
        path=path,
        value="" if tag is None else shown(tag),
        fact=fact,
        consequence="This field decides which other fields there are, so none of them can be read",
        remedy=otherwise if tag is None else nearest(tag, choices, otherwise),
    )
