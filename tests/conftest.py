"""What every tier needs of the process that runs it."""

import gc
import signal

from hypothesis import HealthCheck, settings

# A shell starts background jobs with interrupts ignored, and children inherit that: tests of Ctrl-C would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says how busy the machine is, nothing of the code.
settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")

# The SDKs' modules are hundreds of thousands of objects that live as long as the process: looking through them again and again while
# they are imported doubles the time of collection.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
