"""What 200 model services cost: eight tenant stacks of 25, the real contracts, checks and components, under Pulumi's mocks.

    python -m benchmarks.tenants [--tenants 8] [--services 25]

Each stack is a process of its own, as in an update. Mocks answer at once, so this is a floor: no engine, no provider, no API server.
"""

import argparse
import copy
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from benchmarks.reference import reference_line, times_reference

PROJECT = Path(__file__).parents[1]
_ONE = "--one"


@dataclass(frozen=True, kw_only=True)
class StackCost:
    """One tenant's stack. Times are of the whole process: interpreter, imports and SDK included."""

    resources: int
    wall_seconds: float
    cpu_seconds: float
    start_seconds: float
    """Of the CPU: interpreter, imports, settings."""
    check_seconds: float
    """Of the CPU: reading and judging the contracts."""
    peak_mebibytes: float


def measure(tenants: int, services: int) -> tuple[StackCost, ...]:
    """Build every stack, one after the other."""
    found: list[StackCost] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(tenants):
            write(Path(folder), f"tenant-{number}", services)
        for number in range(tenants):
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.tenants", _ONE, folder, f"tenant-{number}"]
            done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=PROJECT)
            found.append(StackCost(**json.loads(done.stdout.splitlines()[-1])))
    return tuple(found)


def write(folder: Path, tenant: str, services: int) -> None:
    """Contracts of one tenant: services on MIG slices, none like another but in size."""
    contract = yaml.safe_load((PROJECT / "tenants/vision/tenant.yaml").read_text())
    contract["name"] = tenant
    contract["quota"] |= {"mig": {"1g.10gb": 60}, "gpu_memory": "1Ti", "cpu": 400, "memory": "1Ti", "monthly_budget": "900000 USD"}
    base = yaml.safe_load((PROJECT / "tenants/vision/defects.yaml").read_text())
    base["envelope"]["gpu"] = {"share": "mig", "accelerator": "a100-80gb", "profile": "1g.10gb", "memory": "8Gi"}
    base |= {"workload_class": "throughput", "placement": {"isolation": "mig"}}
    base["scaling"] |= {"min_replicas": 1, "max_replicas": 1, "warm_replicas": 0}
    (folder / tenant).mkdir()
    (folder / tenant / "tenant.yaml").write_text(yaml.safe_dump(contract))
    for number in range(services):
        model = copy.deepcopy(base) | {"name": f"model-{number:02}"}
        model["artifact"]["uri"] = f"s3://example-models/{tenant}/model-{number:02}/1/"
        (folder / tenant / f"{model['name']}.yaml").write_text(yaml.safe_dump(model))


def one(folder: Path, tenant: str) -> StackCost:
    """Build one stack in this process."""
    began = time.perf_counter()
    from headway.contract.reading.loader import load_tenant
    from stacks import settings
    from stacks import tenant as program
    from tests.components.program import answers
    from tests.components.recording import record

    loaded: Any = settings.load("sandbox-vision", {})
    pools = tuple(
        pool.model_copy(update={"size": pool.size.model_copy(update={"max": 400})}) if pool.name == "a100-mig" else pool
        for pool in loaded.pools
    )
    before = time.process_time()
    assert load_tenant(folder / tenant, pools).ok
    checked = time.process_time() - before
    grown = loaded.model_copy(update={"pools": pools, "tenant": tenant})
    built = record(lambda: program.build(grown, folder), stack=f"sandbox-{tenant}", calls=answers("sandbox", "cluster", "platform"))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return StackCost(
        resources=len(built.registrations),
        wall_seconds=time.perf_counter() - began,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        start_seconds=before,
        check_seconds=checked,
        peak_mebibytes=usage.ru_maxrss / 1024,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tenants", type=int, default=8)
    parser.add_argument("--services", type=int, default=25)
    parser.add_argument(_ONE, nargs=2, metavar=("FOLDER", "TENANT"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(vars(one(Path(chosen.one[0]), chosen.one[1]))))
        return
    print(reference_line())
    stacks = measure(chosen.tenants, chosen.services)
    resources, cpu = sum(s.resources for s in stacks), sum(s.cpu_seconds for s in stacks)
    building = sum(s.cpu_seconds - s.start_seconds - s.check_seconds for s in stacks)
    print(
        f"{chosen.tenants * chosen.services} services in {chosen.tenants} stacks: {resources:,} resources (load {os.getloadavg()[0]:.1f})"
    )
    print(
        f"a stack: {median(s.resources for s in stacks):.0f} resources, {median(s.cpu_seconds for s in stacks):.2f} s of CPU,"
        f" {median(s.wall_seconds for s in stacks):.2f} s, {median(s.peak_mebibytes for s in stacks):.0f} MiB at the peak"
    )
    checking = median(s.check_seconds for s in stacks)
    print(
        f"checking {chosen.services} contracts: {checking:.2f} s of CPU in each stack ({times_reference(checking)} of the reference work)"
    )
    print(f"CPU: {cpu:.1f} s in all ({times_reference(cpu)} of the reference work)")
    a_resource = building * 1000 / resources
    print(f"CPU without start and check: {a_resource:.2f} ms a resource (a thousand: {times_reference(a_resource)} of the reference work)")


if __name__ == "__main__":
    main()
