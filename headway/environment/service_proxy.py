"""Services of a cluster at an address of this machine, through the API server's proxy: for who is outside of the cluster,
where its names resolve to nothing or, worse, to another cluster's Services of the same name.

The API server answers `/api/v1/namespaces/NAMESPACE/services/NAME:PORT/proxy/...` with what the Service's pod answers, to
whoever may `get` `services/proxy` of that name (Kubernetes documentation, "Access Services Running on Clusters"; a role
names it as the path does: kubernetes/dashboard, `aio/deploy/recommended.yaml`). So neither a load balancer nor a password
is needed, and the credentials are those of the kubeconfig, renewed as it says.

The trap: the verb follows the method. Queries of Prometheus are posted, which would need `create`, a right with which one
could delete series too; so a form, or a question in the address alone, is turned into a GET. Whatever else is posted is posted.
"""

import http.server
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from headway.bounded_json import bounded_json
from headway.environment.api_answer import ApiAnswer
from headway.environment.kubernetes import KubernetesApi
from headway.environment.port import OutOfReachError
from headway.listening import asked_body
from headway.problem import UserError
from headway.wire import MONITORING_NAMESPACE

SECONDS = 20.0
"""How long the API server may take: it waits for the Service's own answer."""
LARGEST_QUESTION = 2**20
FORM = "application/x-www-form-urlencoded"
BAD_GATEWAY, REFUSED = 502, 403


def proxied(service: str, namespace: str = MONITORING_NAMESPACE) -> str:
    """The API server's path of a Service, given as `name:port`."""
    return f"/api/v1/namespaces/{namespace}/services/{service}/proxy"


class ServiceProxy:
    """Listens on loopback as long as this process lives, and passes on what is asked below `/<name:port>/`."""

    def __init__(self, api: Callable[[], KubernetesApi], services: Sequence[str]) -> None:
        self._server = _Server(api, frozenset(services))
        self._services = tuple(services)
        with suppress(OutOfReachError, UserError):  # told to who asks; the client's import may take longer than one who asks waits
            api().connect()
        threading.Thread(target=self._server.serve_forever, daemon=True, name="service-proxy").start()

    @property
    def addresses(self) -> str:
        """One for each Service, separated by commas, in the order in which they were given."""
        return ",".join(f"http://127.0.0.1:{self._server.server_port}/{service}" for service in self._services)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, api: Callable[[], KubernetesApi], services: frozenset[str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.api, self.services = api, services


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] - the one that made it
    protocol_version = "HTTP/1.1"
    timeout = SECONDS

    def do_GET(self) -> None:
        self._pass_on("GET", self.path)

    def do_POST(self) -> None:
        try:
            body = asked_body(self, LARGEST_QUESTION).decode()
        except ValueError as odd:
            self.close_connection = True
            self._answer(ApiAnswer(status=400, content=f"the question cannot be read: {odd}".encode()))
            return
        if not body:
            self._pass_on("GET", self.path)
        elif self.headers.get_content_type() == FORM:
            self._pass_on("GET", f"{self.path}{'&' if '?' in self.path else '?'}{body}")
        else:
            self._pass_on("POST", self.path, body)

    def _pass_on(self, method: str, path: str, body: str | None = None) -> None:
        # A page in a browser of this machine may resolve its own name to 127.0.0.1: it then asks for another host.
        if self.headers.get("Host") != f"127.0.0.1:{self.server.server_port}":
            self._answer(ApiAnswer(status=REFUSED, content=b"asked under another name"))
            return
        service, _, rest = path.removeprefix("/").partition("/")
        if service not in self.server.services or ".." in rest.partition("?")[0].split("/") or not rest.isprintable():
            self._answer(ApiAnswer(status=REFUSED, content=b"no such service here"))
            return
        try:
            said = bounded_json(body) if body else None
            answer = self.server.api().answer(method, f"{proxied(service)}/{rest}", body=said, seconds=SECONDS)
        except OutOfReachError as failure:
            answer = ApiAnswer(status=BAD_GATEWAY, content=f"the API server does not answer ({failure})".encode())
        except UserError as unknown:
            answer = ApiAnswer(status=BAD_GATEWAY, content=unknown.fact.encode())
        except ValueError:
            answer = ApiAnswer(status=400, content=b"what is posted here is a form or JSON")
        self._answer(answer)

    def _answer(self, answer: ApiAnswer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind or "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, format: str, *args: object) -> None: ...
