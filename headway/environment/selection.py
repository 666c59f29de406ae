"""Which implementation of the port answers for an environment: the one that is registered by its name, production's
otherwise.

An entry point of the group `headway.environments` is called like its environment, and names what makes an `Environment`
of a checkout.
"""

from importlib.metadata import entry_points
from pathlib import Path

from headway.environment.port import Environment
from headway.environment.production import Production
from headway.private_folder import state_folder

GROUP = "headway.environments"
_in_use: list[Environment] = []


def environment(name: str, project: Path) -> Environment:
    """The environment called `name` of a checkout."""
    registered = next(iter(entry_points(group=GROUP, name=name)), None)
    return use(registered.load()(project) if registered else Production(name, project))


def use(chosen: Environment) -> Environment:
    """Work in this environment: logs of the process are kept there."""
    _in_use[:] = [chosen]
    return chosen


def logs() -> Path:
    """The folder for the details of an internal error: that of the environment in use, or of this user's state where
    there is none."""
    return _in_use[0].logs if _in_use else state_folder() / "logs"
