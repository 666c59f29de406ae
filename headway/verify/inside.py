"""What a probe does inside its container, on the standard library alone: `python3 -c TEXT TASK JSON`. Its last word, JSON
too, goes to the file that the kubelet reads (Kubernetes documentation, "Customizing the termination message").

It is sent as text into images of others, so it imports nothing of Headway.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

Json = Any
LAST_WORD = Path("/dev/termination-log")
TRIES, PAUSE_SECONDS, SILENCE_SECONDS = 6, 5.0, 4.0
"""A NetworkPolicy agent takes some seconds to reach a new pod; until then everything passes, or nothing does."""


def connect(question: Json) -> Json:
    """Where a TCP connection is taken, by target; the last three tries count, and must agree."""
    found = {}
    for name, (host, port) in question["targets"].items():
        seen = []
        for number in range(TRIES):
            if number:
                time.sleep(PAUSE_SECONDS)
            try:
                socket.create_connection((host, port), SILENCE_SECONDS).close()
                seen.append("taken")
            except ConnectionRefusedError:
                seen.append("refused")  # a machine that is reached, and nobody who listens
            except OSError as error:
                seen.append("silent" if isinstance(error, (socket.timeout, TimeoutError)) else "failed")
        last = sorted(set(seen[-3:]))
        found[name] = last[0] if len(last) == 1 else "now " + " and then ".join(seen[-3:])
    return found


def names(question: Json) -> Json:
    """Which names resolve, by name: `found`, or what the resolver says; the last three tries count, and must agree."""
    os.environ["RES_OPTIONS"] = "timeout:2 attempts:1"  # glibc, resolv.conf(5): it would wait 5 s, twice, for each search domain
    found = {}
    for number in range(TRIES):
        if number:
            time.sleep(PAUSE_SECONDS)
        for name in question["names"]:
            try:
                socket.getaddrinfo(name, 443)
                said = "found"
            except OSError as error:
                said = error.strerror or str(error)
            found.setdefault(name, []).append(said)
    return {name: said[-1] if len(set(said[-3:])) == 1 else "now " + " and then ".join(said[-3:]) for name, said in found.items()}


def ask(question: Json) -> Json:
    """What an HTTP request without encryption is answered, after the other side had time to come up."""
    said = ""
    for number in range(question.get("tries", TRIES)):
        if number:
            time.sleep(PAUSE_SECONDS)
        try:
            with urllib.request.urlopen(question["url"], timeout=SILENCE_SECONDS) as answer:  # noqa: S310
                return {"answer": str(answer.status)}
        except urllib.error.HTTPError as error:
            return {"answer": str(error.code)}
        except ConnectionResetError:
            said = "reset"
        except OSError as error:
            reason = getattr(error, "reason", error)
            said = "reset" if isinstance(reason, ConnectionResetError) else type(reason).__name__
    return {"answer": said}


def serve(question: Json) -> Json:
    """Answer HTTP for a while."""
    import http.server
    import threading

    server = http.server.ThreadingHTTPServer(("0.0.0.0", question["port"]), http.server.SimpleHTTPRequestHandler)  # noqa: S104
    threading.Thread(target=server.serve_forever, daemon=True).start()
    time.sleep(question["seconds"])
    return {}


def devices(question: Json) -> Json:
    """Which GPUs the container sees."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False)
        listed = done.stdout.strip() if done.returncode == 0 else ""
        wrong = "" if done.returncode == 0 else (done.stdout + done.stderr).strip()[-300:]
    except (OSError, subprocess.TimeoutExpired) as error:
        listed, wrong = "", str(error)
    return {"listed": listed, "wrong": wrong, "files": sorted(map(str, Path("/dev").glob("nvidia[0-9]*")))}


def artifacts(question: Json) -> Json:
    """Who reads which object with the credentials of this pod: its own fetcher is asked, which never prints them."""
    sys.path.insert(0, question["scripts"])
    import fetch  # pyright: ignore[reportMissingImports] - lies beside the serving container's other scripts

    fetcher: Json = fetch

    found = {}
    try:
        keys = fetcher.credentials(os.environ)
    except (fetcher.Refused, OSError) as reason:
        return dict.fromkeys(question["objects"], f"no credentials: {reason}")
    for name, target in question["objects"].items():
        url = fetcher.address(target["uri"], target["region"], os.environ)
        try:
            fetcher.get(url, target["region"], keys, (0, 0))
            found[name] = "read"
        except fetcher.Refused as reason:
            found[name] = str(reason).rpartition(": ")[2]
    return found


def main(task: str, question: str) -> Json:
    return {"artifacts": artifacts, "ask": ask, "connect": connect, "devices": devices, "names": names, "serve": serve}[task](
        json.loads(question)
    )


if __name__ == "__main__":
    WORD = json.dumps(main(*sys.argv[1:3]))
    if LAST_WORD.exists():
        LAST_WORD.write_text(WORD)
    print(WORD)  # noqa: T201
