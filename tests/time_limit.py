"""A test of processes must not wait for ever: after so many seconds it fails where it stands."""

import signal
from contextlib import contextmanager


@contextmanager
def time_limit(seconds):
    def expired(*_):
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
