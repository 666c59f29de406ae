"""Pages that are generated are what their generator says today."""

from pathlib import Path

from headway.cli.policies import markdown
from policies.guardrails.exemptions import EXEMPTIONS_FILE, load
from policies.guardrails.registry import PACKS, RULES

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_policies_is_current() -> None:
    packs = {r.id: tuple(sorted(layer for layer, rules in PACKS.items() if r in rules)) for r in RULES}
    remedy = "run: headway policies --output markdown > docs/policies.md"
    assert (DOCS / "policies.md").read_text(encoding="utf-8") == markdown(RULES, packs, load(EXEMPTIONS_FILE, [r.id for r in RULES])), (
        remedy
    )
