"""The pages of modelled types, `docs/types.md` and `docs/unchecked.md`, made from the catalogue.

`python -m pulumi_embedded.providers.aws.listing` writes both.
"""

from pathlib import Path

from pulumi_embedded.providers.aws.catalogue import CATALOGUE
from pulumi_embedded.providers.aws.kind import AwsKind

PAGES = Path(__file__).parents[4] / "docs"


def types() -> str:
    """One line a type: what bounds its values, what a change replaces, which outputs stay empty."""
    head = (
        "# Types that the double of the aws provider models\n\n[The double of the cloud](providers.md) refuses every other type by name.\n"
        "Made by `python -m pulumi_embedded.providers.aws.listing`.\n\n"
    )
    lines = ["| type | values checked against | a change replaces it | outputs left empty |", "|---|---|---|---|"]
    return head + "\n".join([*lines, *(_line(kind) for kind in CATALOGUE.values())]) + "\n"


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
    (PAGES / "types.md").write_text(types(), encoding="utf-8")
    (PAGES / "unchecked.md").write_text(unchecked(), encoding="utf-8")
