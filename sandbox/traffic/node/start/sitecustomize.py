"""Runs at the start of every Python process of a vLLM pod, which its agent puts on PYTHONPATH: names shared memory after the pod, and
lets the engine behave as its artifact says (`behaviour.py`).

vLLM's processes speak by it, and who is killed leaves it behind; the shim removes what begins with the pod's prefix. In a pod /dev/shm is
the pod's own, and goes with it.
"""

import os
import secrets
import sys
from multiprocessing import shared_memory

import behaviour  # pyright: ignore[reportMissingImports]


def _named() -> str:
    return f"/{os.environ['HEADWAY_SHM_PREFIX']}{secrets.token_hex(4)}"


shared_memory._make_filename = _named  # pyright: ignore[reportAttributeAccessIssue]
behaviour.begin(sys.orig_argv)
