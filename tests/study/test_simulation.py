"""The user's function, in workers and in this process: all it does becomes numbers, or a sentence about one design."""

import math
import os
import pickle
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
from unittest.mock import Mock

import pytest

from kappasharp import processes
from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.processes import Wire
from kappasharp.simulators import cache, function
from kappasharp.simulators import simulator as simulators_simulator
from kappasharp.simulators.simulator import Simulator
from kappasharp.space import outcomes
from tests.study import simulators

GOOD, BAD = {"kp": 1.0, "ki": 0.5}, {"kp": 2.0, "ki": 0.5}
NAMES = ("overshoot", "settling")
MODULE = "tests.study.simulators"


@pytest.fixture(scope="module")
def made():
    """Simulators by name; their workers end with the tests."""
    found = []

    def make(function, limit=20.0):
        found.append(Simulator(None, f"{MODULE}:{function}", limit))
        return found[-1]

    yield make
    for one in found:
        one.close()


def here(function, limit=20.0):
    """The same in this process: a closure has no name."""
    return Simulator(function, None, limit)


def table(simulator, parameters, rows, names):
    """The numbers of designs given by their values, one row each."""
    found, is_whole = simulator.table(parameters, list(map(cache.key, rows)), names)
    numbers = [list(row[:-1]) for row in struct.iter_unpack(f"{len(names) + 1}d", found)]
    assert not is_whole or all(math.isfinite(number) for row in numbers for number in row)
    return numbers


class TestComputing:
    """What comes back, from where, and how often."""

    def test_workers_and_this_process_say_what_the_function_says(self, made):
        designs = [{"kp": 0.2 + 0.1 * i, "ki": 0.01 * i} for i in range(25)]
        expected = [simulators.simulate(design) for design in designs]
        for simulator in (made("simulate"), here(simulators.simulate)):
            assert [one.values for one in simulator.compute(designs, NAMES)] == expected

    def test_nothing_is_computed_twice(self):
        called = []
        simulator = Simulator(lambda design: called.append(design) or simulators.simulate(design), None)
        first = simulator.compute([GOOD, BAD, GOOD])
        assert simulator.compute([BAD, GOOD]) == [first[1], first[0]] and first[0] == first[2]
        assert called == [GOOD, BAD] and simulator.computed == 2

    def test_numbers_alone_are_those_of_the_designs(self, made):
        """With True and 1 apart, and NaN where a design has no outcomes or others than are wanted."""
        rows = [(0.2 + 0.1 * i, 0.01 * i) for i in range(25)]
        designs = [dict(zip(("kp", "ki"), row, strict=True)) for row in rows]
        expected = [[simulators.simulate(design)[name] for name in reversed(NAMES)] for design in designs]
        for simulator in (made("simulate"), here(simulators.simulate)):
            for _ in range(2):
                found = table(simulator, ("kp", "ki"), rows, NAMES[::-1])
                assert found == expected and simulator.computed == 25
            assert [one.values for one in simulator.compute(designs)] == list(map(simulators.simulate, designs))
            assert all(math.isnan(value) for value in table(simulator, ("kp", "ki"), rows[:1], ("mass",))[0])
        broken = table(made("raises_above"), ("kp", "ki"), [(1.0, 0.5), (2.0, 0.5)], NAMES)
        assert broken[0] == list(simulators.simulate(GOOD).values()) and math.isnan(broken[1][0])
        typed = here(lambda design: {"is": float(isinstance(design["on"], bool))})
        assert table(typed, ("on",), [(True,), (1,), (1.0,)], ("is",)) == [[1.0], [0.0], [0.0]]

    def test_threads_share_it(self):
        simulator, found = here(simulators.simulate), []
        threads = [threading.Thread(target=lambda: found.extend(simulator.compute([GOOD, BAD]))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 16 and simulator.computed == 2

    def test_only_its_name_goes_to_another_process(self):
        named = simulators_simulator.of(simulators.simulate)
        assert named.name == f"{MODULE}:simulate"
        assert pickle.loads(pickle.dumps(named)) is named is simulators_simulator.of(f"{MODULE}:simulate")
        assert pickle.loads(pickle.dumps(here(simulators.simulate))) is None

    def test_what_the_function_prints_is_not_data(self, capsys):
        (found,) = function.run(f"{MODULE}:talking", [GOOD], 20.0)
        said = capsys.readouterr()
        assert found.values == simulators.simulate(GOOD) and (said.out, said.err) == ("", "simulating\n")

    def test_what_is_printed_past_python_is_not_data_either(self, capfd):
        function.run(f"{MODULE}:writing", [GOOD], 20.0)
        os.write(1, b"data\n")
        said = capfd.readouterr()
        assert (said.out, said.err) == ("data\n", "raw\nfrom a command\nsimulating\n")


BREAKS = {
    "raises_above": "raised ValueError: unstable",
    "renaming_above": "must return overshoot, settling, as it did when the study was made, but it returned mass",
    "no_number_above": "Outcome 'settling' must be a finite number, but got nan",
    "text_above": "Outcome 'settling' must be a number, but got 'long'",
    "cancelled_above": "raised CancelledError: by somebody.",
    "speechless_above": "raised SpeechlessError: its own words cannot be read.",
    "pressed_above": "raised KeyboardInterrupt.",
}


class TestWhatGoesWrong:
    """Each mistake costs its own design, and no other."""

    @pytest.mark.parametrize("function", BREAKS)
    def test_one_design_is_without_outcomes(self, function, made):
        for simulator in (made(function), here(getattr(simulators, function))):
            good, bad, again = simulator.compute([GOOD, BAD, {"kp": 0.5, "ki": 0.5}], NAMES)
            assert good.values == simulators.simulate(GOOD) and again.values is not None
            assert bad.values is None and BREAKS[function] in bad.failure and not bad.hung

    @pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
    def test_ctrl_c_of_whoever_waits_is_theirs(self, handler):
        """Where it is heard at all: a shell's job in the background is not told of it."""
        before = signal.signal(signal.SIGINT, handler)
        try:
            if handler is signal.SIG_IGN:
                assert "KeyboardInterrupt" in function.one(simulators.pressed_above, BAD).failure
                return
            with pytest.raises(KeyboardInterrupt):
                function.one(simulators.pressed_above, BAD)
        finally:
            signal.signal(signal.SIGINT, before)

    def test_an_error_of_several_lines_is_a_sentence_of_one(self):
        assert "raised ZeroDivisionError: the pole is at zero." in function.one(simulators.raising, GOOD).failure
        with pytest.raises(InvalidValueError) as told:
            simulators_simulator.probe(here(simulators.raising), [BAD, GOOD])
        assert "\n" not in str(told.value)

    def test_what_is_no_mapping(self):
        for given in (None, 3.0, [1.0], {}, "text"):
            found = function.one(lambda _, given=given: given, GOOD)
            assert found.values is None and "must return a mapping of names to numbers" in found.failure

    def test_a_hang_ends_at_the_limit(self, made):
        for simulator in (made("hangs_above", 1.5), here(simulators.hangs_above, 1.5)):
            bad, good = simulator.compute([BAD, GOOD], NAMES)
            assert good.values == simulators.simulate(GOOD)
            assert bad.hung and "must end within 1.5 seconds, but it took longer" in bad.failure

    def test_a_function_that_always_hangs_is_left_alone(self):
        simulator = here(simulators.hanging, 0.05)
        found = simulator.compute([{"kp": 0.2 + 0.01 * i, "ki": 0.0} for i in range(100)])
        assert [one.hung for one in found[:4]] == [True, True, True, False]
        assert all("left alone after 3 designs that hung" in one.failure for one in found[3:])

    def test_in_workers_it_is_left_alone_too(self, made):
        """Not one job after another: those that wait behind the third that hung are never begun."""
        simulator = made("hanging", 0.3)
        found = simulator.compute([{"kp": 0.2 + 0.01 * i, "ki": 0.0} for i in range(60)])
        assert sum(one.hung for one in found) == 3
        assert sum("left alone after 3 designs that hung" in one.failure for one in found) == 57
        (more,) = simulator.compute([GOOD])
        assert not more.hung and "left alone after 3 designs" in more.failure

    def test_what_no_signal_ends_is_killed(self, made, monkeypatch):
        simulator = made("stubborn", 0.5)
        simulator.compute([GOOD])  # the worker is there
        with monkeypatch.context() as patched:
            patched.setattr(simulators_simulator, "GRACE", 1.0)
            (bad,) = simulator.compute([BAD], NAMES)
        # The start of another worker may take a while.
        (good,) = simulator.compute([{"kp": 0.9, "ki": 0.5}], NAMES)
        assert bad.hung and "took longer" in bad.failure and good.values is not None

    def test_a_process_that_ends_is_replaced(self, made):
        bad, good = made("dying_above").compute([BAD, GOOD], NAMES)
        assert "ended its process" in bad.failure and good.values == simulators.simulate(GOOD)

    @pytest.mark.skipif(not function.CAN_FORK, reason="Without forks one worker after the other is ended")
    def test_once_it_ended_its_process_every_design_has_its_own(self, made, monkeypatch):
        """Workers that live on: they are not started again for each of many designs that end theirs."""
        opened, simulator = [], made("dying_above")
        pool = processes.Pool
        monkeypatch.setattr(simulators_simulator, "Pool", lambda *size, **how: opened.append(how) or pool(*size, **how))
        designs = [{"kp": 0.1 * i, "ki": 0.5} for i in range(30)]
        simulator.compute([GOOD], NAMES)
        found = simulator.compute(designs, NAMES) + simulator.compute([{"kp": 9.0 + i, "ki": 0.5} for i in range(9)])
        assert [one.failure is not None for one in found] == [design["kp"] > 1.5 for design in designs] + [True] * 9
        assert {one.failure for one in found} == {None, function.ENDED} and len(opened) <= 3
        assert [one.values for one in found[:5]] == [simulators.simulate(design) for design in designs[:5]]

    @pytest.mark.skipif(not function.CAN_FORK, reason="Without forks there is none")
    def test_one_of_its_own_that_hangs_is_ended(self, monkeypatch):
        monkeypatch.setattr(function, "OVERTIME", 0.2)
        ran = function._apart(simulators.stubborn, BAD, 0.2)
        assert ran.hung and "must end within 0.2 seconds" in ran.failure

    def test_workers_that_cannot_be_started_are_started_anew(self, made, monkeypatch):
        """Who forks them was ended at that moment; a second time in a row is a sentence."""
        for times, says in ((1, None), (9, "could not be run in a worker process: EOFError: unexpected EOF.")):
            simulator, left = made("simulate"), [None] * times
            start = ProcessPoolExecutor._spawn_process

            def spawn(pool, left=left, start=start):
                if left:
                    left.pop()
                    raise EOFError("unexpected EOF")
                start(pool)

            with monkeypatch.context() as patched:
                patched.setattr(ProcessPoolExecutor, "_spawn_process", spawn)
                patched.setattr(simulators_simulator, "Wire", Mock(side_effect=BrokenProcessPool))
                found = simulator.compute([GOOD], NAMES)[0]
            assert found.failure is says is None or says in found.failure
            assert simulator.compute([BAD], NAMES)[0].values == simulators.simulate(BAD)

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("no_such_module_anywhere:f", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module"),
            (f"{MODULE}:no_such", "cannot be loaded: AttributeError: "),
            (f"{MODULE}:not_a_function", "must name a function, but tests.study.simulators:not_a_function is 3."),
            ("tests.study.exiting:f", "cannot be loaded: SystemExit: three lines of usage. It must be module:function"),
        ],
    )
    def test_a_function_that_cannot_be_loaded(self, name, why):
        simulator = Simulator(None, name)
        found = simulator.compute([GOOD, BAD])
        with pytest.raises(InvalidValueError) as told:
            simulators_simulator.probe(simulator, [GOOD, BAD])
        simulator.close()
        assert all(one.values is None and why in one.failure for one in found)
        assert why in str(told.value) and "Nothing was stored." in str(told.value)
        assert "one of the first" not in str(told.value)


class TestProbing:
    """Before a study is stored its function is tried."""

    def test_names_in_their_order_and_seconds_as_a_power_of_two(self):
        found = simulators_simulator.probe(here(simulators.slow), [GOOD, BAD] * 4)
        assert found.names == NAMES and found.seconds in [0.125 * 2**more for more in range(6)]

    def test_one_bad_design_does_no_harm(self):
        assert simulators_simulator.probe(here(simulators.raises_above), [BAD, GOOD]).names == NAMES

    def test_a_function_that_never_works(self):
        with pytest.raises(InvalidValueError, match=r"must work for one of the first 2 designs, but: .*ZeroDivision"):
            simulators_simulator.probe(here(simulators.raising), [BAD, GOOD])

    def test_names_that_differ(self):
        with pytest.raises(InvalidValueError, match=r"the same names for every design, but it returned .*mass"):
            simulators_simulator.probe(here(simulators.renaming_above), [GOOD, BAD])

    @pytest.mark.parametrize("given", ["nocolon", ":f", "m:"])
    def test_names_that_are_none(self, given):
        with pytest.raises(InvalidValueError, match="must be module:function, such as bench:simulate"):
            simulators_simulator.of(given)

    def test_what_is_no_function(self):
        with pytest.raises(InvalidTypeError, match="must be a function, module:function or names, but got 3"):
            simulators_simulator.of(3)


def test_budgets():
    """Two seconds of computing, a power of two, and at least 64 designs where one takes up to 50 ms."""
    assert [simulators_simulator.budget(seconds) for seconds in (1e-6, 1e-3, 0.01, 0.05)] == [2048, 256, 64, 64]
    assert simulators_simulator.budget(4.0) == 1


def test_who_stops_a_function_waits_for_nothing_and_nothing_is_kept():
    simulator = simulators_simulator.Simulator(None, "tests.study.simulators:hangs_above")
    assert simulator.compute([{"kp": 1.0, "ki": 0.0}])[0].values is not None
    said = []

    def wait():
        try:
            said.append(simulator.compute([{"kp": 2.0, "ki": 0.0}]))
        except RuntimeError as error:
            said.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    while simulator._wire is None:  # until a worker has it
        time.sleep(0.01)
    simulator.stop()
    waiting.join(120)
    # At its limit it would have come back as a design that hung.
    assert said == ["The function of the outcomes was stopped."] and simulator.computed == 1
    # Whoever asks later is answered again.
    assert simulator.compute([{"kp": 1.2, "ki": 0.0}])[0].values is not None
    simulator.close()


def test_workers_that_start_just_when_it_is_stopped_are_ended_too(monkeypatch):
    simulator, ended, then = simulators_simulator.Simulator(None, "tests.study.simulators:simulate"), [], []
    stopping = threading.Thread(target=simulator.stop)

    class Starting:
        def __init__(self, *_, **__):
            stopping.start()
            stopping.join(0.2)  # whoever did not wait for the start would be done with the stop by now

        def call(self, *_, **__):
            stopping.join()
            then.append(len(ended))
            raise BrokenProcessPool

        def end(self, **_):
            ended.append(self)

    monkeypatch.setattr(simulators_simulator, "Wire", Starting)
    with pytest.raises(RuntimeError, match="was stopped"):
        simulator.compute([GOOD])
    assert then == [1]


def test_a_worker_that_somebody_ended_is_not_the_functions_fault():
    simulator = simulators_simulator.Simulator(None, "tests.study.simulators:simulate")
    assert simulator.compute([GOOD], NAMES)[0].values is not None
    simulator._wire._worker.kill()
    simulator._wire._worker.join(60)
    assert simulator.compute([BAD], NAMES)[0].values == simulators.simulate(BAD) and not simulator._ends
    simulator.close()


def test_a_first_call_that_loads_something_does_not_make_a_function_slow(monkeypatch):
    monkeypatch.setattr(simulators_simulator, "PROBE_SECONDS", 0.0)
    seconds = iter([1.2, *[1e-4] * 20])
    simulator = Mock(compute=lambda designs: [outcomes.Ran({"a": 1.0}, None, next(seconds)) for _ in designs])
    assert simulators_simulator.probe(simulator, [GOOD] * 8).seconds < 1e-3
    seconds = iter([1.2, 1.1, 1.3])
    assert simulators_simulator.probe(simulator, [GOOD] * 8).seconds > 1.0 and next(seconds) == 1.3


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs alarms")
def test_a_function_that_takes_the_alarm_for_itself_is_ended_at_the_next_design():
    designs = [{"kp": 0.0, "ki": 0.0}, {"kp": 1.0, "ki": 0.0}]
    first, second = function.run(f"{MODULE}:deafens_then_hangs", designs, 0.3)
    assert first.values is not None and second.hung


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs alarms")
def test_an_alarm_that_was_set_for_earlier_designs_ends_none_too_early_and_one_that_hangs_in_time():
    """Together they take longer than one of them may; the last hangs."""
    designs = [{"kp": seconds, "ki": 0.0} for seconds in [0.0] * 200 + [0.2] * 5 + [60.0]]
    *quick, last = function.run(f"{MODULE}:sleeping", designs, 0.6)
    assert len(quick) == 205 and all(one.values is not None for one in quick)
    assert last.hung and 0.6 <= last.seconds < 30.0
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs alarms")
def test_an_alarm_that_rings_early_is_set_for_what_is_left(monkeypatch):
    monkeypatch.setattr(function, "ALARM_AGAIN", 60.0)
    designs = [{"kp": seconds, "ki": 0.0} for seconds in [0.25] * 8 + [60.0]]
    *quick, last = function.run(f"{MODULE}:sleeping", designs, 0.6)
    assert len(quick) == 8 and all(one.values is not None for one in quick)
    assert last.hung and 0.6 <= last.seconds < 30.0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs alarms")
@pytest.mark.parametrize("packed", [False, True])
def test_a_worker_that_leaves_its_alarm_on_ends_what_hangs_in_every_job(packed):
    """The function takes the alarm away at the first design of each."""
    rows = [(0.0, 0.0), (1.0, 0.0)]
    designs = [dict(zip(("kp", "ki"), row, strict=True)) for row in rows]
    given = b"".join(map(cache.key, rows)) if packed else designs
    worker, job = Wire(), function.Briefly(f"{MODULE}:deafens_then_hangs", ("kp", "ki"), ("overshoot",), 0.3)
    for _ in range(2):
        first, second = worker.call(job, given, within=60)
        assert first.values is not None and second.hung
    worker.end(wait=True)


def test_a_program_that_is_interrupted_while_its_worker_starts_exits(tmp_path):
    """Python waits for workers at its exit."""
    words = """
        import os, signal
        from multiprocessing.process import BaseProcess
        from kappasharp.processes import Wire
        # Programs that a shell has put behind it begin deaf.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        start = BaseProcess.start
        BaseProcess.start = lambda self: (start(self), os.kill(os.getpid(), signal.SIGINT))
        kept = Wire()
    """
    (tmp_path / "interrupted.py").write_text(textwrap.dedent(words), "utf-8")
    words = [sys.executable, tmp_path / "interrupted.py"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "KeyboardInterrupt" in done.stderr


def test_who_is_interrupted_leaves_no_worker_with_a_job_behind(monkeypatch):
    """Python waits for them at its exit, as long as a function may take."""
    simulator, workers = simulators_simulator.Simulator(None, f"{MODULE}:hanging"), []

    def interrupted(job, *_):
        while not job.running():
            time.sleep(0.01)
        workers.extend(simulator._pool._processes.values())
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        simulator.compute([GOOD, BAD])
    for one in workers:
        one.join(10)
    assert len(workers) > 0 and not any(one.is_alive() for one in workers)
