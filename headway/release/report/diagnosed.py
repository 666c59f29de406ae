"""Why a version was rolled back, as `headway.diagnosis.of_rollback` has said and the end of the release keeps it: for the page and for Markdown.
Pure.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from headway.release import messages
from headway.release.driver.rollout_state import RolloutState

_DIAGNOSIS, _UNDIAGNOSED = "diagnosis", "undiagnosed"
_OF_ALL = "Of the whole service, as it was at the verdict:"
_OF_PODS = "Of the pods of both versions meanwhile, with a 95 % interval of their difference:"


def known(rollout: RolloutState) -> bool:
    """Whether somebody asked why it was rolled back."""
    return bool(rollout.ended and rollout.ended.keys() & {_DIAGNOSIS, _UNDIAGNOSED})


def html(rollout: RolloutState) -> str:
    """The section's content."""
    found = _found(rollout)
    if found is None:
        return f"<p>{escape(_none(rollout))}</p>"
    return f'<p class="quiet">{_OF_ALL}</p>{"".join(map(_html_of, found["diagnoses"]))}{_compared(found["versions"])}'


def markdown(rollout: RolloutState) -> list[str]:
    """Lines; none where nobody asked."""
    if not known(rollout):
        return []
    found = _found(rollout)
    if found is None:
        return ["", escape(_none(rollout), quote=False)]
    lines = ["", f"Diagnosis. {_OF_ALL}", ""]
    for each in found["diagnoses"]:
        lines.append(f"- {_plain(each['summary'])}")
        lines += [f"  - {_plain(_link(link))}" for link in each["chain"]]
    differing = [each for each in found["versions"] if each["differs"]]
    if differing:
        lines += ["", _OF_PODS, ""]
        lines += [f"- {_plain(e['says'])}: new {e['new']}, stable {e['stable']} ({e['difference']})" for e in differing]
    return lines


def _found(rollout: RolloutState) -> Mapping[str, Any] | None:
    return (rollout.ended or {}).get(_DIAGNOSIS)


def _none(rollout: RolloutState) -> str:
    return messages.sentence(f"There is no diagnosis: {(rollout.ended or {})[_UNDIAGNOSED]}")


def _plain(text: str) -> str:
    return escape(messages.one_line(text), quote=False)


def _link(link: Mapping[str, Any]) -> str:
    return f"{link['says']}: {'; '.join(link['evidence'])}"


def _html_of(this: Mapping[str, Any]) -> str:
    chain = "".join(f"<li>{escape(_link(link))}</li>" for link in this["chain"])
    doubts = [("Ruled out", this["ruled_out"], "says", "evidence"), ("Could also be", this["could_be"], "says", "evidence")]
    doubts.append(("Not seen", this["unseen"], "what", "why"))
    tables = "".join(
        f"<details><summary>{title} ({len(rows)})</summary>{_table([(each[left], each[right]) for each in rows])}</details>"
        for title, rows, left, right in doubts
        if rows
    )
    return f"<p><b>{escape(this['summary'])}.</b></p>{f'<ol>{chain}</ol>' if chain else ''}{tables}"


def _compared(versions: Sequence[Mapping[str, Any]]) -> str:
    if not versions:
        return ""
    rows = [(f"{e['says']}{'' if e['differs'] else ' (no difference proven)'}", e["new"], e["stable"], e["difference"]) for e in versions]
    head = "<thead><tr><th>measure</th><th>new version</th><th>stable version</th><th>new minus stable</th></tr></thead>"
    return f'<p class="quiet">{_OF_PODS}</p>{_table(rows, head)}'


def _table(rows: Sequence[tuple[str, ...]], head: str = "") -> str:
    told = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{head}<tbody>{told}</tbody></table>"
