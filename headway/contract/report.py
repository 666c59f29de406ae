"""Findings for machines: JSON, and SARIF 2.1.0 for the code-scanning views of CI systems. Text for people is the command's own."""

from collections.abc import Sequence
from typing import Any

from headway.contract.reading.loader import CheckResult
from headway.problem import Problem, ProblemLevel, sentence

SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"


def as_json(result: CheckResult, prefix: str = "") -> dict[str, Any]:
    """The whole result; `prefix` is put before file names."""
    return {
        "ok": result.ok,
        "files": result.files,
        "errors": sum(finding.level is ProblemLevel.ERROR for finding in result.findings),
        "warnings": sum(finding.level is ProblemLevel.WARNING for finding in result.findings),
        "findings": [_record(finding, prefix) for finding in result.findings],
        "notes": list(result.notes),
        "tenants": {each.tenant.name: [model.name for model in each.models] for each in result.contracts},
    }


def _record(finding: Problem, prefix: str) -> dict[str, Any]:
    found = finding.record("level", "rule", "file", "line", "column", "path", "value")
    return {**found, "file": prefix + finding.file, "value": finding.value_text}


def as_sarif(findings: Sequence[Problem], version: str, prefix: str = "") -> dict[str, Any]:
    """A SARIF log with one run. Findings without a line are placed in line 1: viewers drop results without a region."""
    rules = sorted({finding.rule for finding in findings})
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "headway", "version": version, "rules": [{"id": rule, "name": rule} for rule in rules]}},
                "columnKind": "unicodeCodePoints",
                "results": [
                    {
                        "ruleId": finding.rule,
                        "ruleIndex": rules.index(finding.rule),
                        "level": finding.level.value,
                        "message": {"text": f"{_at(finding)}{finding.fact}. {finding.consequence}. {sentence(finding.remedy)}"},
                        "locations": [
                            {
                                "physicalLocation": {
                                    "artifactLocation": {"uri": _uri(prefix + finding.file)},
                                    "region": {"startLine": max(1, finding.line), "startColumn": max(1, finding.column)},
                                },
                                **({"logicalLocations": [{"fullyQualifiedName": finding.dotted}]} if finding.path else {}),
                            }
                        ],
                    }
                    for finding in findings
                ],
            }
        ],
    }


def _at(finding: Problem) -> str:
    return f"{finding.dotted}: " if finding.path else ""


def _uri(path: str) -> str:
    from urllib.parse import quote

    return quote(path)
