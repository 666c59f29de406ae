"""A copy of the checkout whose tenants are those of the profile: what the demonstration deploys and edits, so that the
checkout stays as it is.

Code is linked, not copied; contracts and the stacks' folder are its own. A program's folder decides which `tenants/` it
reads, so commands on the demonstration's sandbox name this folder with `--project`.
"""

import shutil
from pathlib import Path

from headway.contract.reading.tenants import stack_file, tenants_of
from sandbox.plan import ENVIRONMENT
from sandbox.traffic import profile
from sandbox.traffic.profile import ModelArtifacts

MODELS = "models"
"""Of the workspace: the folder in which a person changes a model's files."""
OWN = ("stacks", "tenants")
_UNLINKED = {".git", ".headway", *OWN}


def make(checkout: Path, place: Path, artifacts: ModelArtifacts) -> Path:
    """Have the workspace at `place`, with the stable release of every served model."""
    place.mkdir(parents=True, exist_ok=True)
    for source in sorted(checkout.iterdir()):
        link = place / source.name
        if source.name in _UNLINKED or source.name.startswith(".headway"):
            continue
        if not link.is_symlink():
            link.symlink_to(source)
    shutil.copytree(checkout / "stacks", place / "stacks", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    profile.write_contracts(place / "tenants", artifacts)
    for tenant in tenants_of(ENVIRONMENT, place / "stacks"):
        (place / "stacks" / stack_file(ENVIRONMENT, tenant)).unlink()
    for tenant in sorted({each.tenant for each in artifacts.served}):
        stack = place / "stacks" / stack_file(ENVIRONMENT, tenant)
        stack.write_text(f"# What this stack deploys stands in tenants/{tenant}/.\nconfig: {{}}\n")
    return place


def lay_out_model(place: Path, artifacts: ModelArtifacts) -> Path:
    """Copy the files of the classifier that serves into the workspace, for a person to change."""
    return shutil.copytree(artifacts.folder / "classifier" / profile.STABLE, place / MODELS / "classifier", dirs_exist_ok=True)


def release(place: Path, artifacts: ModelArtifacts, model: str, name: str) -> None:
    """Write the contract of another release of `model` into the workspace, as a model team would edit it."""
    profile.write_contracts(place / "tenants", artifacts, {model: name})
