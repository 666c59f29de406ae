"""What a preview costs: CPU, growth and memory of program and engine together, by number of model services.

    python benchmarks/engine_preview.py --services 50,200,600 [--runs 3] [--inline]

Each size runs in fresh processes: this one starts a client of the Automation API with the embedded engine in it, which runs the program
as a child (or inline). A service is a component of 17 kubernetes resources, shaped like the platform's model services; their provider is
not configured, because its kubeconfig is not known before an update. Figures are whole-process: interpreter, imports and SDK included.
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PER_SERVICE = 17
_ENGINE = "--measure"


def program(services: int) -> None:
    """The pretend platform: `services` components, each of 17 kubernetes resources."""
    import pulumi
    import pulumi_kubernetes as k8s

    class Kubeconfig(pulumi.CustomResource):
        def __init__(self) -> None:
            super().__init__("bench:index:Kubeconfig", "cluster", {"text": None})

    cluster = Kubeconfig()
    text: pulumi.Output[str] = cluster.text  # type: ignore[attr-defined]
    provider = k8s.Provider("cluster", kubeconfig=text)
    for number in range(services):
        _model_service(f"model-{number:04d}", provider)


def _model_service(name: str, provider: Any) -> None:
    import pulumi
    import pulumi_kubernetes as k8s

    class ModelService(pulumi.ComponentResource):
        def __init__(self) -> None:
            super().__init__("bench:index:ModelService", name)

    service = ModelService()
    below = pulumi.ResourceOptions(parent=service, provider=provider)
    labels = {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/managed-by": "headway",
        "headway.dev/tenant": "bench",
        "headway.dev/model": name,
    }

    def meta(role: str) -> Any:
        return {"name": f"{name}-{role}", "namespace": "bench", "labels": labels}

    account = k8s.core.v1.ServiceAccount(f"{name}-account", metadata=meta("account"), opts=below)
    settings = k8s.core.v1.ConfigMap(
        f"{name}-settings", metadata=meta("settings"), data={f"key-{i}": f"value {i} of {name}" for i in range(12)}, opts=below
    )
    pod = _pod_template(account, labels)
    for release in ("r1", "r2"):
        _release(name, release, pod, labels, meta(release), meta(f"{release}-scaling"), below)
    # Custom objects by the shape of a mesh's and a monitoring stack's, of a group that no provider looks into.
    for kind in ("Route", "Destination", "Authorization", "Scrape", "Alerts"):
        k8s.apiextensions.CustomResource(
            f"{name}-{kind.lower()}",
            api_version="bench.headway.dev/v1",
            kind=kind,
            metadata=meta(kind.lower()),
            spec={"host": f"{name}.bench.svc", "rules": [{"name": f"rule-{i}", "weight": i} for i in range(4)]},
            opts=below,
        )
    k8s.networking.v1.NetworkPolicy(
        f"{name}-isolation",
        metadata=meta("isolation"),
        spec={"pod_selector": {"match_labels": labels}, "policy_types": ["Ingress"]},
        opts=below,
    )
    k8s.core.v1.ConfigMap(f"{name}-card", metadata=meta("card"), data={"settings": settings.metadata["name"], "owner": "bench"}, opts=below)
    service.register_outputs({"name": name})


def _pod_template(account: Any, labels: dict[str, str]) -> Any:
    container: Any = {
        "name": "server",
        "image": "registry.example/triton@sha256:" + "a" * 64,
        "args": ["tritonserver", "--model-repository=/models", "--strict-readiness=true", "--exit-timeout-secs=60"],
        "env": [{"name": f"VARIABLE_{i}", "value": f"value {i}"} for i in range(8)],
        "ports": [{"name": port, "container_port": 8000 + i} for i, port in enumerate(("http", "grpc", "metrics"))],
        "resources": {
            "limits": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"},
            "requests": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"},
        },
        "readiness_probe": {"http_get": {"path": "/v2/health/ready", "port": "http"}, "period_seconds": 5},
        "volume_mounts": [{"name": "models", "mount_path": "/models"}, {"name": "shm", "mount_path": "/dev/shm"}],
    }
    return {
        "metadata": {"labels": labels, "annotations": {"prometheus.io/port": "8002"}},
        "spec": {
            "service_account_name": account.metadata["name"],
            "containers": [container],
            "node_selector": {"headway.dev/pool": "l4"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "volumes": [{"name": "models", "empty_dir": {}}, {"name": "shm", "empty_dir": {"medium": "Memory"}}],
        },
    }


def _release(name: str, release: str, pod: Any, labels: dict[str, str], meta: Any, scaling_meta: Any, below: Any) -> None:
    """The workload of one release: what runs it, leads to it, scales it, and guards it."""
    import pulumi
    import pulumi_kubernetes as k8s

    workload = k8s.apps.v1.Deployment(
        f"{name}-{release}",
        metadata=meta,
        spec={"replicas": 2, "selector": {"match_labels": {"headway.dev/model": name}}, "template": pod},
        opts=below,
    )
    front = k8s.core.v1.Service(
        f"{name}-{release}",
        metadata=meta,
        spec={"selector": labels, "ports": [{"name": "http", "port": 80, "target_port": "http"}]},
        opts=below,
    )
    k8s.apiextensions.CustomResource(
        f"{name}-{release}-scaling",
        api_version="keda.sh/v1alpha1",
        kind="ScaledObject",
        metadata=scaling_meta,
        spec={"scaleTargetRef": {"name": workload.metadata["name"]}, "minReplicaCount": 1, "maxReplicaCount": 8},
        opts=below,
    )
    k8s.policy.v1.PodDisruptionBudget(
        f"{name}-{release}",
        metadata=meta,
        spec={"max_unavailable": 1, "selector": {"match_labels": labels}},
        opts=pulumi.ResourceOptions.merge(below, pulumi.ResourceOptions(depends_on=[front])),
    )


def measure(services: int, *, inline: bool) -> dict[str, float]:
    """One preview in this process and its children, which end before the figures are taken."""
    from pulumi import automation as auto

    from pulumi_embedded.engine.command import EmbeddedPulumi
    from pulumi_embedded.engine.provider import UNKNOWN
    from pulumi_embedded.providers.kubernetes.provider import KubernetesProvider

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "packages" / "pulumi-embedded" / "tests"))
    from engine.doubles import Memory, World

    class Bench(Memory):
        def plan(self, type: str, inputs: dict[str, Any], old_outputs: dict[str, Any] | None) -> dict[str, Any]:
            return {**inputs, "text": UNKNOWN}

    with tempfile.TemporaryDirectory() as folder:

        def refuse(*_: object) -> tuple[Path, ...]:
            raise RuntimeError("a preview without a cluster needs no definitions")

        world = World()
        command = EmbeddedPulumi(
            {"bench": lambda: Bench(world), "kubernetes": lambda: KubernetesProvider(Path(folder, "kubeconfig"), refuse)}
        )
        here = Path(__file__).resolve()
        environment = {
            "PULUMI_BACKEND_URL": Path(folder).as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "benchmark",
            "PYTHONPATH": os.pathsep.join([str(here.parent), str(here.parents[1])]),
        }
        options = auto.LocalWorkspaceOptions(pulumi_command=command, env_vars=environment)
        if inline:
            options.project_settings = auto.ProjectSettings(name="bench", runtime="python")
            options.work_dir = folder
            stack = auto.create_stack("bench", project_name="bench", program=lambda: program(services), opts=options)
        else:
            Path(folder, "Pulumi.yaml").write_text("name: bench\nruntime: python\n")
            Path(folder, "__main__.py").write_text(f"from engine_preview import program\nprogram({services})\n")
            stack = auto.create_stack("bench", work_dir=folder, opts=options)
        # What a process costs before the first preview is not what a resource costs, but it is paid, so CPU counts from the start.
        before = time.monotonic()
        result = stack.preview()
        wall = time.monotonic() - before
    planned = sum(result.change_summary.values())
    expected = services * (PER_SERVICE + 1) + 3
    if planned != expected:
        raise SystemExit(f"{planned} resources were planned instead of {expected}")
    mine, theirs = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "resources": services * PER_SERVICE,
        "cpu": mine.ru_utime + mine.ru_stime + theirs.ru_utime + theirs.ru_stime,
        "engine": mine.ru_utime + mine.ru_stime,
        "kib": mine.ru_maxrss + (0 if inline else theirs.ru_maxrss),
        "wall": wall,
    }


def exponent(small: dict[str, float], large: dict[str, float]) -> float:
    """How CPU grows with the number of resources: 1 is linear."""
    return math.log(large["cpu"] / small["cpu"]) / math.log(large["resources"] / small["resources"])


def _run(services: int, *, inline: bool) -> dict[str, float]:
    arguments = [sys.executable, __file__, _ENGINE, str(services), *(["--inline"] if inline else [])]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    done = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--services", default="50,200,600", help="sizes, smallest first")
    parser.add_argument("--runs", type=int, default=1, help="runs of each size; medians are shown")
    parser.add_argument("--inline", action="store_true", help="the program in the engine's process")
    parser.add_argument(_ENGINE, type=int, dest="measured", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measured is not None:
        print(json.dumps(measure(arguments.measured, inline=arguments.inline)))
        return
    # As a script it is found below benchmarks/, and finds its neighbours from the checkout.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from benchmarks.reference import reference_line, times_reference

    print(reference_line())
    sizes = [int(size) for size in arguments.services.split(",")]
    table: list[dict[str, float]] = []
    print(f"{'resources':>10} {'CPU s':>8} {'ms/resource':>12} {'engine s':>9} {'MiB':>8} {'wall s':>8} {'CPU of reference':>17}")
    for size in sizes:
        runs = [_run(size, inline=arguments.inline) for _ in range(arguments.runs)]
        row = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        table.append(row)
        per_resource = row["cpu"] / row["resources"] * 1000
        print(
            f"{row['resources']:>10.0f} {row['cpu']:>8.2f} {per_resource:>12.2f} {row['engine']:>9.2f} {row['kib'] / 1024:>8.0f} {row['wall']:>8.1f}"
            f" {times_reference(row['cpu']):>17}",
            flush=True,
        )
    if len(table) > 1:
        first, last = table[0], table[-1]
        memory = (last["kib"] - first["kib"]) / (last["resources"] - first["resources"])
        print(f"growth exponent {exponent(first, last):.3f}; {memory:.1f} KiB of peak memory a resource")


if __name__ == "__main__":
    main()
