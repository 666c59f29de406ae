"""Where an environment keeps what batch workers read and write: stores `batches://...` need a bucket there, apart from artifacts."""

from collections.abc import Iterator

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
