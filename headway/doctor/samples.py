"""Values of the sample stack files that stand for somebody's own, and must not reach an account. Pure."""

from collections.abc import Iterator

from headway.capacity.described import Described
from headway.contract.pool_parts import CapacityBlock, Reservation
from headway.doctor.check import DoctorResult, judged
from headway.problem import Problem, problem

SAMPLE_RESERVATION = "cr-0123456789abcdef0"


def judge_samples(layer: Described) -> DoctorResult:
    """Whether account, administrators and reservations are the reader's own."""
    return judged("sample-values", "No value of the sample files is left.", list(_left(layer)))


def _left(layer: Described) -> Iterator[Problem]:
    if len(set(layer.account_id)) == 1:
        yield problem(
            "sample-values",
            "account",
            "id",
            value=layer.account_id,
            fact=f"{layer.account_id} is the account of the sample files",
            consequence="No credentials of yours belong to it",
            remedy="Write your own account, and the roles of your administrators beside it",
        )
    for number, pool in enumerate(layer.pools):
        if isinstance(pool.capacity, Reservation | CapacityBlock) and pool.capacity.id == SAMPLE_RESERVATION:
            yield problem(
                "sample-values",
                "pools",
                number,
                "capacity",
                "id",
                value=pool.capacity.id,
                fact=f"Pool {pool.name} names the reservation of the sample files",
                consequence="Its nodes can never start",
                remedy="Name a reservation of yours, or take the pool out",
            )
