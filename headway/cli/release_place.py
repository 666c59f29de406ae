"""Where a release happens: the environment's ledger, stack, cluster and metrics, found by its name. The sandbox's are this machine's.

Everything is opened when it is first used, so that reading a ledger needs no cluster. The trap: a program that plans must see the ledger
that the driver writes; its address is therefore handed to every stack operation.
"""

import getpass
import os
import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from headway.contract.model import Model
    from headway.contract.pool import Pool
    from headway.environment.kubernetes import Api
    from headway.environment.stacks import PackSource, Runner
    from headway.ledger.chain import Ledger
    from headway.ledger.store import Store
    from headway.release.driver.cluster import Cluster
    from headway.release.driver.deployment import Deployment
    from headway.release.evidence.kept import Samples
    from headway.release.evidence.stillness import Watch

SANDBOX = "sandbox"
PROMETHEUS = "HEADWAY_PROMETHEUS"
"""Addresses, separated by commas, in order of preference."""
TOKEN_FILE, LOGIN_FILE = f"{PROMETHEUS}_TOKEN_FILE", f"{PROMETHEUS}_LOGIN_FILE"
"""A file with a bearer token, or one with `user:password`."""
CA_FILE, CERTIFICATE_FILE, KEY_FILE = f"{PROMETHEUS}_CA_FILE", f"{PROMETHEUS}_CERTIFICATE_FILE", f"{PROMETHEUS}_KEY_FILE"
"""Who may have signed the server's certificate; ours, and its key."""
_NAME = re.compile("[a-z]([a-z0-9-]*[a-z0-9])?")
"""Of environments, tenants and models: what may be part of a path, a key and an object's name."""
PRODUCTION_SCRAPE_SECONDS = 15.0
"""What the platform's monitors ask for."""


@dataclass(frozen=True, kw_only=True)
class Place:
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
    def stack(self) -> str:
        return f"{self.environment}-{self.tenant}"

    @property
    def actor(self) -> str:
        """Who acts, for the audit trail: what CI says of itself, else the user of this machine."""
        return os.environ.get("GITHUB_ACTOR") or os.environ.get("GITLAB_USER_LOGIN") or f"{getpass.getuser()}@{socket.gethostname()}"

    @cached_property
    def address(self) -> str:
        """Of the ledger. Raises UserError where the environment has none."""
        from headway.ledger.location import place

        if self.environment == SANDBOX:
            return self._layout.ledger_address
        found = place(None) or place(_outputs(self.project, self.environment, "cluster").get("ledger_bucket"))
        if found is None:
            raise UserError(
                f"Environment {self.environment} has no release ledger.",
                "Without it nobody knows which release has which traffic.",
                f"Deploy its cluster layer: `pulumi up -s {self.environment}-cluster`; or set HEADWAY_LEDGER.",
            )
        return found

    @cached_property
    def store(self) -> "Store":
        from headway.ledger.location import opened

        return opened(self.address)

    def ledger(self) -> "Ledger":
        from headway.ledger.chain import Ledger

        return Ledger(self.store, self.chain, self.actor, lambda: datetime.now(UTC))

    @cached_property
    def runner(self) -> "Runner":
        from headway.environment.stacks import Runner

        if self.environment != SANDBOX:
            return Runner(self.project, environment={"HEADWAY_LEDGER": self.address} if "HEADWAY_LEDGER" in os.environ else {})
        from pulumi_embedded.engine.command import EmbeddedPulumi
        from sandbox.cloud.registry import providers

        return Runner(self.project, command=EmbeddedPulumi(providers(self._layout)), environment=self._layout.engine_environment())

    @cached_property
    def packs(self) -> tuple["PackSource", ...]:
        from headway.environment.stacks import PackSource

        config = self.project / "policies" / "config" / f"{self.environment}.json"
        return (PackSource(path=self.project / "policies" / "tenant", config=config if config.exists() else None),)

    @cached_property
    def pools(self) -> "tuple[Pool, ...]":
        from headway.contract.environment import pools_of

        return pools_of(_described(self.project, self.environment))[0]

    def contract(self) -> "Model":
        """The contract in the checkout. Raises UserError when it, or a neighbour, is refused."""
        from headway.contract.loader import load_tenant
        from headway.problem import ProblemLevel

        result = load_tenant(self.project / "tenants" / self.tenant, self.pools)
        found = result.tenant(self.tenant)
        refused = [f for f in result.findings if f.level is ProblemLevel.ERROR]
        model = next((m for m in found.models if m.name == self.model), None) if found else None
        if refused or model is None:
            said = "; ".join(f"{f.place} {f.dotted}: {f.fact}" for f in refused) or f"there is no tenants/{self.tenant}/{self.model}.yaml"
            raise UserError(
                f"The contract of {self.chain} cannot be released: {said}.",
                "Nothing was started.",
                "`headway check` says every finding with its remedy.",
                Exit.REFUSED,
            )
        return model

    @cached_property
    def api(self) -> "Api":
        from headway.environment.kubernetes import Api

        return Api(self._kubeconfig)

    @cached_property
    def cluster(self) -> "Cluster":
        from headway.release.driver.cluster import Cluster

        return Cluster(self.api, self.tenant, self.model)

    def guard(self) -> None:
        """Make sure that somebody takes traffic back if this machine dies. Raises UserError where nobody would.

        The sandbox starts one as a process of its own: enough for a runner that dies, not for a machine that does.
        """
        from headway.release.driver.world import OutOfReachError
        from headway.release.guard import guarded

        try:
            if guarded(self.api, self.tenant, datetime.now(UTC)):
                return
        except OutOfReachError as failure:
            raise UserError(
                f"The API server of {self.environment} does not answer ({failure}).",
                "No release can be carried out; nothing was started.",
                "Try again; in the sandbox, `make up` repairs it." if self.environment == SANDBOX else "Check the network and try again.",
            ) from None
        if self.environment == SANDBOX:
            self._start_guard()
            return
        raise UserError(
            f"Nobody guards the releases of {self.tenant} in {self.environment}.",
            "If this machine died, an unproven version would keep its traffic until somebody noticed; nothing was started.",
            f"Run `headway release guard {self.tenant} --environment {self.environment}` on another machine, or use --unguarded.",
            Exit.REFUSED,
        )

    def _start_guard(self) -> None:
        import sys

        from headway.release.guard import guarded
        from sandbox.cluster.processes import Process, Supervisor
        from sandbox.progress import Silent

        words = ("-m", "headway.cli.main", "release", "guard", self.tenant, "--project", str(self.project))
        process = Process(
            name=f"release-guard-{self.tenant}",
            argv=(sys.executable, *words),
            ready=lambda: None if guarded(self.api, self.tenant, datetime.now(UTC)) else "it has not looked yet",
            environment={"HEADWAY_SANDBOX_HOME": str(self._layout.state), "PYTHONPATH": str(self.project)},
        )
        Supervisor(self._layout).ensure(process, Silent())

    def deployed(self) -> Mapping[str, Any] | None:
        """What the tenant's stack says serves, while no ledger knows it."""
        return (self.runner.outputs(self.stack).get("contracts") or {}).get(self.model)

    def world(self, model: "Model") -> "Deployment":
        from headway.release.driver.deployment import Deployment
        from headway.release.evidence.reading import Service

        service = Service(tenant=self.tenant, model=self.model, classes=tuple(kind.name for kind in model.rollout.classes))
        return Deployment(
            runner=self.runner,
            stack=self.stack,
            packs=self.packs,
            cluster=self.cluster,
            evidence=self._evidence(),
            service=service,
            run=self._executed,
            samples=self._samples(model),
            compared_by=model.health.valued,
        )

    def _samples(self, model: "Model") -> "Samples | None":
        """Where samples of the model's requests are; None where none are kept, or nobody asks for them."""
        from headway.release.evidence.kept import SampleBucket, SampleFile

        if not model.data.sampled or model.rollout.mirror is None or model.rollout.mirror.differ is None:
            return None
        if self.environment == SANDBOX:
            return SampleFile(self._layout.logs / "samples" / f"{self.tenant}.{self.model}.jsonl")
        from headway.contract.sampling import prefix
        from headway.ledger.store import client

        bucket = _outputs(self.project, self.environment, "cluster").get("telemetry_bucket")
        return SampleBucket(client(), str(bucket), prefix(self.tenant, self.model, model.data.retention)) if bucket else None

    def _executed(self, pod: Mapping[str, Any], arguments: Sequence[str], seconds: float) -> str:
        """Python in the serving container of a pod. Raises OutOfReachError."""
        from headway.release.driver.answers import CONTAINER

        if self.environment != SANDBOX:
            return self.api.executed(self.tenant, str(pod["metadata"]["name"]), CONTAINER, ("python3", *arguments), seconds)
        from headway.release.driver.world import OutOfReachError
        from sandbox.traffic.pod_exec import NotRunError, executed

        try:
            return executed(self._layout, pod, arguments, seconds)
        except NotRunError as failure:
            raise OutOfReachError(str(failure)) from None

    @property
    def scrape_seconds(self) -> float:
        """How often this environment's Prometheus looks at counters that a release is judged by."""
        if self.environment == SANDBOX:
            from sandbox.monitoring.configuration import SCRAPE_SECONDS

            return SCRAPE_SECONDS
        return PRODUCTION_SCRAPE_SECONDS

    def _evidence(self) -> "Watch":
        from headway.release.evidence.prometheus import Endpoint
        from headway.release.evidence.reader import PrometheusEvidence, Settings

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
        endpoints = [Endpoint(url=url, **more) for url in addresses]
        settle = min(5.0, self.scrape_seconds)
        return PrometheusEvidence(endpoints, Settings(scrape_seconds=self.scrape_seconds, settle_seconds=settle))

    def _prometheus(self) -> str:
        found = self.prometheus or os.environ.get(PROMETHEUS)
        if found is None and self.environment == SANDBOX:
            found = self._sandboxed_prometheus()
        found = found or (
            _outputs(self.project, self.environment, "platform").get("prometheus_address") if self.environment != SANDBOX else None
        )
        if not found:
            raise UserError(
                f"No Prometheus of environment {self.environment} is known.",
                "Without evidence no release is judged; nothing was started.",
                f"Name it with --prometheus or {PROMETHEUS}"
                + ("; `headway sandbox up --with monitoring` starts one." if self.environment == SANDBOX else "."),
            )
        return str(found)

    def _sandboxed_prometheus(self) -> str | None:
        from sandbox.cluster.processes import Supervisor

        supervisor = Supervisor(self._layout)
        running = any(p.name == "prometheus" and p.running for p in supervisor.list())
        return f"http://127.0.0.1:{supervisor.port('prometheus')}" if running else None

    @property
    def _kubeconfig(self) -> Mapping[str, Any] | str:
        if self.environment == SANDBOX:
            return str(self._layout.kubeconfig)
        import json

        found = _outputs(self.project, self.environment, "platform").get("kubeconfig")
        return json.loads(found) if isinstance(found, str) else dict(found or {})

    @cached_property
    def _layout(self) -> Any:
        from sandbox.layout import Layout

        return Layout.of(self.project)


def _described(project: Path, environment: str) -> Path:
    """The file that describes the environment's cluster. Raises UserError where there is none: asking for its stack would make one."""
    file = project / "stacks" / f"Pulumi.{environment}-cluster.yaml"
    if _NAME.fullmatch(environment) and file.exists():
        return file
    known = sorted(f.stem.removeprefix("Pulumi.").removesuffix("-cluster") for f in file.parent.glob("Pulumi.*-cluster.yaml"))
    raise UserError(
        f"There is no environment {environment}.", "Nothing was done.", f"Name one of {', '.join(known)} with --environment.", Exit.USAGE
    )


@cache
def _outputs(project: Path, environment: str, layer: str) -> Mapping[str, Any]:
    """What a layer of the environment exported, asked once: the real engine takes seconds for it. Raises UserError without an answer."""
    from pulumi.automation import CommandError

    from headway.environment.stacks import Runner

    _described(project, environment)
    stack = f"{environment}-{layer}"
    try:
        return Runner(project).outputs(stack)
    except FileNotFoundError:
        why, remedy = "there is no `pulumi` on the PATH", "Install the Pulumi CLI, or set HEADWAY_LEDGER and HEADWAY_PROMETHEUS"
    except CommandError as failure:
        said = [line.strip() for line in str(failure).splitlines() if "error:" in line]
        why, remedy = said[0] if said else "pulumi failed", f"Try `pulumi stack output -s {stack}`: it says the same, and more"
    raise UserError(f"What stack {stack} exported cannot be read: {why}.", "Nothing was done.", f"{remedy}.")


def adopt_deployed(project: Path, environment: str) -> tuple[str, ...]:
    """Register whatever serves and no ledger knows yet as a first release; answers the services. From then on only a release replaces it."""
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


def places(project: Path, environment: str) -> tuple[Place, ...]:
    """Every service that the checkout has a contract of, sorted."""
    files = sorted((project / "tenants").glob("*/*.yaml"))
    return tuple(
        Place(project=project, environment=environment, tenant=file.parent.name, model=file.stem) for file in files if file.stem != "tenant"
    )


def place(service: str, environment: str, project: Path | None, prometheus: str | None = None) -> Place:
    """The place of `service` (`<tenant>/<model>`). Raises UserError for another form."""
    from headway.cli.project import find

    tenant, slash, model = service.partition("/")
    if not slash or not _NAME.fullmatch(tenant) or not _NAME.fullmatch(model):
        raise UserError(
            f"{service!r} names no service.", "Nothing was done.", "Write <tenant>/<model>, such as vision/defects.", Exit.USAGE
        )
    root = find(project)
    _described(root, environment)
    here = Place(project=root, environment=environment, tenant=tenant, model=model, prometheus=prometheus)
    if not (root / "tenants" / tenant / f"{model}.yaml").exists() and not here.store.list(f"{here.chain}/events/"):
        known = ", ".join(each.chain for each in places(root, environment))
        raise UserError(
            f"There is no service {service}: neither a contract of it nor a release.",
            "Nothing was done.",
            f"The checkout has contracts of {known}." if known else "Write its contract: `headway new`.",
            Exit.USAGE,
        )
    return here
