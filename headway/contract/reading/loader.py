"""Reads a folder of tenants into contracts, or into everything that is wrong with it, in one pass.

The layout is part of the vocabulary: `<tenant>/tenant.yaml` and `<tenant>/<model>.yaml`, names as in the files. The only module of the
vocabulary that touches the file system.
"""

import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import TypeVar

from headway.contract.crosscheck import (
    TenantContracts,
    check_model,
    check_peers,
    check_pools,
    check_without_pools,
    contract_name,
    cross_check,
)
from headway.contract.model import Model
from headway.contract.part import Part
from headway.contract.pool import Pool
from headway.contract.reading.document import LARGEST_DOCUMENT, Document, read
from headway.contract.reading.validation import at, contract_from
from headway.contract.secret_names import masked
from headway.contract.tenant import Tenant
from headway.problem import Problem, ProblemLevel, shown

TENANT_FILE = "tenant.yaml"
_IGNORED = (".md", ".txt")
MOST_FINDINGS = 200
"""Shown of one file."""
P = TypeVar("P", bound=Part)


@dataclass(frozen=True)
class CheckResult:
    """`contracts` holds the tenants that are sound in themselves; findings are sorted by place."""

    contracts: tuple[TenantContracts, ...]
    findings: tuple[Problem, ...]
    notes: tuple[str, ...]
    """What was not checked, and why."""
    files: int
    left_out: tuple[str, ...] = ()
    """Tenants that have a folder, and that the environment does not have."""

    @property
    def ok(self) -> bool:
        """Whether nothing is refused; warnings may be there."""
        return not any(finding.level is ProblemLevel.ERROR for finding in self.findings)

    def tenant(self, name: str) -> TenantContracts | None:
        return next((contracts for contracts in self.contracts if contracts.tenant.name == name), None)


ModelCheck = Callable[[str, Model], Iterable[Problem]]
"""Says of one sound model of a tenant what this vocabulary cannot know; its paths begin at the contract's top."""


def load_tenants(
    folder: FilePath, pools: Sequence[Pool] | None = None, judge: ModelCheck | None = None, only: Collection[str] | None = None
) -> CheckResult:
    """Every tenant below `folder`, or those that are named in `only`. Never raises for what is in the files; lets through what `judge` raises."""
    loading = _Loading(folder, judge)
    paths = [path for path in loading.entries(folder) or () if loading.is_tenant(path)]
    left_out = [shown(path.name) for path in paths if only is not None and path.name not in only]
    contracts = [each for each in (loading.tenant(path) for path in paths if only is None or path.name in only) if each]
    loading.compare(loading.tenants)
    result = loading.result(contracts, pools)
    return replace(result, left_out=tuple(left_out))


def load_tenant(
    folder: FilePath, pools: Sequence[Pool] | None = None, judge: ModelCheck | None = None, beside: Collection[str] = ()
) -> CheckResult:
    """The one tenant in `folder`; `beside` are the tenants next to it with which it shares a gateway."""
    loading = _Loading(folder.parent, judge)
    contracts = loading.tenant(folder)
    loading.compare(list(loading.beside(folder.parent / name for name in sorted(beside) if name != folder.name)))
    return loading.result([contracts] if contracts else [], pools)


def _bounded(findings: Sequence[Problem]) -> Iterator[Problem]:
    """The first of each file, and one that says how many more there are: nobody reads thousands, and code-scanning views take no more."""
    total = Counter(finding.file for finding in findings)
    refused = {finding.file for finding in findings if finding.level is ProblemLevel.ERROR}
    given: Counter[str] = Counter()
    for finding in findings:
        given[finding.file] += 1
        if given[finding.file] <= MOST_FINDINGS:
            yield finding
        elif given[finding.file] == MOST_FINDINGS + 1:
            yield Problem(
                rule="more-findings",
                file=finding.file,
                line=finding.line,
                column=finding.column,
                fact=f"{total[finding.file] - MOST_FINDINGS:,} more findings in this file are not shown",
                consequence="They count as much as those above",
                remedy="Correct the ones above first; many will have one cause",
                level=ProblemLevel.ERROR if finding.file in refused else ProblemLevel.WARNING,
            )


def _without_secrets(finding: Problem) -> Problem:
    """What a contract holds of them is not repeated where logs keep it."""
    path = tuple(masked(part) if isinstance(part, str) else part for part in finding.path)
    said = {name: masked(getattr(finding, name)) for name in ("fact", "consequence", "remedy")}
    value = masked(finding.value) if isinstance(finding.value, str) else finding.value
    return replace(finding, path=path, value=value, **said)


class _Loading:
    """One pass over a folder: gathers contracts, documents and findings."""

    def __init__(self, root: FilePath, judge: ModelCheck | None) -> None:
        self.root, self.judge = root, judge
        self.findings: list[Problem] = []
        self.documents: dict[str, Document] = {}
        self.tenants: list[Tenant] = []
        """Whose own contract is sound, whatever their models' are."""
        self.files = 0

    def result(self, contracts: list[TenantContracts], pools: Sequence[Pool] | None) -> CheckResult:
        notes: list[str] = []
        if pools is None:
            notes.append("placement, node size, drivers and the capacity for rollouts, because the GPU pools are not known")
            self._place(check_without_pools(contracts))
        else:
            self._place(check_pools(contracts, pools))
        found = sorted(set(map(_without_secrets, self.findings)), key=lambda finding: finding.order)
        return CheckResult(tuple(contracts), tuple(_bounded(found)), tuple(notes), self.files)

    def _place(self, problems: Iterable[Problem]) -> None:
        """Keep problems of sound contracts, each with its place in the document of its subject."""
        self.findings += (at(self.documents[problem.subject], problem) for problem in problems)

    def compare(self, others: Sequence[Tenant]) -> None:
        """Each tenant that was read with all others."""
        for tenant in self.tenants:
            self._place(check_peers(tenant, [other for other in others if other.name != tenant.name]))

    @staticmethod
    def beside(folders: Iterable[FilePath]) -> Iterator[Tenant]:
        """The tenants of these folders; one whose contract is refused is its own matter."""
        for folder in folders:
            tenant = _Loading(folder.parent, None)._contract(folder / TENANT_FILE, Tenant, folder.name, None)
            if tenant is not None:
                yield tenant

    def entries(self, folder: FilePath) -> list[FilePath] | None:
        """What is in the folder, sorted; None where it cannot be read, which is a finding."""
        try:
            return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        except OSError as error:
            fact = f"the folder cannot be read: {error.strerror}"
            remedy = "Make it readable; or name another folder, of tenants or of one"
            self._refuse(folder, "folder-readable", fact, "None of its contracts is known", remedy)
            return None

    def is_tenant(self, path: FilePath) -> bool:
        if path.is_dir():
            return True
        if path.suffix not in _IGNORED:
            self._refuse(
                path,
                "folder-layout",
                "the file is beside the tenants' folders",
                "The file belongs to no tenant and would be ignored",
                "Move it into a tenant's folder",
            )
        return False

    def tenant(self, folder: FilePath) -> TenantContracts | None:
        """The contracts in `folder`; None unless all of them are sound in themselves."""
        paths = self.entries(folder)
        if paths is None:
            return None
        if not any(path.name == TENANT_FILE for path in paths):
            self._refuse(
                folder,
                "tenant-has-a-contract",
                f"the folder has no {TENANT_FILE}",
                "Its models would belong to nobody and have no quota",
                f"Write one: headway new tenant {shown(folder.name)}",
            )
        tenant: Tenant | None = None
        models: list[Model] = []
        unread: set[str] = set()
        laid_out = True
        for path in paths:
            if path.name == TENANT_FILE:
                tenant = self._contract(path, Tenant, folder.name, None)
            elif path.suffix == ".yaml" and not path.is_dir():
                model = self._contract(path, Model, folder.name, path.stem)
                if model is None:
                    unread.add(path.stem)
                else:
                    models.append(model)
                    self._place(check_model(folder.name, model))
                    if self.judge is not None:
                        self._place(
                            replace(each, subject=contract_name(folder.name, model.name)) for each in self.judge(folder.name, model)
                        )
            elif path.suffix not in _IGNORED:
                laid_out = False
                self._misplaced(path)
        if tenant is None:
            return None
        self.tenants.append(tenant)
        contracts = TenantContracts(tenant, tuple(models))
        self._place(cross_check(contracts, frozenset(unread)))
        return contracts if laid_out and not unread else None

    def _contract(self, path: FilePath, kind: type[P], tenant: str, model: str | None) -> P | None:
        self.files += 1
        document = Document(self._relative(path), None, {}, ())
        raw = self._bytes(path)
        contract: P | None = None
        if raw is not None:
            document = read(raw, document.file)
            contract, findings = contract_from(document, kind)
            self.findings += [*document.findings, *findings]
        self.documents[contract_name(tenant, model)] = document
        if contract is None or not isinstance(contract, Tenant | Model):
            return None
        return contract if self._named(document, contract.name, model or tenant, "file" if model else "folder") else None

    def _bytes(self, path: FilePath) -> bytes | None:
        """The file's content, one byte beyond the limit at most."""
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                raise OSError(0, "it is a link, a pipe or a device")
            with path.open("rb") as file:
                return file.read(LARGEST_DOCUMENT + 1)
        except OSError as error:
            fact = f"the file cannot be read: {error.strerror}"
            self._refuse(path, "file-readable", fact, "The contract is unknown", "Make it a plain, readable file")
            return None

    def _named(self, document: Document, name: str, expected: str, what: str) -> bool:
        if name == expected:
            return True
        place = document.place(("name",))
        self.findings.append(
            Problem(
                rule="name-is-the-files",
                file=document.file,
                line=place.line,
                column=place.column,
                path=("name",),
                value=name,
                fact=f"the name is {name}, the {what}'s is {shown(expected)}",
                consequence="The name is part of every derived object, so two spellings would name two services",
                remedy=f"Rename one of them; renaming a {'tenant' if what == 'folder' else 'model'} that runs replaces it",
            )
        )
        return False

    def _misplaced(self, path: FilePath) -> None:
        if path.is_dir():
            fact, remedy = "this folder is inside a tenant's folder", "Move its contracts into the tenant's own folder"
        else:
            fact, remedy = f"the file name ends in {shown(path.suffix)!r}", "Let contracts end in .yaml, and notes in .md or .txt"
        self._refuse(path, "folder-layout", fact, "It would be ignored", remedy)

    def _relative(self, path: FilePath) -> str:
        return shown(path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else path.as_posix(), 200)

    def _refuse(self, path: FilePath, rule: str, fact: str, consequence: str, remedy: str) -> None:
        self.findings.append(Problem(rule=rule, file=self._relative(path), fact=fact, consequence=consequence, remedy=remedy))
