"""`headway release bind`: a ledger of an earlier Headway learns whose it is."""

from headway.cli.release_options import DEFAULT_ENVIRONMENT, EnvironmentOption, ProjectOption, ServiceArgument


def bind(service: ServiceArgument, environment: EnvironmentOption = DEFAULT_ENVIRONMENT, project: ProjectOption = None) -> None:
    """Write into a ledger of an earlier Headway of which service and environment it is, so that no copy of another one
    passes for it. Once is enough; newer ledgers say so from their first event."""
    from headway.ledger.serving import released
    from headway.release.driver.rollout_state import fold
    from headway.release.service_place import place

    here = place(service, environment, project)
    ledger = here.ledger()
    known = fold(ledger.read()).known
    for content in sorted(set(known.values())):
        released(here.store, here.chain, content)
    count = len(ledger.events)
    if not count:
        print(f"{here.chain} is not in the ledger yet: its first event will say that it is of {environment}.")
    elif ledger.bind():
        print(f"{here.chain}: its ledger now says that it is of {environment} (events: {count}, releases: {len(known)}).")
    else:
        print(f"{here.chain}: its ledger says already that it is of {environment}.")
