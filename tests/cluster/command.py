"""The real command in a copy of the checkout, with a state folder of its own, as a person at a terminal would run it."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from sandbox.cluster.control_plane_programs import NAMES
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout

PROJECT = Path(__file__).parents[2]
SECONDS = 600
"""How long any one command may take on a machine that has other things to do."""


def servers_of(state: Path) -> dict[int, str]:
    """Every server of the machine whose command line names this sandbox's folder: pid to program."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            name = Path(command[0]).name
            if name in NAMES and any(str(state) in argument for argument in command):
                found[int(entry.name)] = name
    return found


def closed_address() -> str:
    """A URL at which nobody answers."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


_ELSEWHERE = """
import socket, sys
name = sys.argv.pop(1)
socket.gethostname = lambda: name
from headway.cli.main import main
main()
"""


class Command(subprocess.Popen[str]):
    """A command that runs, with stdout and stderr in one stream. It leads a process group, as in a terminal."""

    def __init__(self, words: tuple[str, ...], project: Path, environment: Mapping[str, str], machine: str | None = None) -> None:
        """`machine`: the name that the command's machine seems to have; left out, its own."""
        begun = ("-m", "headway.cli.main") if machine is None else ("-c", _ELSEWHERE, machine)
        super().__init__(
            [sys.executable, *begun, *words],
            cwd=project,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._seen = ""

    def until(self, pattern: str) -> None:
        """Read on until a line matches; fails with everything read if none does before the end."""
        assert self.stdout
        for line in self.stdout:
            self._seen += line
            if re.search(pattern, line):
                return
        raise AssertionError(f"the command ended without a line like {pattern}:\n{self._seen}")

    def interrupt(self) -> None:
        """Ctrl-C: every process of the terminal's foreground group hears it."""
        os.killpg(self.pid, signal.SIGINT)

    def die(self) -> None:
        """SIGKILL, as when its machine is gone; what it would still have said is lost."""
        os.kill(self.pid, signal.SIGKILL)
        self.communicate(timeout=SECONDS)

    def end(self) -> tuple[int, str]:
        """Exit code, and all that was said. Fails on a traceback, whatever it is about."""
        rest, _ = self.communicate(timeout=SECONDS)
        output = self._seen + rest
        assert "Traceback" not in output, output
        return self.returncode, output


class Sandbox:
    """A copy of the checkout with a state folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.project, self.state = folder / "headway", folder / "state"
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, check=True, capture_output=True, text=True).stdout.split("\0")
        for name in filter(None, listed):
            if (PROJECT / name).is_file():
                (self.project / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(PROJECT / name, self.project / name)
        for environment in (".venv", ".venv-servers"):
            (self.project / environment).symlink_to(PROJECT / environment)
        self.environment = {**os.environ, "HEADWAY_SANDBOX_HOME": str(self.state), "HEADWAY_ENVIRONMENT": "sandbox", "NO_COLOR": "1"}
        self.layout = Layout.of(self.project, self.environment)

    def begin(self, *words: str, **environment: str) -> Command:
        return Command(words, self.project, {**self.environment, **environment})

    def begin_on(self, machine: str, *words: str) -> Command:
        """The same from a machine of that name: nobody here can tell whether it still lives."""
        return Command(words, self.project, self.environment, machine)

    def run(self, *words: str, **environment: str) -> tuple[int, str]:
        return self.begin(*words, **environment).end()

    def up(self, **environment: str) -> str:
        code, output = self.run("sandbox", "up", **environment)
        assert code == 0, output
        return output

    def kill(self, name: str) -> None:
        (found,) = [p for p in Supervisor(self.layout).list() if p.name == name]
        assert found.pid is not None
        os.kill(found.pid, signal.SIGKILL)

    @contextlib.contextmanager
    def changed(self, file: str, old: str, new: str) -> Generator[None]:
        """Inside, `file` has what the pattern `old` matches first replaced by `new`."""
        path = self.project / file
        kept = path.read_text(encoding="utf-8")
        text, found = re.subn(old, new, kept, count=1)
        assert found, f"{file} no longer holds {old!r}"
        try:
            path.write_text(text, encoding="utf-8")
            yield
        finally:
            path.write_text(kept, encoding="utf-8")

    def forget_the_receipt(self) -> None:
        """Make the next `up` plan every layer with its program and packs."""
        self.layout.receipt.unlink()

    def objects(self, namespace: str) -> Mapping[str, str]:
        """What tenants' workloads are made of, by kind and name: the uid, and the generation, which every change of what is asked raises."""
        from kubernetes import client, config

        api: Any = config.new_client_from_config(str(self.layout.kubeconfig))
        core: Any = client.CoreV1Api(api)
        apps: Any = client.AppsV1Api(api)
        listed = {
            "Deployment": apps.list_namespaced_deployment(namespace).items,
            "ResourceQuota": core.list_namespaced_resource_quota(namespace).items,
            "Service": core.list_namespaced_service(namespace).items,
        }
        return {
            f"{kind}/{each.metadata.name}": f"{each.metadata.uid} {each.metadata.generation}"
            for kind, found in sorted(listed.items())
            for each in sorted(found, key=lambda each: each.metadata.name)
        }
