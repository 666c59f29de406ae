"""What every tier needs of the process that runs it."""

import signal

# A shell starts background jobs with interrupts ignored, and children inherit that: tests of Ctrl-C would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)
