"""What the result of a stack operation says to a release: whether a policy refused it, and why it did not take. Pure.

A policy that could not be evaluated is no refusal; it is written down and changes nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.environment.stacks import StackResult


def by_policy(result: "StackResult") -> bool:
    """Whether trying again is of no use: a mandatory policy was broken."""
    return any(v.level == "mandatory" and not v.unevaluated for v in result.violations)


def why(result: "StackResult") -> str:
    """A sentence without its mark."""
    refused = [f"{v.policy}: {v.message.splitlines()[0]}" for v in result.violations if v.level == "mandatory" and not v.unevaluated]
    said = refused or [error.splitlines()[0] for error in result.errors if error] or ["another update holds the stack"]
    return f"the {'preview' if result.operation == 'preview' else 'update'} of {result.stack} was refused: {'; '.join(said)}"


def described(result: "StackResult") -> dict[str, Any]:
    """Mandatory violations and errors, for the ledger."""
    violations = [{"policy": v.policy, "level": v.level, "resource": v.resource, "message": v.message} for v in result.violations]
    return {"violations": [v for v in violations if v["level"] == "mandatory"], "errors": list(result.errors)}


def unevaluated(result: "StackResult") -> list[str]:
    """Names of policies that could not be evaluated, sorted."""
    return sorted({v.policy for v in result.violations if v.unevaluated})
