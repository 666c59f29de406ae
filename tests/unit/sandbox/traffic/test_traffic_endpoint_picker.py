"""Under which addresses the sandbox's picker names engines."""

from headway.endpoint_picker.tracking import EngineFacts
from sandbox.traffic.endpoint_picker import proxies


def test_engines_are_named_by_their_proxies_and_simulated_ones_not() -> None:
    facts = EngineFacts("sorter-r1.writing")
    found = proxies({"10.183.132.175:8000": facts, "10.244.0.9:8000": facts, "[fd00::1]:8000": facts})
    assert found == {"127.183.132.175:18000": facts}
