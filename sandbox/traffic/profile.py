"""Which services are served for real, and their contracts with the artifacts that were built on this machine.

The contracts lie in `profile/` as a model team would write them, without `artifact` and `health.golden`: digests are
only known once `models/build.py` has written the files. A release is its contract's content, so another artifact
version makes another release even where every byte is the same.
"""

import hashlib
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headway.problem import UserError
from sandbox.traffic import labelled_parts
from sandbox.traffic.programs import Programs

CONTRACTS = Path(__file__).parent / "profile"
BUILD = Path(__file__).parent / "models" / "build.py"
BUCKET = "sandbox-models"
STABLE = "stable"
TOLERANCES: Mapping[str, Mapping[str, str]] = {"better": {"latency": "50%", "latency_unacceptable": "100%"}}
"""By release of the classifier: a better, slower model says in its own contract how much slower it may be. Copies are
measured a bucket (a quarter) slower than what they copy, on one machine of two cores, and a tolerance is passed well
inside it or not in time."""


@dataclass(frozen=True)
class ServedModel:
    """A model service whose pods are processes."""

    tenant: str
    model: str


SERVED = (ServedModel("quality", "classifier"), ServedModel("search", "encoder"))


@dataclass(frozen=True, kw_only=True)
class ModelArtifacts:
    """What `models/build.py` wrote below `folder`."""

    folder: Path
    manifest: Mapping[str, Any]

    def releases(self, model: str) -> tuple[str, ...]:
        return tuple(sorted(self.manifest[model]["releases"]))

    def golden(self, model: str) -> list[dict[str, Any]]:
        return list(self.manifest[model]["golden"])

    def uri(self, model: str, release: str) -> str:
        """Where the release's files lie: another content has another address."""
        return f"s3://{BUCKET}/{self.prefix(model, release)}/"

    def prefix(self, model: str, release: str) -> str:
        files = self.manifest[model]["releases"][release]["files"]
        tenant = next(each.tenant for each in SERVED if each.model == model)
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


def contract(served: ServedModel, artifacts: ModelArtifacts, release: str = STABLE) -> dict[str, Any]:
    """The model's contract for one of its releases."""
    found: dict[str, Any] = yaml.safe_load((CONTRACTS / served.tenant / f"{served.model}.yaml").read_text())
    found["artifact"] = artifacts.artifact(served.model, release)
    if served.model == "classifier" and release in TOLERANCES:
        found["rollout"]["tolerances"] = {**found["rollout"]["tolerances"], **TOLERANCES[release]}
    found["health"] = {**found["health"], "golden": artifacts.golden(served.model)}
    if served.model == "classifier":
        found["evaluation"] = labelled_parts.evaluation(BUCKET, artifacts.golden(served.model))
    return found


def write_contracts(folder: Path, artifacts: ModelArtifacts, releases: Mapping[str, str] | None = None) -> None:
    """Write the tenants' contracts below `folder`, as `tenants/` holds them; `releases` chooses by model."""
    for served in SERVED:
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
    parts = labelled_parts.content(artifacts.golden("classifier"))
    if (key := f"{labelled_parts.prefix(parts)}/{labelled_parts.FILE}") not in there:
        store.put_object(Bucket=BUCKET, Key=key, Body=parts)
    for model in sorted(artifacts.manifest):
        for release in artifacts.releases(model):
            for file in artifacts.manifest[model]["releases"][release]["files"]:
                key = f"{artifacts.prefix(model, release)}/{file['path']}"
                if key not in there:
                    store.put_object(Bucket=BUCKET, Key=key, Body=(artifacts.folder / model / release / file["path"]).read_bytes())
