"""Waiting for what happens elsewhere: in a process, a thread, a browser."""

import time


def wait_until(condition, seconds=120):
    """For what nothing tells of. So long that only what never comes is missed, however busy the machine is."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not come about in time")
        time.sleep(0.05)
