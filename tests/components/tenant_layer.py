"""A tenant's layer under mocks: its settings, and what it registers."""

from collections.abc import Mapping
from pathlib import Path

from headway.ledger.store import LedgerStore
from headway.ledger.witness import LedgerWitness
from stacks import settings, tenant
from stacks.settings import FOLDER, TenantSettings
from tests.components.contracts import TENANTS
from tests.components.program import answers
from tests.components.recording import Recording, record


def settings_of(stack: str, config: Mapping[str, str] | None = None, folder: Path = FOLDER) -> TenantSettings:
    """Those of `stack`, with `config` beside its file's in `folder`."""
    found = settings.load(stack, config or {}, folder=folder)
    assert isinstance(found, TenantSettings)
    return found


def planned(
    found: TenantSettings,
    contracts: Path = TENANTS,
    ledger: LedgerStore | None = None,
    witness: LedgerWitness | None = None,
    *,
    deployed: bool = True,
    preview: bool = False,
) -> Recording:
    """What the layer registers for the contracts below `contracts`; `deployed`: whether the platform is."""
    calls = answers(found.environment, *(["platform"] if deployed else []))
    stack = f"{found.environment}-{found.tenant}"
    return record(lambda: tenant.build(found, contracts, ledger, witness), stack=stack, calls=calls, preview=preview)
