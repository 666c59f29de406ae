"""What Prometheus and Alertmanager of the sandbox read, as data. Pure.

Three ways lead to a scraped target: a job given here, a file that somebody drops into the targets folder (picked up
within seconds, no reload), and a PodMonitor in the cluster (`objects.py`). Prometheus' ranges are open to the left, so
a `rate` over one scrape interval holds one sample and answers nothing; windows are at least four scrapes long.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCRAPE_SECONDS = 1.0
"""Production scrapes every 15 s; a demonstration should not spend its time waiting."""
OUT_OF_ORDER = "1d"
"""How old a sample may be that somebody writes: generated history is younger."""
TARGET_FILES = "*.json"
RULE_FILES = SCRAPE_FILES = "*.yml"
SILENT_RECEIVER = "nobody"


@dataclass(frozen=True, kw_only=True)
class ScrapeJob:
    """Targets known beforehand, as `host:port`."""

    name: str
    targets: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    metrics_path: str = "/metrics"
    scheme: str = "http"
    tls: Mapping[str, str] = field(default_factory=dict[str, str])
    """Prometheus' `tls_config`: paths of files, never their contents."""


@dataclass(frozen=True, kw_only=True)
class MonitoringSettings:
    """What a caller may choose; the defaults are the sandbox's."""

    scrape_seconds: float = SCRAPE_SECONDS
    jobs: tuple[ScrapeJob, ...] = ()
    scrape_configs: tuple[Mapping[str, Any], ...] = ()
    """More jobs, as Prometheus spells them."""
    alertmanager: Mapping[str, Any] | None = None
    """Alertmanager's configuration; without one it keeps alerts and tells nobody."""


def prometheus(settings: MonitoringSettings, *, folder: Path, alertmanager_port: int) -> dict[str, Any]:
    """Prometheus' configuration; `folder` holds `rules/`, `scrape/` and `targets/`."""
    interval = duration(settings.scrape_seconds)
    return {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "rule_files": [str(folder / "rules" / RULE_FILES)],
        "scrape_config_files": [str(folder / "scrape" / SCRAPE_FILES)],
        "storage": {"tsdb": {"out_of_order_time_window": OUT_OF_ORDER}},
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager_port}"]}]}]},
        "scrape_configs": [
            {"job_name": "files", "file_sd_configs": [{"files": [str(folder / "targets" / TARGET_FILES)], "refresh_interval": "1s"}]},
            *(_job(job) for job in settings.jobs),
            *(dict(each) for each in settings.scrape_configs),
        ],
    }


def alertmanager(settings: MonitoringSettings) -> Mapping[str, Any]:
    """Alertmanager's configuration."""
    return settings.alertmanager or {"route": {"receiver": SILENT_RECEIVER}, "receivers": [{"name": SILENT_RECEIVER}]}


def duration(seconds: float) -> str:
    """As Prometheus writes it: 0.5 is `500ms`."""
    return f"{seconds:g}s" if seconds == int(seconds) else f"{round(seconds * 1000)}ms"


def target_file(targets: Sequence[str], labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Contents of one file in the targets folder. Labels `job`, `__metrics_path__` and `__scheme__` mean what they say."""
    return [{"targets": sorted(targets), "labels": dict(sorted(labels.items()))}]


def _job(job: ScrapeJob) -> dict[str, Any]:
    labels = {"labels": dict(sorted(job.labels.items()))} if job.labels else {}
    return {
        "job_name": job.name,
        "metrics_path": job.metrics_path,
        "scheme": job.scheme,
        "static_configs": [{"targets": list(job.targets), **labels}],
        **({"tls_config": dict(sorted(job.tls.items()))} if job.tls else {}),
    }
