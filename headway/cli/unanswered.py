"""What people are told where a server did not answer: which one, in plain words."""

from collections.abc import Generator
from contextlib import contextmanager

from headway.problem import UserError


@contextmanager
def plainly() -> Generator[None]:
    """Raises UserError for what a server's silence raises in the block."""
    from headway.environment.port import OutOfReachError
    from headway.ledger.store import MissingStoreError, UnreachableError

    try:
        yield
        return
    except OutOfReachError as failure:
        who, what = f"The API server does not answer ({failure})", "Check that the cluster runs and can be reached"
    except UnreachableError as failure:
        who, what = f"The release ledger does not answer ({failure})", "Check the network and the permission to read its bucket"
    except MissingStoreError:
        who, what = "The release ledger's bucket does not exist", "Deploy the environment's cluster layer first"
    raise UserError(f"{who}.", "Nothing was decided; what serves goes on serving.", f"{what}; then run the command again.")
