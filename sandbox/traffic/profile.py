"""Which services are served for real, and their contracts with the artifacts that were built on this machine.

The contracts lie in `profile/` as a model team would write them, without `artifact` and `health.golden`: digests are
only known once `models/build.py` has written the files, or `models/train.py` has trained them. A release is its contract's content, so another artifact
version makes another release even where every byte is the same.
"""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headway.problem import UserError
from sandbox.cluster.locks import exclusive
from sandbox.progress import Progress
from sandbox.traffic import labelled_parts
from sandbox.traffic.programs import Programs

CONTRACTS = Path(__file__).parent / "profile"
BUILD = Path(__file__).parent / "models" / "build.py"
TRAIN = BUILD.with_name("train.py")
LOCK = Path("requirements") / "llm.txt"
"""What the trainer's results depend on beside itself."""
BUCKET = "sandbox-models"
STABLE = "stable"
TOLERANCES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("classifier", "better"): {"latency": "50%", "latency_unacceptable": "100%"},
}
"""By model and release: a better, slower model says in its own contract how much slower it may be. Copies are
measured a bucket (a quarter) slower than what they copy, on one machine of two cores, and a tolerance is passed well
inside it or not in time."""


@dataclass(frozen=True)
class ServedModel:
    """A model service whose pods are processes."""

    tenant: str
    model: str

    @property
    def chain(self) -> str:
        """Its name in commands and ledgers."""
        return f"{self.tenant}/{self.model}"


SERVED = (ServedModel("quality", "classifier"), ServedModel("search", "encoder"))
LANGUAGE = ServedModel("writing", "sorter")
"""Served by vLLM, which is an environment of its own and six gigabytes; so it has a demonstration of its own too."""
_ALL = (*SERVED, LANGUAGE)
TRAINING_SECONDS = 3600.0


def served_in(project: Path) -> tuple[ServedModel, ...]:
    """The language model where the checkout has its contract, else those of Triton."""
    return (LANGUAGE,) if (project / "tenants" / LANGUAGE.tenant / f"{LANGUAGE.model}.yaml").exists() else SERVED


@dataclass(frozen=True, kw_only=True)
class ModelArtifacts:
    """What `models/build.py` or `models/train.py` wrote below `folder`."""

    folder: Path
    manifest: Mapping[str, Any]

    @property
    def served(self) -> tuple[ServedModel, ...]:
        return tuple(each for each in _ALL if each.model in self.manifest)

    def releases(self, model: str) -> tuple[str, ...]:
        return tuple(sorted(self.manifest[model]["releases"]))

    def golden(self, model: str) -> list[dict[str, Any]]:
        return list(self.manifest[model]["golden"])

    def uri(self, model: str, release: str) -> str:
        """Where the release's files lie: another content has another address."""
        return f"s3://{BUCKET}/{self.prefix(model, release)}/"

    def prefix(self, model: str, release: str) -> str:
        files = self.manifest[model]["releases"][release]["files"]
        tenant = next(each.tenant for each in _ALL if each.model == model)
        return f"{tenant}/{model}/{release}-{hashlib.sha256(json.dumps(files).encode()).hexdigest()[:8]}"

    def artifact(self, model: str, release: str) -> dict[str, Any]:
        """The contract's `artifact` for this release."""
        files = self.manifest[model]["releases"][release]["files"]
        return {
            "uri": self.uri(model, release),
            "version": release,
            "registry": {"system": "mlflow", "model": model, "version": release},
            "files": [{**each, "size": f"{each['size']}B"} for each in files],
        }


def build(programs: Programs, folder: Path) -> ModelArtifacts:
    """Have the artifacts at `folder`, writing them when they are missing or older than what writes them."""
    manifest = folder / "manifest.json"
    sources = (BUILD, BUILD.with_name("classifier.py"))
    if not manifest.exists() or any(source.stat().st_mtime > manifest.stat().st_mtime for source in sources):
        done = subprocess.run([str(programs.python), "-I", str(BUILD), str(folder)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise UserError(
                "The sandbox's models could not be written.",
                f"No pod can serve them; the program that writes them said: {done.stderr.strip()[-500:]}",
                "Delete .venv-traffic and make it anew: `make .venv-traffic/.ready`.",
            )
    return ModelArtifacts(folder=folder, manifest=json.loads(manifest.read_text()))


def train(programs: Programs, project: Path, cache: Path, progress: Progress) -> ModelArtifacts:
    """Have the language model's artifacts in the cache, training them where nobody has yet. UserError without vLLM's environment."""
    content = TRAIN.read_bytes() + (project / LOCK).read_bytes()
    place = cache / "language-models" / hashlib.sha256(content).hexdigest()[:16]
    with exclusive(
        place.with_suffix(".lock"),
        what="trains the sandbox's language model",
        waiting=lambda text: progress.step(LANGUAGE.model, text),
        timeout=TRAINING_SECONDS,
    ):
        if not (place / "manifest.json").exists():
            progress.step(LANGUAGE.model, "training the language model (some minutes, once)")
            _train(programs.vllm_python(), place)
    return ModelArtifacts(folder=place, manifest=json.loads((place / "manifest.json").read_text()))


def _train(python: Path, place: Path) -> None:
    partial = place.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    environment = {"HF_HUB_OFFLINE": "1", "HOME": str(partial), "OMP_NUM_THREADS": "1", "PATH": os.defpath}
    command = ["nice", "-n", "10", str(python), "-I", str(TRAIN), str(partial)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise UserError(
            "The sandbox's language model could not be trained.",
            f"No pod can serve it; the trainer said: {done.stderr.strip()[-500:]}",
            "Make its environment anew: `make clean-llm .venv-llm/.ready`.",
        )
    partial.rename(place)


def contract(served: ServedModel, artifacts: ModelArtifacts, release: str = STABLE) -> dict[str, Any]:
    """The model's contract for one of its releases."""
    found: dict[str, Any] = yaml.safe_load((CONTRACTS / served.tenant / f"{served.model}.yaml").read_text())
    found["artifact"] = artifacts.artifact(served.model, release)
    if wider := TOLERANCES.get((served.model, release)):
        found["rollout"]["tolerances"] = {**found["rollout"].get("tolerances", {}), **wider}
    found["health"] = {**found["health"], "golden": artifacts.golden(served.model)}
    if served.model == "classifier":
        found["evaluation"] = labelled_parts.evaluation(BUCKET, artifacts.golden(served.model))
    return found


def write_contracts(folder: Path, artifacts: ModelArtifacts, releases: Mapping[str, str] | None = None) -> None:
    """Write the tenants' contracts below `folder`, as `tenants/` holds them; `releases` chooses by model. Those of another demonstration go."""
    for each in _ALL:
        if each not in artifacts.served:
            (folder / each.tenant / f"{each.model}.yaml").unlink(missing_ok=True)
    for served in artifacts.served:
        place = folder / served.tenant
        place.mkdir(parents=True, exist_ok=True)
        (place / "tenant.yaml").write_text((CONTRACTS / served.tenant / "tenant.yaml").read_text())
        chosen = (releases or {}).get(served.model, STABLE)
        (place / f"{served.model}.yaml").write_text(yaml.safe_dump(contract(served, artifacts, chosen), sort_keys=False, width=140))


def upload(artifacts: ModelArtifacts, store: Any) -> None:
    """Put every artifact, and the classifier's labelled parts, into the sandbox's object store; `store` is a boto3 client of S3."""
    if BUCKET not in {bucket["Name"] for bucket in store.list_buckets()["Buckets"]}:
        store.create_bucket(Bucket=BUCKET)
    there = {each["Key"] for each in store.list_objects_v2(Bucket=BUCKET).get("Contents", [])}
    if "classifier" in artifacts.manifest:
        parts = labelled_parts.content(artifacts.golden("classifier"))
        if (key := f"{labelled_parts.prefix(parts)}/{labelled_parts.FILE}") not in there:
            store.put_object(Bucket=BUCKET, Key=key, Body=parts)
    for model in sorted(artifacts.manifest):
        for release in artifacts.releases(model):
            for file in artifacts.manifest[model]["releases"][release]["files"]:
                key = f"{artifacts.prefix(model, release)}/{file['path']}"
                if key not in there:
                    store.put_object(Bucket=BUCKET, Key=key, Body=(artifacts.folder / model / release / file["path"]).read_bytes())
