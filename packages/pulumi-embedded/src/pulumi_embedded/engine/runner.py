"""Runs a plain `__main__.py` against an engine; started as a script with one argument, a JSON object (see `program.Child`).

Follows sdk/python/cmd/pulumi-language-python-exec. Imports nothing of this project: it runs with the program's own interpreter.
Exit code 32: the program failed, and has said why.
"""

import asyncio
import gc
import json
import logging
import os
import runpy
import signal
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

FAILED_AND_LOGGED = 32
# The SDK makes many objects that live to the end; collecting rarely saves a fifth of its CPU time (docs/benchmarks.md).
_COLLECTION = (20_000, 20, 20)


class QuietEngine:
    """The engine's service without its debug lines, of which the SDK sends about four for each resource: nobody reads them."""

    def __init__(self, stub: Any, debug: int) -> None:
        self._stub = stub
        self._debug = debug

    def Log(self, line: Any) -> None:
        if line.severity != self._debug:
            self._stub.Log(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stub, name)


def trace_of(error: BaseException) -> str:
    """The trace from the program's own first line on; the frames that started it say nothing to its author."""
    first = frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == "<frozen runpy>":
            first = frame.tb_next
        frame = frame.tb_next
    return "".join(traceback.format_exception(type(error), error, first))


async def settle(sdk: Any) -> None:
    """Waits for what the program has begun, looking at each value once; at the first failure the SDK takes over.

    The SDK's own wait (runtime/stack.py, `wait_for_rpcs`) looks at every pending value whenever one is done: the square of their number.
    It follows, and then finds nothing left to wait for.
    """
    while True:
        with sdk.lock:
            begun = list(sdk.outputs)
        if any(value.done() and (value.cancelled() or value.exception()) for value in begun):
            return
        if not (pending := [value for value in begun if not value.done()]):
            return
        await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)


def main(asked: dict[str, Any]) -> int:
    import grpc
    import pulumi
    from pulumi.runtime import run_in_stack, set_all_config, settings
    from pulumi.runtime.config import get_config_env, get_config_secret_keys_env
    from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

    program = asked["program"]
    os.chdir(asked["directory"])
    sys.argv = [program]
    sys.path.insert(0, asked["directory"])
    engine: Any = asked["address"]
    if not asked["debug"]:
        engine = QuietEngine(engine_pb2_grpc.EngineStub(grpc.insecure_channel(asked["address"])), engine_pb2.DEBUG)
    settings.configure(
        settings.Settings(
            project=asked["project"],
            stack=asked["stack"],
            monitor=asked["address"],
            engine=engine,
            parallel=asked["parallel"],
            dry_run=asked["dry_run"],
            organization=asked["organization"],
            root_directory=asked["root"],
        )
    )
    set_all_config(get_config_env(), get_config_secret_keys_env())
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    loop = asyncio.new_event_loop()
    loop.set_default_executor(ThreadPoolExecutor(max_workers=max(1, asked["parallel"]) * 4))

    async def start() -> None:
        runpy.run_path(program, run_name="__main__")
        await settle(settings.SETTINGS)

    try:
        loop.run_until_complete(run_in_stack(start))
    except pulumi.RunError as error:
        pulumi.log.error(str(error))
    except grpc.RpcError as error:
        # UNAVAILABLE: the engine is ending the deployment and has said why.
        code, details = getattr(error, "code", None), getattr(error, "details", None)
        if not callable(code) or code() != grpc.StatusCode.UNAVAILABLE:
            pulumi.log.error(f"RPC error: {details() if callable(details) else error}")
    except BaseException as error:
        pulumi.log.error("Program failed with an unhandled exception:\n" + trace_of(error))
    else:
        return 0
    return FAILED_AND_LOGGED


def end_with_the_engine(leash: int) -> None:
    """The leash ends when the engine does, however it was killed; then so do the program and what it has started."""
    os.read(leash, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    # The leash arrives as standard input, which the program must find empty.
    kept = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    threading.Thread(target=end_with_the_engine, args=(kept,), daemon=True).start()
    gc.set_threshold(*_COLLECTION)
    status = main(json.loads(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads of open channels must not hold the exit
