"""Which services an environment has."""

from pathlib import Path

from headway.release.service_place import places

PROJECT = Path(__file__).parents[3]


def test_services_of_an_environment_are_those_of_its_tenants() -> None:
    assert [here.chain for here in places(PROJECT, "dev")] == ["hello/digits"]
    assert [here.chain for here in places(PROJECT, "prod")] == ["assist/chat", "vision/defects", "vision/embeddings"]
