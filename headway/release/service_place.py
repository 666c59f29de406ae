"""One service in one environment: its ledger, its stack, its replicas and its evidence, put together from the
environment port.

Everything is opened when it is first used, so that reading a ledger needs no cluster.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from headway.environment.checkout import described, find, is_name
from headway.environment.port import Environment, OutOfReachError
from headway.problem import Exit, UserError, shown

if TYPE_CHECKING:
    from headway.contract.drift import WatchedTraffic
    from headway.contract.evaluation import Evaluation
    from headway.contract.model import Model
    from headway.contract.pool import Pool
    from headway.environment.kubernetes import KubernetesApi
    from headway.environment.request_samples import RequestSamples
    from headway.environment.stacks import PackSource, StackRunner
    from headway.ledger.chain import Ledger
    from headway.ledger.store import LedgerStore
    from headway.release.driver.deployed_service import DeployedService
    from headway.release.driver.live_service import LiveService
    from headway.release.evaluation.holdout import HoldoutSet
    from headway.release.evaluator.asking import LabelledAnswers
    from headway.release.evidence.drained import DrainEvidence
    from headway.release.evidence.prometheus import PrometheusEndpoint

PROMETHEUS = "HEADWAY_PROMETHEUS"
"""Addresses, separated by commas, in order of preference."""
TOKEN_FILE, LOGIN_FILE = f"{PROMETHEUS}_TOKEN_FILE", f"{PROMETHEUS}_LOGIN_FILE"
"""A file with a bearer token, or one with `user:password`."""
CA_FILE, CERTIFICATE_FILE, KEY_FILE = f"{PROMETHEUS}_CA_FILE", f"{PROMETHEUS}_CERTIFICATE_FILE", f"{PROMETHEUS}_KEY_FILE"
"""Who may have signed the server's certificate; ours, and its key."""


@dataclass(frozen=True, kw_only=True)
class ServicePlace:
    """One service in one environment."""

    project: Path
    environment: str
    tenant: str
    model: str
    prometheus: str | None = None

    @property
    def chain(self) -> str:
        return f"{self.tenant}/{self.model}"

    @property
    def checkout(self) -> Path | None:
        """Where its contract is kept with its history; None where there is no checkout."""
        return self.project

    @property
    def stack(self) -> str:
        return f"{self.environment}-{self.tenant}"

    @cached_property
    def port(self) -> Environment:
        """The environment itself."""
        from headway.environment.selection import environment

        return environment(self.environment, self.project)

    @property
    def address(self) -> str:
        """Of the ledger. Raises UserError where the environment has none."""
        return self.port.ledger_address

    @cached_property
    def store(self) -> "LedgerStore":
        from headway.ledger.location import opened

        return opened(self.address)

    def ledger(self) -> "Ledger":
        return self._ledger(self.chain)

    def evaluations(self) -> "Ledger":
        """The chain of what the serving versions answered after their promotions."""
        from headway.release.evaluation.standing import evaluation_chain

        return self._ledger(evaluation_chain(self.chain))

    def drifts(self) -> "Ledger":
        """The chain of the numbers that are watched for drift."""
        from headway.release.evaluation.watched import drift_chain

        return self._ledger(drift_chain(self.chain))

    def _ledger(self, chain: str) -> "Ledger":
        from headway.ledger.chain import Ledger
        from headway.release.driver.holder import actor

        return Ledger(self.store, chain, self.environment, actor(), lambda: datetime.now(UTC), self.port.ledger_witness)

    @property
    def runner(self) -> "StackRunner":
        return self.port.stacks

    @cached_property
    def packs(self) -> tuple["PackSource", ...]:
        from headway.environment.stacks import PackSource

        config = self.project / "policies" / "config" / f"{self.environment}.json"
        return (PackSource(path=self.project / "policies" / "tenant", config=config if config.exists() else None),)

    @cached_property
    def pools(self) -> "tuple[Pool, ...]":
        from headway.contract.reading.pools import pools_of

        return pools_of(described(self.project, self.environment))[0]

    def contract(self) -> "Model":
        """The contract in the checkout. Raises UserError when it, or a neighbour, is refused."""
        from headway.contract.reading.loader import load_tenant
        from headway.problem import ProblemLevel

        result = load_tenant(self.project / "tenants" / self.tenant, self.pools)
        contracts = result.tenant(self.tenant)
        refused = [f for f in result.findings if f.level is ProblemLevel.ERROR]
        model = next((m for m in contracts.models if m.name == self.model), None) if contracts else None
        if refused or model is None:
            said = (
                "; ".join(f"{' '.join(filter(None, (f.place, f.dotted)))}: {f.fact}" for f in refused)
                or f"there is no tenants/{self.tenant}/{self.model}.yaml"
            )
            raise UserError(
                f"The contract of {self.chain} cannot be released: {said}.",
                "Nothing was started.",
                "Run `headway check`: it shows every finding with its remedy.",
                Exit.REFUSED,
            )
        return model

    @property
    def counts_tokens(self) -> bool:
        """Whether the tenant has a quota of tokens, by the checkout."""
        from headway.contract.reading.loader import load_tenant

        contracts = load_tenant(self.project / "tenants" / self.tenant, self.pools).tenant(self.tenant)
        return contracts is not None and contracts.tenant.quota.tokens is not None

    def evaluation(self) -> "Evaluation | None":
        """What its contract says that the serving version is asked. Raises UserError as `contract` does."""
        return self.contract().evaluation

    def watched(self) -> "WatchedTraffic | None":
        """What its contract says that is watched for drift. Raises UserError as `contract` does."""
        return self.contract().watched_traffic

    @property
    def api(self) -> "KubernetesApi":
        return self.port.kubernetes

    @cached_property
    def cluster(self) -> "LiveService":
        from headway.release.driver.live_service import LiveService

        return LiveService(self.api, self.tenant, self.model, self.port.simulated)

    def guard(self) -> None:
        """Make sure that somebody takes traffic back if this machine dies. Raises UserError where nobody would."""
        from headway.release.guard import guarded

        def watching() -> bool:
            return guarded(self.api, self.tenant, datetime.now(UTC)) is not None

        try:
            if watching():
                return
        except OutOfReachError as failure:
            raise UserError(
                f"The API server of {self.environment} does not answer ({failure}).",
                "No release can be carried out; nothing was started.",
                self.port.restart_hint,
            ) from None
        if self.port.start_release_guard(self.tenant, watching):
            return
        raise UserError(
            f"Nobody guards the releases of {self.tenant} in {self.environment}.",
            "If this machine died, an unproven version would keep its traffic until somebody noticed; nothing was started.",
            f"Run `headway release guard {self.tenant} --environment {self.environment}` on another machine, or use --unguarded.",
            Exit.REFUSED,
        )

    def deployed(self) -> Mapping[str, Any] | None:
        """What the tenant's stack says serves, while no ledger knows it."""
        return (self.runner.outputs(self.stack).get("contracts") or {}).get(self.model)

    def world(self, model: "Model") -> "DeployedService":
        from headway.release.driver.deployed_service import DeployedService
        from headway.release.evidence.reading import JudgedService

        service = JudgedService(tenant=self.tenant, model=self.model, classes=tuple(kind.name for kind in model.rollout.classes))
        return DeployedService(
            runner=self.runner,
            stack=self.stack,
            packs=self.packs,
            cluster=self.cluster,
            evidence=self._evidence(),
            service=service,
            run=self.execute,
            samples=self._samples(model),
            compared_by=model.health.valued,
            requests_hint=self.port.requests_hint,
        )

    def _samples(self, model: "Model") -> "RequestSamples | None":
        """Where samples of the model's requests are; None where none are kept, or nobody asks for them."""
        if not model.data.sampled or model.rollout.mirror is None or model.rollout.mirror.differ is None:
            return None
        return self.port.request_samples(self.tenant, self.model, model.data.retention)

    def execute(self, pod: Mapping[str, Any], arguments: Sequence[str], seconds: float) -> str:
        """Python in the serving container of a pod. Raises OutOfReachError."""
        from headway.release.driver.golden_answers import CONTAINER

        return self.port.execute(pod, CONTAINER, arguments, seconds)

    def ask_labelled(
        self, release: str, evaluation: "Evaluation", holdout: "HoldoutSet", drawn: Sequence[int], chance: Random
    ) -> "LabelledAnswers":
        """What replicas of `release` answer to the drawn lines. Raises OutOfReachError."""
        from headway.release.evaluator.asking import ask_lines

        if self.cluster.simulated(release):
            raise OutOfReachError("its replicas are simulated, and nobody can ask them")
        return ask_lines(self.cluster.ready(release), self.execute, evaluation, holdout, drawn, chance)

    @property
    def scrape_seconds(self) -> float:
        """How often this environment's Prometheus looks at counters that a release is judged by."""
        return self.port.scrape_seconds

    def _evidence(self) -> "DrainEvidence":
        from headway.release.evidence.reader import PrometheusEvidence, ScrapeSettings

        settle = min(5.0, self.scrape_seconds)
        return PrometheusEvidence(self.endpoints(), ScrapeSettings(scrape_seconds=self.scrape_seconds, settle_seconds=settle))

    def endpoints(self) -> "list[PrometheusEndpoint]":
        """Each Prometheus of the environment, in order of preference. Raises UserError where none is known."""
        from headway.release.evidence.prometheus import PrometheusEndpoint

        def file(variable: str) -> Path | None:
            return Path(os.environ[variable]) if os.environ.get(variable) else None

        addresses = [address.strip() for address in self._prometheus().split(",")]
        certificate, key = file(CERTIFICATE_FILE), file(KEY_FILE)
        ours = (certificate, key or certificate) if certificate else None
        more: dict[str, Any] = {
            "token_file": file(TOKEN_FILE),
            "login_file": file(LOGIN_FILE),
            "ca_file": file(CA_FILE),
            "certificate": ours,
        }
        return [PrometheusEndpoint(url=url, **more) for url in addresses]

    def _prometheus(self) -> str:
        addresses = self.prometheus or os.environ.get(PROMETHEUS) or self.port.metrics_address
        if not addresses:
            raise UserError(
                f"No Prometheus of environment {self.environment} is known.",
                "Without evidence no release is judged; nothing was started.",
                f"Name it with --prometheus or {PROMETHEUS}{self.port.metrics_hint}. {self.port.requests_hint}".strip(),
            )
        return addresses


def adopt_deployed(project: Path, environment: str) -> tuple[str, ...]:
    """Register whatever serves and no ledger knows yet as a first release; answers the services. From then on only a
    release replaces it."""
    from headway.ledger.chain import LostError
    from headway.release.driver.adoption import adopt

    done: list[str] = []
    for here in places(project, environment):
        if here.store.list(f"{here.chain}/events/"):
            continue
        deployed = here.deployed()
        with suppress(LostError):  # whoever starts a release just now adopts it too
            if deployed and adopt(here.ledger(), here.store, deployed["contract"], deployed["release"]):
                done.append(here.chain)
    return tuple(done)


def places(project: Path, environment: str) -> tuple[ServicePlace, ...]:
    """Every service of the environment that the checkout has a contract of, sorted."""
    from headway.contract.reading.tenants import tenants_of

    files = [
        file for tenant in tenants_of(environment, project / "stacks") for file in sorted((project / "tenants" / tenant).glob("*.yaml"))
    ]
    return tuple(
        ServicePlace(project=project, environment=environment, tenant=file.parent.name, model=file.stem)
        for file in files
        if file.stem != "tenant"
    )


def place(service: str, environment: str, project: Path | None, prometheus: str | None = None) -> ServicePlace:
    """The place of `service` (`<tenant>/<model>`). Raises UserError for another form."""
    tenant, slash, model = service.partition("/")
    if not slash or not is_name(tenant) or not is_name(model):
        raise UserError(
            f"{shown(service)!r} names no service.", "Nothing was done.", "Write <tenant>/<model>, such as vision/defects.", Exit.USAGE
        )
    root = find(project)
    described(root, environment)
    here = ServicePlace(project=root, environment=environment, tenant=tenant, model=model, prometheus=prometheus)
    if not (root / "tenants" / tenant / f"{model}.yaml").exists() and not here.store.list(f"{here.chain}/events/"):
        known = ", ".join(each.chain for each in places(root, environment))
        raise UserError(
            f"There is no service {service}: neither a contract of it nor a release.",
            "Nothing was done.",
            f"The checkout has contracts of {known}." if known else "Write its contract: `headway new`.",
            Exit.USAGE,
        )
    return here
