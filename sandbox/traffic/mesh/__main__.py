"""`python -m sandbox.traffic.mesh CONFIGURATION`: the mesh's control plane as a process. The configuration is a JSON
file."""

import http.client
import http.server
import json
import sys
import threading
from pathlib import Path
from typing import Any

from sandbox.traffic.kube import Kube
from sandbox.traffic.mesh.controller import Controller
from sandbox.traffic.mesh.envoy import EnvoyAdmin
from sandbox.traffic.mesh.listeners import ListenerPorts
from sandbox.traffic.mesh.tokens import TokenIssuers


def main(path: Path) -> None:
    settings = json.loads(path.read_text())
    admin = EnvoyAdmin(settings["admin_port"])
    ports = ListenerPorts(
        gateway={int(port): own for port, own in settings["gateway"].items()},
        mesh={int(port): own for port, own in settings["mesh"].items()},
        log=settings["log"],
        samples=settings["samples"],
        limiter=settings["limiter"],
        activator=settings["activator"],
        picker=settings["picker"],
    )
    controller = Controller(
        Kube(Path(settings["kubeconfig"])), Path(settings["folder"]), ports, admin, TokenIssuers(Path(settings["issuers"]))
    )

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = _answer(controller, admin, self.path)
            data = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: scrapes are no news."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", settings["port"]), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    controller.run()


def _answer(controller: Controller, admin: EnvoyAdmin, path: str) -> tuple[int, str]:
    """`/metrics` what the mesh's proxies would show, `/ready`, and `/refusals`: what is not in force, a line each."""
    if path == "/metrics":
        return 200, controller.exposition() + admin.measured()
    if path == "/refusals":
        try:
            envoys = [f"envoy: {name}: {why}" for name, why in admin.rejected().items()]
        except (OSError, ValueError, http.client.HTTPException) as error:
            envoys = [f"envoy does not answer: {error}"]
        return 200, "".join(f"{line}\n" for line in (*controller.refusals, *envoys))
    missing = controller.ready()
    return (503, missing) if missing else (200, "ok")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
