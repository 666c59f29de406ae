"""An alert for each receiver goes to an Alertmanager, and its counters say what became of it."""

import json
from types import SimpleNamespace
from typing import Any, ClassVar

from components.observability import routes
from headway.verify import alerts
from headway.verify.outcome import VerifyState
from headway.verify.site import Site
from tests.loopback import Handler, served

RECEIVERS = ("monitoring/platform/heartbeat", "monitoring/platform/platform-oncall", "monitoring/platform/platform-tickets")


def seen(broken: str = "") -> Any:
    class Alertmanager(Handler):
        posted: ClassVar[list[dict[str, Any]]] = []

        def do_GET(self) -> None:
            if self.path == "/api/v2/receivers":
                self.reply(200, [{"name": name} for name in RECEIVERS])
                return
            count = int(bool(self.posted))
            label = 'integration="webhook",receiver_name'
            lines = [f'alertmanager_notification_requests_total{{{label}="{name}"}} {count}' for name in RECEIVERS]
            lines += [
                f'alertmanager_notification_requests_failed_total{{{label}="{name}"}} {count if name == broken else 0}'
                for name in RECEIVERS
            ]
            self.reply(200, "\n".join(lines))

        def do_POST(self) -> None:
            type(self).posted += json.loads(self.body())
            self.reply(200)

    now = iter(range(0, 100_000, 30))
    configs = {"items": [routes.platform_routes()]}
    with served(Alertmanager) as address:
        environment: Any = SimpleNamespace(
            alertmanager_address=address, metrics_hint="", kubernetes=SimpleNamespace(request=lambda *_: configs)
        )
        site = Site(
            environment=environment,
            namespace="headway-verify-1",
            began="",
            pools=(),
            clock=lambda: float(next(now)),
            sleep=lambda _: None,
            say=lambda _: None,
        )
        return alerts.look(site), Alertmanager.posted


def test_every_receiver_takes_its_alert() -> None:
    found, posted = seen()
    assert (found.state, len(posted)) == (VerifyState.PASSED, 3)
    assert "3 receivers took an alert" in found.evidence[0]


def test_a_receiver_that_cannot_be_reached_is_found() -> None:
    found, _ = seen("monitoring/platform/platform-oncall")
    assert found.state is VerifyState.FAILED
    assert [problem.subject for problem in found.problems] == ["receiver monitoring/platform/platform-oncall"]
