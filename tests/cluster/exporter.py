"""A target that shows what a test tells it to."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.loopback import Handler, served


@dataclass
class Exporter:
    """Text on a port of this machine, in Prometheus' format, or what makes it anew for each reading; a test may change it at any time."""

    port: int
    text: str | Callable[[], str]

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextmanager
def shown(text: str | Callable[[], str], *, typed: bool = True) -> Generator[Exporter]:
    """Show `text` until the end of the block, and say what type it is."""
    found = Exporter(port=0, text=text)

    class Server(Handler):
        def do_GET(self) -> None:
            text = found.text if isinstance(found.text, str) else found.text()
            self.reply(200, text, **({"content_type": "text/plain; version=0.0.4"} if typed else {}))

    with served(Server) as url:
        found.port = urlsplit(url).port or 0
        yield found
