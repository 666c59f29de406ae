"""How words go on when a shell asks: by the files of the checkout, which are not judged here; nothing outside of one."""

from collections.abc import Callable, Iterable
from pathlib import Path

Completer = Callable[[str], list[str]]


def _of_checkout(names: Callable[[Path], Iterable[str]]) -> Completer:
    def complete(incomplete: str) -> list[str]:
        from headway.environment.checkout import find
        from headway.problem import UserError

        try:
            return sorted(name for name in names(find()) if name.startswith(incomplete))
        except (UserError, OSError):
            return []

    return complete


def _environments(checkout: Path) -> Iterable[str]:
    from headway.environment.checkout import environments

    return environments(checkout)


def _layers(*layers: str) -> Callable[[Path], Iterable[str]]:
    return lambda checkout: (f"{name}-{layer}" for name in _environments(checkout) for layer in layers)


def _services(checkout: Path) -> Iterable[str]:
    files = (checkout / "tenants").glob("*/*.yaml")
    return (f"{file.parent.name}/{file.stem}" for file in files if file.stem != "tenant")


def _tenants(checkout: Path) -> Iterable[str]:
    return (file.parent.name for file in (checkout / "tenants").glob("*/tenant.yaml"))


environment_names = _of_checkout(_environments)
cluster_stacks = _of_checkout(_layers("cluster"))
priced_stacks = _of_checkout(_layers("cluster", "platform"))
services = _of_checkout(_services)
tenants = _of_checkout(_tenants)
tenants_and_services = _of_checkout(lambda checkout: (*_tenants(checkout), *_services(checkout)))


def policy_rules(incomplete: str) -> list[str]:
    from policies.guardrails.registry import RULES

    return [rule.id for rule in RULES if rule.id.startswith(incomplete)]


def verify_checks(incomplete: str) -> list[str]:
    from headway.verify.catalogue import CHECKS

    return [check.name for check in CHECKS if check.name.startswith(incomplete)]
