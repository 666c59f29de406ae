"""That no environment deploys or releases a pool of engines yet."""

from collections.abc import Iterator

from headway.contract.model import Model
from headway.contract.routing import Routing
from headway.problem import Problem, problem


def not_deployed(model: Model) -> Iterator[Problem]:
    """ADR 28."""
    if model.routing is Routing.ENDPOINT_PICKER:
        yield problem(
            "picker-is-rendered-only",
            "routing",
            value=model.routing,
            fact="its objects are rendered, but no gateway has a way to them, and no release moves the weights of an HTTPRoute",
            consequence="Users would get no answer, and a release could neither be judged nor taken back",
            remedy="Leave routing out before you deploy or release; ADR 28 says what is missing",
        )
