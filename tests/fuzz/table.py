"""Every parser that reads what others write."""

from tests.fuzz import of_answers, of_cluster, of_contracts, of_ledger, of_pods, of_registries
from tests.fuzz.parser import FuzzedParser

_TABLES = (of_contracts, of_ledger, of_cluster, of_answers, of_registries, of_pods)
PARSERS: dict[str, FuzzedParser] = {each.name: each for table in _TABLES for each in table.PARSERS}
TABLES: dict[str, str] = {each.name: table.__name__ for table in _TABLES for each in table.PARSERS}
"""Which module to import for a parser: all of them take seconds once they are instrumented."""
