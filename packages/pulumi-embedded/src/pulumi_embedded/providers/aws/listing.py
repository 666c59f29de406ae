"""The tables of modelled types in `docs/providers.md` and `docs/unchecked.md`, made from the catalogue.

`python -m pulumi_embedded.providers.aws.listing` writes both.
"""

from pathlib import Path

from pulumi_embedded.providers.aws.catalogue import CATALOGUE
from pulumi_embedded.providers.aws.kind import AwsKind

BEGIN, END = "<!-- types: begin -->", "<!-- types: end -->"
PAGE = Path(__file__).parents[4] / "docs" / "providers.md"


def table() -> str:
    """One line a type: what bounds its values, what a change replaces, which outputs stay empty."""
    lines = ["| type | values checked against | a change replaces it | outputs left empty |", "|---|---|---|---|"]
    return "\n".join([*lines, *(_line(kind) for kind in CATALOGUE.values())])


def rewritten(text: str) -> str:
    """`text` with the table between its marks replaced by today's."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def unchecked() -> str:
    """Every text and number that no service model bounds, by type; many have a rule of their own all the same."""
    head = (
        "# Inputs that no AWS service model bounds\n\nTheir type is checked by the SDK's classes, their references by the account, and some by "
        "rules of `rules.py`.\nMade by `python -m pulumi_embedded.providers.aws.listing`.\n\n"
    )
    lines = [f"- `{kind.type}`: {', '.join(kind.limits.unchecked) if kind.operation else 'all'}" for kind in CATALOGUE.values()]
    return head + "\n".join(lines) + "\n"


def _line(kind: AwsKind) -> str:
    bounds = kind.operation or "SDK types and own rules"
    replaces = "any" if not kind.updatable else ", ".join(kind.replaces) or "nothing"
    return f"| `{kind.type}` | {bounds} | {replaces} | {', '.join(sorted(kind.absent)) or 'none'} |"


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    PAGE.with_name("unchecked.md").write_text(unchecked(), encoding="utf-8")
