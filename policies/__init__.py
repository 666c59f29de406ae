"""WHAT MUST NEVER BE: importable rules and the thin packs that list them."""
