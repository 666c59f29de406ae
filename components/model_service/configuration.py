"""The ConfigMap of a release: scripts, what they read, and the runtime's rendered files.

Its name holds a digest of its content and it is immutable, so that a pod and its configuration can never be of two
minds: other content is another ConfigMap, and another pod template. The trap: a ConfigMap holds 1 MiB at most; large
golden requests belong in the artifact.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.model_service import probing
from components.model_service.serving import MODELS, Serving
from components.platform.artifact_cache import ADDRESS
from headway.contract.model import Model
from headway.wire import FETCH_SETTINGS, SCRIPTS_FOLDER

FETCH_SCRIPT, FETCH_CONFIG = "fetch.py", FETCH_SETTINGS
RELAY_SCRIPT, FATE_SCRIPT = "relay.py", "fate.py"
TOKENS, TOKEN = "/var/run/secrets/artifact-cache", "token"
NODE = {"url": ADDRESS, "token": f"{TOKENS}/{TOKEN}"}
"""Where the fetcher asks before it asks S3, and the file of the token by which the node's store knows whose pod it
is.
"""
SCRIPTS = Path(__file__).parent / "scripts"


def files(model: Model, serving: Serving, region: str, bucket: str, *, artifact_cache: bool = False) -> dict[str, str]:
    """Content of the ConfigMap by file name, sorted. `bucket` is the environment's, of artifacts; `artifact_cache` is
    whether the node may have the artifact already.
    """
    found = {
        probing.SCRIPT: (SCRIPTS / probing.SCRIPT).read_text(),
        FETCH_SCRIPT: (SCRIPTS / FETCH_SCRIPT).read_text(),
        probing.CONFIG: _json(probing.configuration(model, serving)),
        FETCH_CONFIG: _json(fetch_configuration(model, serving, region, bucket) | ({"node": NODE} if artifact_cache else {})),
        **({RELAY_SCRIPT: (SCRIPTS / RELAY_SCRIPT).read_text()} if serving.relayed else {}),
        **({FATE_SCRIPT: (SCRIPTS / FATE_SCRIPT).read_text()} if serving.bound else {}),
        **({probing.INFERENCE: (SCRIPTS / probing.INFERENCE).read_text()} if serving.asks_by_grpc else {}),
        **serving.files,
    }
    return dict(sorted(found.items()))


def fetch_configuration(model: Model, serving: Serving, region: str, bucket: str) -> dict[str, Any]:
    """What the fetching init container reads: every file of the artifact, and where the rendered ones must lie."""
    artifact = model.artifact
    return {
        "region": region,
        "uri": artifact.located(bucket),
        "target": MODELS,
        "files": [{"path": f.path, "sha256": f.sha256, "size": int(f.size)} for f in sorted(artifact.files, key=lambda f: f.path)],
        "places": [{"from": f"{SCRIPTS_FOLDER}/{name}", "to": place} for name, place in sorted(serving.places.items())],
    }


def digest(files: Mapping[str, str]) -> str:
    """Eight characters of the content's SHA-256."""
    return hashlib.sha256(_json(dict(files)).encode()).hexdigest()[:8]


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, indent=1) + "\n"
