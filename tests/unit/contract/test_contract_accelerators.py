"""The accelerator catalogue: what MIG can cut, and what the rows must agree on."""

from itertools import combinations_with_replacement

import pytest

from headway.contract.accelerators import GPUS, INSTANCE_TYPES, Accelerator, instance_types_of, mig_layout_fits
from headway.contract.offerings import is_offered, regions_of

A100 = Accelerator.A100_80GB


@pytest.mark.parametrize(
    ("layout", "fits"),
    [
        ({"1g.10gb": 7}, True),
        ({"1g.10gb": 8}, False),
        ({"1g.20gb": 4}, True),
        ({"1g.20gb": 5}, False),
        ({"2g.20gb": 3}, True),
        ({"2g.20gb": 4}, False),
        ({"3g.40gb": 2}, True),
        ({"4g.40gb": 2}, False),
        ({"4g.40gb": 1, "3g.40gb": 1}, True),
        ({"7g.80gb": 1}, True),
        ({"7g.80gb": 1, "1g.10gb": 1}, False),
        ({"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}, True),
        ({"1g.10gb": 4, "3g.40gb": 1}, True),
        # 3g at slot 0 or 4 leaves one half, which starts of 2g fill twice or once: slots 0-3 hold two, slots 4-7 hold one.
        ({"3g.40gb": 1, "2g.20gb": 2}, True),
        ({"3g.40gb": 2, "1g.10gb": 1}, False),
    ],
)
def test_a_gpu_is_cut_only_as_its_memory_slots_allow(layout: dict[str, int], fits: bool) -> None:
    assert mig_layout_fits(A100, layout) is fits


@pytest.mark.parametrize("accelerator", [a for a, gpu in GPUS.items() if gpu.mig])
def test_instances_of_a_layout_that_fits_never_hold_more_memory_than_the_gpu(accelerator: Accelerator) -> None:
    gpu = GPUS[accelerator]
    for profiles in combinations_with_replacement(gpu.mig, 3):
        layout = {p.name: profiles.count(p) for p in profiles}
        if mig_layout_fits(accelerator, layout):
            assert sum(p.memory for p in profiles) <= gpu.memory, f"{layout} on {accelerator}"


@pytest.mark.parametrize("accelerator", list(Accelerator))
def test_every_accelerator_has_an_instance_type_and_the_cheapest_comes_first(accelerator: Accelerator) -> None:
    types = instance_types_of(accelerator)
    assert types
    assert [t.price for t in types] == sorted(t.price for t in types)


def test_instance_types_without_gpus_name_no_accelerator() -> None:
    for instance in INSTANCE_TYPES.values():
        assert (instance.accelerator is None) == (instance.gpus == 0), instance.name


def test_mig_memory_is_below_the_name() -> None:
    for gpu in GPUS.values():
        for profile in gpu.mig:
            named = int(profile.name.split(".")[1].removesuffix("gb")) * 10**9
            assert profile.memory <= named * 1.08, f"{profile.name} of {gpu.accelerator}: a model of its nominal size does not fit"
            assert profile.memory < gpu.memory


@pytest.mark.parametrize("name", sorted(INSTANCE_TYPES))
def test_each_instance_type_of_the_catalogue_is_offered_where_the_samples_are(name: str) -> None:
    assert {"us-east-1", "us-west-2"} <= regions_of(name)
    assert "eu-west-1" in regions_of(name) or INSTANCE_TYPES[name].gpus, "written from the table by hand: no L4 in Ireland"


def test_what_the_table_does_not_know_is_not_refused() -> None:
    assert is_offered("g6.xlarge", "xx-north-9")
    assert not is_offered("g6.xlarge", "eu-west-1")
    assert regions_of("p4de.24xlarge") == {"ap-northeast-1", "ap-southeast-1", "eu-central-1", "il-central-1", "us-east-1", "us-west-2"}
