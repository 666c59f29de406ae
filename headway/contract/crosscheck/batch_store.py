"""Where an environment keeps what batch workers read and write: stores `batches://...` need a bucket there, apart from artifacts, and queues a
way to them."""

from collections.abc import Collection, Iterator

from headway.contract.batch import RELATIVE, beside, beside_the_artifact, located
from headway.contract.model import Model
from headway.problem import Problem, problem


def placed(model: Model, bucket: str | None, stack_file: str) -> Iterator[Problem]:
    """`bucket` is what the tenant's `stack_file` of the environment names, None where it names none."""
    if model.batch is None or not model.batch.store.startswith(RELATIVE):
        return
    if bucket is None:
        yield problem(
            "batch-store-has-a-bucket",
            "batch",
            "store",
            value=model.batch.store,
            fact=f"{stack_file} names no bucket of the tenant for {RELATIVE}",
            consequence="Workers would have nowhere to read requests and write answers",
            remedy="Write headway:batch: {bucket: <a bucket of the tenant's>} there, or name one bucket as s3://<bucket>/ in the contract",
        )
    elif beside(located(model.batch.store, bucket), model.artifact.uri):
        yield beside_the_artifact(model.batch.store)


def queued_out_of_reach(model: Model, endpoints: Collection[str]) -> Iterator[Problem]:
    """What a network without NAT lacks for batch work; `endpoints` are those that it has. SQS is asked by workers, and by KEDA which scales
    them."""
    if model.batch is not None and "sqs" not in endpoints:
        yield problem(
            "batch-queue-in-reach",
            "batch",
            value=model.batch.store,
            fact="the environment has no NAT, and no endpoint of SQS",
            consequence="No worker would ever get a request, and none would be started for those that wait",
            remedy="Add sqs to network.endpoints of the environment's cluster layer, or choose another nat",
        )
