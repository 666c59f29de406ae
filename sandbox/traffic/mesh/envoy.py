"""The one Envoy: its bootstrap, its files, its administration. Owns what is written below the mesh's folder.

Every file is written beside and renamed, which is what makes Envoy read it, whole. Envoy takes a file that it cannot
use for no change and goes on with the last good one; `rejected` says what it did not take.
"""

import http.client
import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep

from components.addons import gateway_memory
from components.addons.istio import OVERLOADED
from components.platform import gateway_measures, replica_measures
from headway.wire import GATEWAY_STATISTICS, STREAM_TIMES
from sandbox.cluster import whole_file
from sandbox.cluster.processes import Process
from sandbox.traffic.mesh import envoy_configuration
from sandbox.traffic.mesh.envoy_configuration import EnvoyConfiguration
from sandbox.traffic.mesh.listeners import RDS_FOLDER
from sandbox.traffic.mesh.types import EnvoyMessage
from sandbox.traffic.programs import Programs

NAME = "envoy"
_DRAIN_SECONDS = 10
_FLUSH_MILLISECONDS = 100
"""How late a request may be logged; Envoy's own ten seconds would hide a release's first errors."""
_WARM_SECONDS = 5.0
_FILE_WATCHES = 20
"""One for each file: listeners, clusters, routes, and the endpoints of each cluster; 18 with two services and a release
under way."""


def bootstrap(folder: Path, admin_port: int) -> EnvoyMessage:
    """What Envoy starts with: where it is administrated, and that everything else comes from files."""

    def watched(kind: str) -> EnvoyMessage:
        source = {"path": str(folder / f"{kind}.json"), "watched_directory": {"path": str(folder)}}
        return {"resource_api_version": "V3", "path_config_source": source}

    connections = {
        "name": "envoy.resource_monitors.global_downstream_max_connections",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
            "max_active_downstream_connections": 20_000,
        },
    }
    limits = gateway_memory.bootstrap()["overload_manager"]
    return {
        "node": {"id": "sandbox", "cluster": "sandbox"},
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": admin_port}}},
        "layered_runtime": {"layers": [{"name": "static", "static_layer": {}}]},
        "dynamic_resources": {"lds_config": watched("listeners"), "cds_config": watched("clusters")},
        **measuring(),
        "overload_manager": {**limits, "resource_monitors": [connections, *limits["resource_monitors"]]},
    }


def measuring() -> EnvoyMessage:
    """The edges of what proxies measure of tokens, as Istio's agent writes them from their pods' annotations (pkg/bootstrap of
    istio/istio, `statsHistogramBuckets`). A release's clock runs faster here, so what was counted is shown each second, not each five."""
    edges = (*gateway_measures.edges().items(), *replica_measures.edges().items())
    return {
        "stats_flush_interval": "1s",
        "stats_config": {"histogram_bucket_settings": [{"match": {"prefix": name}, "buckets": found} for name, found in edges]},
    }


def process(programs: Programs, folder: Path, admin_port: int, ports: tuple[int, ...]) -> Process:
    """How Envoy is kept; its files must have been written once."""
    path = folder / "bootstrap.json"
    return Process(
        name=NAME,
        argv=(
            *(str(programs.envoy), "-c", str(path), "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"),
            *("--drain-time-s", str(_DRAIN_SECONDS), "--file-flush-interval-msec", str(_FLUSH_MILLISECONDS)),
        ),
        ready=lambda: EnvoyAdmin(admin_port).unready(),
        ports=(admin_port, *ports),
        file_watches=_FILE_WATCHES,
        inputs=(path,),
        stop_seconds=5.0,
    )


class EnvoyFiles:
    """The folder that Envoy watches."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("endpoints", RDS_FOLDER):
            (folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)

    def begin(self, admin_port: int) -> None:
        """Write the bootstrap, and empty files where there are none yet."""
        whole_file.replace(self._folder / "bootstrap.json", json.dumps(bootstrap(self._folder, admin_port), sort_keys=True, indent=1))
        for kind in ("listeners", "clusters"):
            if not (self._folder / f"{kind}.json").exists():
                self._put(self._folder / f"{kind}.json", kind, [])

    def watched(self) -> frozenset[str]:
        """Names of the clusters and route tables that Envoy has been given."""
        path = self._folder / "clusters.json"
        clusters = json.loads(path.read_text())["resources"] if path.exists() else []
        return frozenset([each["name"] for each in clusters] + [each.stem for each in (self._folder / RDS_FOLDER).glob("[!.]*.json")])

    def apply(self, wanted: EnvoyConfiguration, former: EnvoyConfiguration | None, admin: "EnvoyAdmin | None") -> bool:
        """Bring the files to `wanted` without ever routing to what is not there; whether anything changed."""
        changed = False
        for name, resource in wanted.endpoints.items():
            changed |= self._put(self._folder / "endpoints" / f"{envoy_configuration.file_name(name)}.json", "endpoints", [resource])
        new = set(wanted.clusters) - set(former.clusters if former else ())
        kept = {**(former.clusters if former else {}), **wanted.clusters}
        changed |= self._put(self._folder / "clusters.json", "clusters", list(kept.values()))
        if new and admin is not None:
            admin.await_clusters(new, _WARM_SECONDS)
        for name, resource in wanted.routes.items():
            changed |= self._put(self._folder / RDS_FOLDER / f"{name}.json", "routes", [resource])
        changed |= self._put(self._folder / "listeners.json", "listeners", list(wanted.listeners.values()))
        return changed

    def prune(self, wanted: EnvoyConfiguration) -> None:
        """Drop clusters that nothing leads to any more; done once the routes have been taken."""
        self._put(self._folder / "clusters.json", "clusters", list(wanted.clusters.values()))
        known = {f"{envoy_configuration.file_name(name)}.json" for name in wanted.endpoints}
        for path in sorted((self._folder / "endpoints").glob("*.json")):
            if path.name not in known:
                path.unlink()

    def _put(self, path: Path, kind: str, resources: list[EnvoyMessage]) -> bool:
        plain = envoy_configuration.response(kind, resources, "")
        text = envoy_configuration.response(kind, resources, sha256(plain.encode()).hexdigest()[:12])
        if path.exists() and path.read_text() == text:
            return False
        whole_file.replace(path, text)
        return True


class EnvoyAdmin:
    """Envoy's administration port."""

    def __init__(self, port: int) -> None:
        self._port = port

    def get(self, path: str, method: str = "GET") -> str:
        """The answer's text. OSError or http.client.HTTPException when there is none."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5.0)
        try:
            connection.request(method, path)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def unready(self) -> str | None:
        try:
            said = self.get("/ready").strip()
        except (OSError, http.client.HTTPException):
            return "waiting for it to listen"
        return None if said.startswith("LIVE") else said.lower()

    def measured(self) -> str:
        """What proxies measure of requests and tokens, and how full they are, for Prometheus; nothing while Envoy does not answer."""
        try:
            return self.get(f"/stats/prometheus?filter=^({GATEWAY_STATISTICS}|{STREAM_TIMES}|connection_limit|{OVERLOADED}.*)[.]")
        except (OSError, http.client.HTTPException):
            return ""

    def reopen_logs(self) -> None:
        self.get("/reopen_logs", "POST")

    def await_clusters(self, names: set[str], seconds: float) -> None:
        """Wait until Envoy has these clusters with their endpoints, at most so long: a route to one that it has not
        answers 503."""
        deadline = monotonic() + seconds
        while monotonic() < deadline:
            try:
                found = json.loads(self.get("/config_dump?resource=dynamic_active_clusters"))
            except (OSError, http.client.HTTPException, ValueError):
                return
            if names <= {each["cluster"]["name"] for each in found.get("configs", [])}:
                return
            sleep(0.02)

    def rejected(self) -> Mapping[str, str]:
        """What Envoy did not take, by the name of the resource, in its own words."""
        found: dict[str, str] = {}
        for kind in ("dynamic_listeners", "dynamic_active_clusters", "dynamic_route_configs"):
            dump = json.loads(self.get(f"/config_dump?resource={kind}"))
            for each in dump.get("configs", []):
                if "error_state" in each:
                    name = each.get("name") or each.get("cluster", {}).get("name") or each.get("route_config", {}).get("name") or kind
                    found[name] = each["error_state"].get("details", "refused")
        return dict(sorted(found.items()))
