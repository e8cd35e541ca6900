"""Functions of outcomes, good and bad, in a module that workers can import."""

import asyncio
import os
import signal
import subprocess
import time

SPACE = {"kp": (0.2, 3.0), "ki": (0.0, 2.0)}


def simulate(design):
    """Two outcomes, of which less is better; they disagree about kp."""
    return {
        "overshoot": 0.25 * max(design["kp"] - 0.5, 0.0) + 0.1 * design["ki"],
        "settling": 3.0 / (0.3 + design["kp"]) + 0.2 * design["ki"],
    }


def liked(outcomes):
    """How much a person likes outcomes."""
    return -4.0 * outcomes["overshoot"] - outcomes["settling"]


def half_chance(design):
    """One outcome as it is, the other as good as chance: the last digits of a product."""
    return simulate(design) | {"settling": 1e7 * (design["kp"] + 0.1) * (design["ki"] + 0.1) % 1.0}


def talking(design):
    print("simulating")
    return simulate(design)


def slow(design):
    """The same, dearly."""
    time.sleep(0.12)
    return simulate(design)


def raising(design):
    raise ZeroDivisionError("the pole\nis at zero")


def raises_above(design):
    if design["kp"] > 1.5:
        raise ValueError("unstable")
    return simulate(design)


def hangs_above(design):
    while design["kp"] > 1.5:
        time.sleep(0.01)
    return simulate(design)


def hanging(design):
    while True:
        time.sleep(0.01)


def stubborn(design):
    """It hangs in spite of every exception; only the end of its process ends it."""
    while design["kp"] > 1.5:
        try:
            time.sleep(60.0)
        except BaseException:
            pass
    return simulate(design)


def dying_above(design):
    if design["kp"] > 1.5:
        os._exit(3)
    return simulate(design)


def renaming_above(design):
    found = simulate(design)
    return found if design["kp"] <= 1.5 else {"overshoot": found["overshoot"], "mass": 1.0}


def no_number_above(design):
    return simulate(design) | ({"settling": float("nan")} if design["kp"] > 1.5 else {})


def text_above(design):
    return simulate(design) | ({"settling": "long"} if design["kp"] > 1.5 else {})


def nothing(design):
    return None


def constant(design):
    return {"overshoot": 0.1, "settling": 2.0}


def half_constant(design):
    return simulate(design) | {"settling": 2.0}


not_a_function = 3


class SpeechlessError(Exception):
    """An error that cannot say what it is."""

    def __str__(self):
        raise ValueError("no words")


def cancelled_above(design):
    if design["kp"] > 1.5:
        raise asyncio.CancelledError("by somebody")
    return simulate(design)


def speechless_above(design):
    if design["kp"] > 1.5:
        raise SpeechlessError
    return simulate(design)


def pressed_above(design):
    """It raises what Ctrl-C raises, though nobody pressed it."""
    if design["kp"] > 1.5:
        raise KeyboardInterrupt
    return simulate(design)


def writing(design):
    """It prints past Python, as libraries in C do, and through a command."""
    os.write(1, b"raw\n")
    subprocess.run(["echo", "from a command"], check=True)
    return talking(design)


def sleeping(design):
    """Sleeps for as many seconds as the design says."""
    time.sleep(design["kp"])
    return {"overshoot": 1.0}


def deafens_then_hangs(design):
    """Takes the alarm for itself at the first design, and hangs at the next."""
    if design["kp"]:
        time.sleep(60)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    return {"overshoot": 1.0}
