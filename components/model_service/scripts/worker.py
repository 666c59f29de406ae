"""Feeds a model server from a queue: takes messages, asks the server beside it, writes answers to object storage.

Runs next to the server from a ConfigMap, in the serving image, on the standard library alone: `python3 worker.py CONFIG`. A message is
JSON: `id`, which names the answer, and `request`, the body, or `file`, the name of one below `requests/` of the store; `model` where the
server has several. The answer is written to `answers/<id>.json` of the store.

- No message is taken before the server has answered its golden request rightly, nor after an answer was refused as wrong.
- A request that the server refuses for good (400 to 499) gets an answer that says so. What may pass later goes back to the queue, which
  hands it to the dead-letter queue after its last attempt.
- Told to stop (a spot node leaves, the queue is empty), it takes nothing new and gives back at once what it cannot finish.

The trap: a message is deleted only after its answer is stored, so one that is worked on twice writes the same answer twice.
"""

import concurrent.futures
import datetime
import http.client
import json
import os
import re
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

# The scripts of the release: the same signatures, the same judgement of golden answers.
sys.path.insert(0, os.environ.get("HEADWAY_SCRIPTS", "/etc/headway"))

import fetch
import probe

WAIT_SECONDS = 5
"""One poll of an empty queue; no longer, for a worker that is told to stop waits it out."""
MOST_AT_ONCE = 10
"""Messages of one poll, by SQS."""
RETRY_SECONDS = 15
"""After a failure, times the attempts so far."""
LARGEST_REQUEST = 64 * 2**20
"""Bytes of a request in the store."""
LARGEST_ANSWER = 256 * 2**20
LARGEST_REFUSAL = 2**20
ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, MemoryError)
"""What code of ours raises for a message like no other; it goes back as those that say it wrongly do."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

Json = Any


class Refused(Exception):  # noqa: N818
    """The message can never be answered as it is; the text says why, without its content."""


class Again(Exception):  # noqa: N818
    """Not now: another worker, or this one later, may succeed."""


def say(text: str) -> None:
    """A line of the log. Never a request or an answer: they may hold what logs must not."""
    print(text, flush=True)  # noqa: T201


# The queue and the store ----------------------------------------------------------------------------------------------------------------


class Cloud:
    """The two services of AWS that the worker uses, by signed requests."""

    def __init__(self, config: Json, environment: Json) -> None:
        self.config, self.environment, self.region = config, environment, config["region"]
        self.keys: Json = {}
        self.read_at = float("-inf")
        self.lock = threading.Lock()

    def credentials(self) -> "dict[str, str]":
        """Read anew every five minutes: they are renewed in place, long before they end."""
        with self.lock:
            if time.monotonic() - self.read_at > 300:
                self.keys, self.read_at = fetch.credentials(self.environment), time.monotonic()
            return self.keys

    def send(self, method: str, url: str, service: str, body: bytes, extra: "dict[str, str]", timeout: float) -> "bytes | bytearray":
        now = datetime.datetime.now(datetime.timezone.utc)  # noqa: UP017
        headers = fetch.signed(method, url, self.region, self.credentials(), extra, now, service, body)
        request = urllib.request.Request(url, data=body if method != "GET" else None, headers=headers, method=method)  # noqa: S310
        try:
            _, text = probe.whole(request, timeout, LARGEST_REQUEST)
        except urllib.error.HTTPError as error:
            missing = service == "s3" and method == "GET" and error.code in (403, 404)
            raise (Refused if missing else Again)(f"{service} answered {error.code}") from None
        except (OSError, http.client.HTTPException) as error:
            raise Again(f"{service} cannot be reached: {getattr(error, 'reason', error)}") from None
        if text is None:
            raise Refused(f"{service} answered with more than {LARGEST_REQUEST} bytes")
        return text

    def queue(self, action: str, **fields: Json) -> Json:
        endpoint = self.environment.get("AWS_ENDPOINT_URL_SQS") or f"https://sqs.{self.region}.amazonaws.com"
        body = json.dumps({"QueueUrl": self.config["queue_url"], **fields}).encode()
        headers = {"content-type": "application/x-amz-json-1.0", "x-amz-target": f"AmazonSQS.{action}"}
        text = self.send("POST", endpoint.rstrip("/") + "/", "sqs", body, headers, WAIT_SECONDS + 10)
        try:
            found = json.loads(text) if text else {}
        except ODD:
            raise Again("sqs answered what is no JSON") from None
        if not isinstance(found, dict):
            raise Again("sqs answered what is no object")
        return found

    def take(self, most: int) -> "list[Json]":
        asked = {"MaxNumberOfMessages": min(most, MOST_AT_ONCE), "WaitTimeSeconds": WAIT_SECONDS}
        found = self.queue("ReceiveMessage", MessageSystemAttributeNames=["ApproximateReceiveCount"], **asked).get("Messages") or []
        if not isinstance(found, list) or not all(isinstance(each, dict) and isinstance(each.get("MessageId"), str) for each in found):
            raise Again("sqs answered with what are no messages")
        return found

    def done(self, message: Json) -> None:
        self.queue("DeleteMessage", ReceiptHandle=message["ReceiptHandle"])

    def back(self, message: Json, seconds: int) -> None:
        self.queue("ChangeMessageVisibility", ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=seconds)

    def stored(self, name: str) -> "bytes | bytearray":
        url = fetch.address(f"{self.config['store']}requests/{name}", self.region, self.environment)
        return self.send("GET", url, "s3", b"", {}, fetch.TIMEOUT_SECONDS)

    def store(self, name: str, answer: Json) -> None:
        url = fetch.address(f"{self.config['store']}answers/{name}.json", self.region, self.environment)
        body = json.dumps(answer, sort_keys=True).encode()
        self.send("PUT", url, "s3", body, {"content-type": "application/json"}, fetch.TIMEOUT_SECONDS)


# Messages -------------------------------------------------------------------------------------------------------------------------------


def request_of(config: Json, message: Json, cloud: Cloud) -> "tuple[str, str, bytes]":
    """(id, path, body) of what is asked. Raises Refused for a message that says it wrongly."""
    try:
        asked = json.loads(message["Body"])
        name, model = asked["id"], asked.get("model")
    except ODD:
        raise Refused("it is no JSON object with an id") from None
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Refused("its id is no name of at most 128 letters, digits, '.', '_' and '-'")
    if ("request" in asked) == ("file" in asked):
        raise Refused(f"{name} must hold either request or file")
    if model is not None and not (isinstance(model, str) and model in config["paths"]):
        raise Refused(f"{name} asks model {str(model)[:80]!r}, which is not here")
    if "file" in asked:
        if not isinstance(asked["file"], str) or not NAME.fullmatch(asked["file"]):
            raise Refused(f"{name} names a file that is no plain name")
        raw = cloud.stored(asked["file"])
        body = probe.read(raw)
    else:
        body = asked["request"]
    if not isinstance(body, dict):
        raise Refused(f"the request of {name} is no JSON object")
    body = {**config["defaults"], **body}
    path = config["paths"][model] if model is not None else config["path"]
    for key, other in sorted(config["path_by_key"].items()):
        if key in body:
            path = other
    return name, path, json.dumps(body).encode()


def ask(config: Json, path: str, body: bytes) -> "tuple[int, Json]":
    """Status and answer of the server. Raises Again where trying later may help."""
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(config["base"] + path, data=body, headers=headers)  # noqa: S310
    try:
        status, text = probe.whole(request, config["timeout_seconds"], LARGEST_ANSWER)
    except urllib.error.HTTPError as error:
        if error.code == 429 or error.code >= 500:
            raise Again(f"the server answered {error.code}") from None
        try:
            status, text = error.code, error.read(LARGEST_REFUSAL)
        except (OSError, http.client.HTTPException):
            raise Again(f"the server broke off its {error.code}") from None
    except (OSError, http.client.HTTPException) as error:
        raise Again(f"the server gave no answer: {getattr(error, 'reason', error)}") from None
    if text is None:
        raise Again(f"the server answered with more than {LARGEST_ANSWER} bytes")
    return status, probe.read(text)


class Worker:
    """Takes messages while the server is right, as many at once as the server takes."""

    def __init__(self, config: Json, cloud: Cloud) -> None:
        self.config, self.cloud = config, cloud
        self.stopping = threading.Event()
        self.free = threading.Semaphore(config["at_once"])
        self.held: Json = {}
        self.lock = threading.Lock()

    def work(self, message: Json) -> None:
        began = time.monotonic()
        try:
            name, path, body = request_of(self.config, message, self.cloud)
            status, answer = ask(self.config, path, body)
            kept = {"id": name, "release": self.config["release"], "status": status, "answer": answer}
            self.cloud.store(name, kept)
            self.cloud.done(message)
            say(f"{name} {status} {time.monotonic() - began:.3f} s")
        except (Refused, Again, fetch.Refused) as reason:
            self.give_back(message, str(reason), RETRY_SECONDS * attempts(message))
        except ODD as odd:  # its text might quote the message
            self.give_back(message, f"nobody here understands it ({type(odd).__name__})", RETRY_SECONDS * attempts(message))
        finally:
            with self.lock:
                self.held.pop(message["MessageId"], None)
            self.free.release()

    def give_back(self, message: Json, why: str, seconds: int) -> None:
        """For another try; the queue counts them and sets the message aside after the last."""
        say(f"message {message['MessageId']} goes back: {why}")
        try:
            self.cloud.back(message, min(seconds, self.config["message_seconds"]))
        except (Refused, Again, fetch.Refused) as reason:
            say(f"message {message['MessageId']} comes back by itself: {reason}")

    def right(self) -> bool:
        """Whether the server answers its golden request rightly now."""
        try:
            probe.golden(self.config["base"], self.config["golden"])
        except probe.NotYet as reason:
            say(f"waiting for the server: {reason}")
            return False
        return True

    def run(self) -> None:
        pool = concurrent.futures.ThreadPoolExecutor(self.config["at_once"])
        checked = float("-inf")
        while not self.stopping.is_set():
            if time.monotonic() - checked > self.config["check_seconds"]:
                if not self.right():
                    self.stopping.wait(self.config["pause_seconds"])
                    continue
                checked = time.monotonic()
            self.round(pool)
        deadline = time.monotonic() + self.config["grace_seconds"]
        while self.held and time.monotonic() < deadline:
            time.sleep(0.1)
        for message in list(self.held.values()):
            self.give_back(message, "this worker stops", 0)
        # Not waited for: a request that never ends must not outlive the grace period.
        pool.shutdown(wait=False)
        say("stopped")

    def round(self, pool: "concurrent.futures.ThreadPoolExecutor") -> None:
        """Take as many messages as there is room for, at least one place."""
        if not self.free.acquire(timeout=1):
            return
        places = 1
        while places < MOST_AT_ONCE and self.free.acquire(blocking=False):
            places += 1
        try:
            messages = self.cloud.take(places)
        except (Refused, Again, fetch.Refused) as reason:
            say(f"no messages: {reason}")
            messages = []
            self.stopping.wait(self.config["pause_seconds"])
        if self.stopping.is_set():
            for message in messages:
                self.give_back(message, "this worker stops", 0)
            messages = []
        for message in messages:
            with self.lock:
                self.held[message["MessageId"]] = message
            pool.submit(self.work, message)
        for _ in range(places - len(messages)):
            self.free.release()


def attempts(message: Json) -> int:
    said = message.get("Attributes")
    said = str(said.get("ApproximateReceiveCount", 1)) if isinstance(said, dict) else "1"
    return int(said) if re.fullmatch("[0-9]{1,6}", said) else 1


def main(arguments: "list[str]") -> int:
    config = json.loads(Path(arguments[0]).read_text())
    worker = Worker(config, Cloud(config, os.environ))

    def stop(_signal: int, _frame: Any) -> None:
        worker.stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    worker.run()
    os._exit(0)  # threads that still wait for an answer would hold the interpreter


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
