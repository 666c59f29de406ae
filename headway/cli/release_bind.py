"""`headway release bind`: a ledger of an earlier Headway learns whose it is."""

from headway.cli.environment_choice import EnvironmentOption, to_write
from headway.cli.release_options import ProjectOption, ServiceArgument


def bind(service: ServiceArgument, environment: EnvironmentOption = None, project: ProjectOption = None) -> None:
    """Write into a ledger of an earlier Headway of which service and environment it is, so that no copy of another one
    passes for it. Once is enough; newer ledgers say so from their first event."""
    from headway.ledger.serving import released
    from headway.release.driver.rollout_state import fold
    from headway.release.service_place import place

    here = place(service, to_write(environment, project), project)
    ledger = here.ledger()
    known = fold(ledger.read()).known
    for content in sorted(set(known.values())):
        released(here.store, here.chain, content)
    count = len(ledger.events)
    if not count:
        print(f"{here.chain} is not in the ledger yet: its first event will say that it is of {here.environment}.")
    elif ledger.bind():
        print(f"{here.chain}: its ledger now says that it is of {here.environment} (events: {count}, releases: {len(known)}).")
    else:
        print(f"{here.chain}: its ledger says already that it is of {here.environment}.")
