"""A real pack process, spoken to over the public Analyzer protocol as an engine would."""

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import analyzer_pb2 as proto
from pulumi.runtime.proto import analyzer_pb2_grpc as services

PACKS = Path(__file__).parents[2] / "policies"
LEVELS = {"advisory": 0, "mandatory": 1, "disabled": 2}


class Analyzer:
    def __init__(self, pack: str) -> None:
        path = PACKS / pack
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-m", "pulumi.policy", "127.0.0.1:1", str(path)], cwd=path, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout
        self.pid = self._process.pid
        port = self._process.stdout.readline().strip()
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self._stub = services.AnalyzerStub(self._channel)
        self.info: Any = self._stub.GetAnalyzerInfo(empty_pb2.Empty(), timeout=20)

    def __enter__(self) -> "Analyzer":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._channel.close()
        self._process.kill()
        self._process.communicate()  # waits for its end and closes the pipe

    def configure(self, changes: dict[str, Any] | None = None) -> None:
        """An entry for every policy, as engines send it: its own level and defaults, then the changes."""
        entries: dict[str, proto.PolicyConfig] = {}
        for policy in self.info.policies:
            schema = json_format.MessageToDict(policy.configSchema.properties)
            properties = {k: v["default"] for k, v in schema.items() if "default" in v}
            change = (changes or {}).get(policy.name, {})
            level: Any = LEVELS[change["level"]] if "level" in change else policy.enforcementLevel
            properties.update({k: v for k, v in change.items() if k != "level"})
            entries[policy.name] = proto.PolicyConfig(enforcementLevel=level, properties=_struct(properties))
        self._stub.Configure(proto.ConfigureAnalyzerRequest(policyConfig=entries))

    def analyze(self, type: str, properties: dict[str, Any], name: str = "x") -> dict[str, list[tuple[int, str]]]:
        request = proto.AnalyzeRequest(type=type, urn=f"urn:pulumi:s::p::{type}::{name}", name=name, properties=_struct(properties))
        found: dict[str, list[tuple[int, str]]] = {}
        for d in self._stub.Analyze(request, timeout=20).diagnostics:
            found.setdefault(d.policyName, []).append((d.enforcementLevel, d.message))
        return found


def _struct(properties: dict[str, Any]) -> struct_pb2.Struct:
    return json_format.Parse(json.dumps(properties), struct_pb2.Struct())
