"""Provider instances: one for each provider resource, explicit or default; looked up by the references that resources carry.

A reference is `URN::ID`. The trap: a provider whose configuration holds an unknown exists but is not configured, and may then only be
asked for `check` and `plan`.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from pulumi_embedded.engine.graph import provider_urn
from pulumi_embedded.engine.halt import StepError, Stopped
from pulumi_embedded.engine.model import ProviderFactories, Resource
from pulumi_embedded.engine.provider import Provider, ProviderError
from pulumi_embedded.engine.resources import OperationResources
from pulumi_embedded.engine.urns import package_of
from pulumi_embedded.engine.values import UNKNOWN, has_unknown, plain


@dataclass(frozen=True, slots=True)
class Instance:
    provider: Provider
    configured: bool


class Providers:
    def __init__(self, factories: ProviderFactories, ledger: OperationResources) -> None:
        self._factories = factories
        self._ledger = ledger
        self._lock = threading.RLock()
        self._instances: dict[str, Instance] = {}
        self._made: list[Provider] = []
        self._unloaded: dict[str, Provider] = {}
        self._recorded = {resource.urn: resource for resource in ledger.recorded if resource.is_provider}

    def follow(self, ledger: OperationResources) -> None:
        """Look resources up in `ledger` from now on: a refresh has made a new one."""
        self._ledger = ledger

    def of_type(self, type: str, urn: str) -> Provider:
        """An instance to check the configuration of a provider resource; `load` configures the same one later."""
        with self._lock:
            if urn not in self._unloaded:
                self._unloaded[urn] = self._make(package_of(type), urn)
            return self._unloaded[urn]

    def load(self, resource: Resource) -> Instance:
        """Configure the instance of a provider resource, unless its configuration holds unknowns."""
        with self._lock:
            provider = self._unloaded.pop(resource.urn, None) or self._make(package_of(resource.type), resource.urn)
            configured = not has_unknown(resource.inputs)
            if configured:
                try:
                    provider.configure(plain(resource.inputs))
                except ProviderError as error:
                    raise StepError(f"provider {resource.name} cannot be configured: {error}", resource.urn) from error
            self._instances[resource.urn] = Instance(provider, configured)
            return self._instances[resource.urn]

    def instance(self, reference: str) -> Instance:
        """The instance that a resource's reference names; one that the program no longer registers is made from the recorded resource."""
        urn = self._ledger.current_name(provider_urn(reference))
        with self._lock:
            found = self._instances.get(urn)
            if found is not None:
                return found
            resource = self._ledger.new.get(urn) or self._ledger.old.get(urn) or self._recorded.get(urn)
            if resource is None:
                raise StepError(f"provider {reference} is neither registered nor recorded in the state")
            return self.load(resource)

    def close(self) -> None:
        for provider in self._made:
            provider.close()

    def _make(self, package: str, urn: str) -> Provider:
        factory = self._factories.get(package)
        if factory is None:
            known = ", ".join(sorted(self._factories)) or "none"
            raise StepError(
                f"no provider for package '{package}' in the embedded engine (known: {known}), so its resources cannot be managed; "
                "remove them, or run this stack with the pulumi CLI",
                urn,
            )
        provider = factory()
        self._made.append(provider)
        return provider


def default_name(version: str) -> str:
    """The name of the default provider of one version of a package, as Pulumi spells it."""
    return "default" + (f"_{version.translate(_UNDERSCORES)}" if version else "")


_UNDERSCORES = str.maketrans(".-+", "___")


class Defaults:
    """Default providers: each is registered once, before the first resource that needs it."""

    def __init__(self, register: Callable[[str, str], Resource]) -> None:
        """`register` makes the provider resource of (package, version)."""
        self._register = register
        self._lock = threading.Lock()
        self._locks: dict[tuple[str, str], threading.Lock] = {}
        self._references: dict[tuple[str, str], str] = {}
        self._failed: set[tuple[str, str]] = set()

    def reference(self, package: str, version: str) -> str:
        key = package, version
        found = self._references.get(key)
        if found is not None:
            return found
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key in self._failed:
                raise Stopped
            if key not in self._references:
                # Until it succeeds it has failed: the first to ask reports why, and the others need not.
                self._failed.add(key)
                self._references[key] = reference_to(self._register(package, version))
                self._failed.discard(key)
            return self._references[key]


def reference_to(provider: Resource) -> str:
    return f"{provider.urn}::{provider.id or UNKNOWN}"
