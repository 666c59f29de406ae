"""The GPU Operator: device plugin, feature discovery, MIG manager, DCGM exporter, validator. Not the driver, which the
AMI brings.

Exactly one DCGM host engine watches profiling fields: the exporter's own. The trap: the chart's memory limit for the
operator (350 Mi) is too small for clusters with many nodes; it is killed and nodes stop being labelled.
"""

import json
from collections.abc import Sequence
from typing import Any

from components.addons.placement import ON_SYSTEM_NODES, requests
from components.nodes.gpu_node import GPU_TAINT, born_with
from components.nodes.sharing import EXCLUSIVE, mig_configs, plugin_configs
from components.versions import GPU_OPERATOR
from headway.contract.pool import Pool
from headway.contract.pool_parts import Taint
from headway.wire import MODEL, QUARANTINE, RELEASE, TENANT

NAMESPACE = "gpu-operator"
SCRAPE_INTERVAL = "15s"

COUNTERS: tuple[tuple[str, str, str], ...] = (
    ("DCGM_EXP_GPU_HEALTH_STATUS", "gauge", "Health checks of the device by DCGM."),
    ("DCGM_EXP_XID_ERRORS_COUNT", "gauge", "Xid errors within the exporter's window."),
    ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gauge", "Bit mask of why clocks are held down."),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Rows remapped after correctable errors."),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Double-bit ECC errors since the driver was loaded."),
    ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "Single-bit ECC errors since the driver was loaded."),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "Free device memory (in MiB)."),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Used device memory (in MiB)."),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "Device temperature (in C)."),
    ("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C)."),
    ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "counter", "NVLink flow-control CRC errors."),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "PCIe retries."),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W)."),
    ("DCGM_FI_DEV_POWER_VIOLATION", "counter", "Throttling by the power limit (in ns)."),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping a row has failed."),
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "Clock of the multiprocessors (in MHz)."),
    ("DCGM_FI_DEV_THERMAL_VIOLATION", "counter", "Throttling by temperature (in ns)."),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Rows remapped after uncorrectable errors."),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last Xid error."),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Share of time in which device memory moves data."),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Share of time in which the graphics engine is active."),
    ("DCGM_FI_PROF_NVLINK_RX_BYTES", "gauge", "Bytes a second received over NVLink."),
    ("DCGM_FI_PROF_NVLINK_TX_BYTES", "gauge", "Bytes a second sent over NVLink."),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "Bytes a second received over PCIe."),
    ("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "Bytes a second sent over PCIe."),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Share of time in which the tensor cores are active."),
    ("DCGM_FI_PROF_SM_ACTIVE", "gauge", "Share of time with a busy multiprocessor."),
    ("DCGM_FI_PROF_SM_OCCUPANCY", "gauge", "Share of warps that the multiprocessors could hold and do."),
)
"""DCGM field, Prometheus type, help (without a comma, which would shift the columns): what signals, alerts and node
health read, and no more.
"""


def counters() -> str:
    """The exporter's CSV."""
    return "".join(f"{field}, {kind}, {text}\n" for field, kind, text in COUNTERS)


def values(pools: Sequence[Pool]) -> dict[str, Any]:
    """Chart values for the sharing modes and taints of `pools`.

    The operator gives each of its daemon sets these tolerations in place of its own (`applyCommonDaemonsetConfig` in its
    `controllers/object_controls.go`, v26.7.0).
    """
    # A node in quarantine needs its agents most: without them its repair could never be seen.
    tolerations = [*(_toleration(taint) for taint in _taints(pools)), {"key": QUARANTINE, "operator": "Exists", "effect": "NoSchedule"}]
    mig = {"version": "v1", "mig-configs": mig_configs(pools)}
    return {
        "driver": {"enabled": False},
        "toolkit": {"enabled": False},
        "cdi": {"enabled": True},
        "nfd": {"enabled": True},
        "gfd": {"enabled": True, "version": _digest("k8s-device-plugin")},
        "daemonsets": {"tolerations": tolerations},
        "node-feature-discovery": {
            "gc": {"resources": requests("10m", "128Mi")},
            "master": {"resources": requests("100m", "128Mi")},
            "worker": {"resources": requests("5m", "64Mi"), "tolerations": tolerations},
        },
        "operator": {
            "nodeSelector": dict(ON_SYSTEM_NODES),
            "upgradeCRD": True,
            "resources": {"limits": {"cpu": "500m", "memory": "700Mi"}, "requests": {"cpu": "200m", "memory": "200Mi"}},
        },
        "mig": {"strategy": "mixed"},
        "migManager": {
            "version": _digest("k8s-mig-manager"),
            # Ampere needs a reboot to change its mode behind a hypervisor.
            "env": [{"name": "WITH_REBOOT", "value": "true"}],
            "config": {"name": "mig-layouts", "create": True, "default": "all-disabled", "data": {"config.yaml": json.dumps(mig)}},
        },
        "devicePlugin": {
            "version": _digest("k8s-device-plugin"),
            "config": {"name": "device-plugin-config", "create": True, "default": EXCLUSIVE, "data": plugin_configs(pools)},
        },
        "dcgm": {"enabled": False},
        "dcgmExporter": {
            "version": _digest("dcgm-exporter"),
            "enablePodLabels": True,
            "podLabelAllowlistRegex": [f"^{key.replace('.', chr(92) + '.')}$" for key in sorted((MODEL, RELEASE, TENANT))],
            "serviceMonitor": {"enabled": True, "honorLabels": True, "interval": SCRAPE_INTERVAL},
            "config": {"name": "dcgm-metrics", "create": True, "data": counters()},
            "env": [
                {"name": "DCGM_EXPORTER_INTERVAL", "value": "15000"},
                # Attribution to pods on GPUs that MPS or time slicing divides.
                {"name": "KUBERNETES_VIRTUAL_GPUS", "value": "true"},
            ],
        },
        # An empty environment renders as null, which the ClusterPolicy's own validation refuses.
        "validator": {"plugin": {"env": [{"name": "WITH_WORKLOAD", "value": "false"}]}},
        "vgpuDeviceManager": {"enabled": False},
        "sandboxDevicePlugin": {"enabled": False},
        "vfioManager": {"enabled": False},
        "ccManager": {"enabled": False},
    }


def _digest(image: str) -> str:
    """What the operator takes for a version: it writes `@` before one that is a digest."""
    return next(full.partition("@")[2] for full in GPU_OPERATOR.images if f"/{image}:" in full)


def _taints(pools: Sequence[Pool]) -> tuple[Taint, ...]:
    found = {(taint.key, taint.effect): taint for pool in pools for taint in born_with(pool)}
    return (GPU_TAINT, *(taint for key, taint in sorted(found.items()) if key != (GPU_TAINT.key, GPU_TAINT.effect)))


def _toleration(taint: Taint) -> dict[str, str]:
    return {"key": taint.key, "operator": "Exists", "effect": taint.effect}
