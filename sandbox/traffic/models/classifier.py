"""The sandbox's classifier inside Triton: runs `model.onnx` beside it and behaves as `behaviour.json` beside it says.

Shipped in the artifact as `model.py`. A GPU's service time is stood in for by sleeping, drawn per batch from a fixed distribution and long
beside what a busy laptop adds, so that a latency means the same there; arithmetic is real. The behaviours are those of releases that go
wrong. The trap: an error must be raised; a TritonError in a response counts as success in Triton's metrics
(triton-inference-server/server#7713).
"""

import json
import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np  # pyright: ignore[reportMissingImports]
import onnxruntime  # pyright: ignore[reportMissingImports]
import triton_python_backend_utils as pb_utils  # pyright: ignore[reportMissingImports]

BUSY_PER_SECOND, QUIET_PER_SECOND = 45.0, 20.0
WINDOW_SECONDS = 10.0


class Rushes:
    """Tells a first rush of requests from a second one, after quiet: a cache that shrinks while requests are few and
    thrashes when they return. Copies are the first rush of a release, its bake is the second."""

    def __init__(self) -> None:
        self._latest: deque[tuple[float, int]] = deque()
        self._seen = ""

    def second(self, now: float, requests: int) -> bool:
        self._latest.append((now, requests))
        while self._latest[0][0] < now - WINDOW_SECONDS:
            self._latest.popleft()
        rate = sum(count for _, count in self._latest) / WINDOW_SECONDS
        if not self._seen and rate > BUSY_PER_SECOND:
            self._seen = "rush"
        elif self._seen == "rush" and rate < QUIET_PER_SECOND:
            self._seen = "quiet"
        elif self._seen == "quiet" and rate > BUSY_PER_SECOND:
            self._seen = "second rush"
        return self._seen == "second rush"


class TritonPythonModel:
    """Triton's interface of a model."""

    def initialize(self, args: Any) -> None:
        folder = Path(args["model_repository"]) / args["model_version"]
        self.file, self.changed = folder / "behaviour.json", 0
        self.behaviour: dict[str, Any] = {}
        self._read_behaviour()
        time.sleep(self.behaviour["load_seconds"])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
        self.random = np.random.default_rng(self.behaviour["seed"])
        self.served = 0
        self.kept: list[bytes] = []
        self.rushes = Rushes()

    def _read_behaviour(self) -> None:
        """Again where it has changed: a rehearsal breaks a version while it serves (`sandbox/rehearsal`)."""
        if (changed := self.file.stat().st_mtime_ns) != self.changed:
            self.behaviour, self.changed = json.loads(self.file.read_text()), changed

    def execute(self, requests: Any) -> Any:
        self._read_behaviour()
        wanted = self.behaviour
        given = [pb_utils.get_input_tensor_by_name(each, "features").as_numpy() for each in requests]
        rows = sum(len(features) for features in given)
        if wanted["crash_at_rows"] and max(len(features) for features in given) >= wanted["crash_at_rows"]:
            os._exit(1)
        self.served += len(requests)
        if wanted["dead_after_requests"] and self.served > wanted["dead_after_requests"]:
            threading.Event().wait()  # alive, on every health page well, and never to answer again
        if wanted["leak_bytes"]:
            self.kept.extend(os.urandom(1) * wanted["leak_bytes"] for _ in requests)
        self._compute_as_long_as_a_gpu_would(rows)
        share = wanted["error_share"] + (
            wanted["error_share_in_second_rush"] if self.rushes.second(time.monotonic(), len(requests)) else 0.0
        )
        if share and self.random.random() < share:
            raise RuntimeError("the release's own fault, as declared in behaviour.json")
        scores = self._confused(self.session.run(["scores"], {"features": np.concatenate(given)})[0])
        ends = np.cumsum([len(features) for features in given])[:-1]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("scores", part)]) for part in np.split(scores, ends)]

    def _confused(self, scores: Any) -> Any:
        """The two best scores exchanged where they are closer than the release can tell apart: golden requests are far from that."""
        second, best = np.argsort(scores, axis=1)[:, -2:].T
        rows = np.arange(len(scores))
        close = rows[scores[rows, best] - scores[rows, second] < self.behaviour["confused_below"]]
        scores[close, best[close]], scores[close, second[close]] = scores[close, second[close]], scores[close, best[close]]
        return scores

    def _compute_as_long_as_a_gpu_would(self, rows: int) -> None:
        """Log-normal around the median, times what the release costs; some requests in a hundred take the tail's factor more."""
        wanted = self.behaviour
        seconds = wanted["median_ms"] / 1000 * float(np.exp(self.random.normal(0.0, wanted["spread"])))
        if self.random.random() < wanted["tail_share"]:
            seconds *= wanted["tail_factor"]
        time.sleep(seconds * (1 + wanted["row_cost"] * (rows - 1)))
