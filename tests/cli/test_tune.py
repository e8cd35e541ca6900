"""`kappasharp tune`: the real command in a real pseudo-terminal, and key by key."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

import click
import pytest

import kappasharp as ks
from kappasharp.cli import tune
from tests.cli.shell import SOURCE, Shell

TOML = """
name = "tea"
first_pairs = 2
[parameters]
minutes = {low = 1.0, high = 8.0}
milk = [true, false]
"""
# The terminal becomes the command's own, so that Ctrl-C reaches it while it computes, too.
START = "import fcntl, signal, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
START += "; signal.signal(signal.SIGINT, signal.default_int_handler)"
START += "; from kappasharp.cli.main import main; main(prog_name='kappasharp')"
LEFT, RIGHT, DOWN = "\x1b[D", "\x1b[C", "\x1b[B"
PATIENCE = 120


class Terminal:
    """A command in a terminal of 100 × 40: what it shows, and keys for it."""

    def __init__(self, shell: Shell, *words: str) -> None:
        self.ours, self.its = pty.openpty()
        fcntl.ioctl(self.its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        env = os.environ | {
            "KAPPASHARP_STORAGE": shell.url, "PYTHONPATH": SOURCE, "TERM": "xterm", "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, *words], stdin=self.its, stdout=self.its, stderr=self.its,
            cwd=shell.folder, env=env, start_new_session=True,
        )  # fmt: skip
        self.shown, self.read = "", 0

    def until(self, words: str) -> str:
        """Wait until it has shown these words since the last time; what came up to them."""
        deadline = time.monotonic() + PATIENCE
        while (at := self.shown.find(words, self.read)) < 0:
            assert time.monotonic() < deadline, self.shown
            if select.select([self.ours], [], [], 0.1)[0]:
                self.shown += os.read(self.ours, 65536).decode()
            elif self.process.poll() is not None:
                raise AssertionError(self.shown)
        found, self.read = self.shown[self.read : at + len(words)], at + len(words)
        return found

    def press(self, key: str) -> None:
        """A key, once it waits for one: what is typed before is thrown away, so that nobody answers unseen pairs."""
        self.until("q quit")
        deadline = time.monotonic() + PATIENCE
        while termios.tcgetattr(self.its)[3] & termios.ICANON:
            assert time.monotonic() < deadline and self.process.poll() is None, self.shown
            time.sleep(0.002)
        os.write(self.ours, key.encode())

    def end(self) -> int:
        """Its exit code; everything it showed is in `shown`, and the terminal is as it was."""
        code = self.process.wait(PATIENCE)
        while select.select([self.ours], [], [], 0.1)[0]:
            self.shown += os.read(self.ours, 65536).decode()
        assert termios.tcgetattr(self.its)[3] & termios.ICANON and termios.tcgetattr(self.its)[3] & termios.ECHO
        os.close(self.ours)
        os.close(self.its)
        return code


@pytest.fixture
def shell(tmp_path):
    found = Shell(tmp_path)
    (tmp_path / "tea.toml").write_text(TOML)
    return found


def stored(shell):
    return ks.load_study("tea", storage=shell.url)


@pytest.fixture
def opened(shell):
    """Opens terminals; whatever still runs in one at the end is killed."""
    made = []

    def open_one(*words):
        made.append(Terminal(shell, *words))
        return made[-1]

    yield open_one
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def test_a_person_answers_with_the_arrow_keys_and_leaves_with_ctrl_c(shell, opened):
    screen = opened("tune", "tea.toml", "--voter", "anna")
    for key, said in ((LEFT, "Saved: A is better."), (RIGHT, "Saved: B is better."), (DOWN, "Saved: can't tell.")):
        screen.press(key)
        screen.until(said)
    screen.press("u")
    screen.until("Taken back.")
    screen.press("s")
    screen.until("Saved: skipped.")
    screen.press("\x1bOD")
    screen.until("Saved: A is better.")
    screen.press("\x03")
    assert screen.end() == 0 and "Traceback" not in screen.shown
    history = stored(shell).history
    said = list(history.comparisons.values())
    assert [one.answer for one in said] == ["a", "b", "skip", "a"] and {one.voter for one in said} == {"anna"}
    assert all(one.seconds is not None and one.seconds >= 0 for one in said)
    # The pair whose answer was taken back came again; the one shown in between was withdrawn; the last one waits.
    numbers = list(history.asked)
    assert [one.pair for one in said] == [numbers[0], numbers[1], numbers[2], numbers[4]]
    assert history.open_pair("anna").number == numbers[5] == numbers[-1]
    assert "Best so far" in screen.shown and "minutes" in screen.shown and "the best so far beats" in screen.shown


def test_without_a_terminal_there_is_a_sentence(shell):
    shell.refused("tune", "tea.toml", code=2, says="needs a terminal; `ask` and `tell` do without")
    assert not (shell.folder / "studies.db").exists()


@pytest.fixture
def press(shell, monkeypatch):
    """The command with keys at hand: each is a text, an exception, or something to do first."""

    def run(keys, *words, code=0):
        rest = iter(keys)

        def key():
            given = next(rest)
            if isinstance(given, BaseException):
                raise given
            return given() if callable(given) else given

        monkeypatch.setattr(tune, "_is_terminal", lambda: True)
        monkeypatch.setattr(click, "getchar", key)
        said = shell("tune", shell.folder / "tea.toml", *words, code=code).stdout
        assert list(rest) == []
        return said

    return run


def answers(shell):
    return [one.answer for one in stored(shell).history.comparisons.values()]


def test_letters_do_as_well_and_others_mean_nothing(shell, press):
    said = press(["x", "a", "\x1b", "B", "t", "s", "U", "q"])
    assert answers(shell) == ["a", "b", "tie"]
    assert "x means nothing here. ← A is better" in said and r"'\x1b' means nothing here." in said


def test_it_ends_after_so_many_answers(shell, press):
    assert "Best so far" in press(["a", "u", "b", "a", "b"], "--questions", "3")
    assert answers(shell) == ["b", "a", "b"]
    press(["a"], "--questions", "1")
    assert answers(shell) == ["b", "a", "b", "a"]


def test_it_settles_with_five_duels_and_stops(shell, press):
    press(["a"] * 6, "--questions", "6")
    assert "Best so far" in press(["a"] * 5, "--settle")
    origins = [pair.origin for pair, _ in stored(shell).history.asked.values()]
    assert origins[-5:] == ["settle"] * 5 and "settle" not in origins[:-5]


def test_it_settles_by_galleries_too(shell, press):
    press(["a"] * 6, "--questions", "6")
    press(["1"] * 5, "--settle", "--question", "choice:5")
    last = [pair for pair, _ in stored(shell).history.asked.values()][-5:]
    assert {pair.origin for pair in last} == {"settle"} and {pair.kind for pair in last} <= {"choice", "pair"}
    assert last[0].kind == "choice" and len(last[0].designs) == 5


def test_the_same_pair_waits_the_next_time(shell, press):
    press(["a", "q"])
    waiting = stored(shell).ask()
    assert f"pair {waiting.number}, after 1 answer" in press([EOFError()])
    assert stored(shell).ask() == waiting and answers(shell) == ["a"]


def test_nothing_to_undo_is_said(shell, press):
    assert "There is nothing to undo: 'me' has no answer in 'tea'." in press(["u", "q"])


def test_a_pair_that_was_answered_elsewhere_gives_way_to_the_next(shell, press):
    def elsewhere():
        study = stored(shell)
        study.tell(study.ask(), "b")
        return "a"

    assert "takes no answer: it was answered 'b' already" in press([elsewhere, "a", "q"])
    assert answers(shell) == ["b", "a"]


def test_ctrl_c_while_the_model_thinks(shell, press, monkeypatch):
    ask, asked = ks.Study.ask, []

    def interrupted(study, voter):
        asked.append(voter)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return ask(study, voter)

    monkeypatch.setattr(ks.Study, "ask", interrupted)
    assert "Best so far" in press(["a"])
    assert answers(shell) == ["a"]


def asked(shell, question):
    text = (shell.folder / "tea.toml").read_text()
    (shell.folder / "tea.toml").write_text(f'question = "{question}"\n{text}')


def test_the_best_of_four_is_a_digit(shell, press):
    asked(shell, "choice:4")
    said = press(["9", "0", "3", "1", "s", "u", "4", "q"])
    assert answers(shell) == [2, 0, 3] and "Saved: 3 is the best." in said and "the number of the best" in said


def test_an_order_is_typed(shell, press):
    asked(shell, "order:4")
    keys = [*"3 1=4 2", "\r", "s", *"2 2", "\n", "x", *"55", "\x7f", "\x7f", *"4", "\r", *"1 ", "\x7f", "\x7f", "q"]
    said = press(keys)
    assert answers(shell) == [[2, [0, 3], 1], "skip", [3]]
    assert "Saved: 3 > 1 = 4 > 2." in said and "each once" in said and "x means nothing here. numbers, best" in said


def test_a_slider_moves_with_arrows_and_by_a_typed_place(shell, press):
    asked(shell, "slider:2")
    said = press([RIGHT, RIGHT, LEFT, "\r", *"0.2", "\r", "\r", *"7", "\r", "\n", *"1", "\x7f", "s", "q"])
    assert answers(shell) == [0.55, 0.2, 0.5, "skip"]
    assert "0.600" in said and "Saved: best at 0.2." in said and "from 0 to 1, but got '7'" in said


def test_a_rating_has_a_sign(shell, press):
    asked(shell, "rating")
    said = press(["3", "-", "2", "-", "x", "0", "-", "u", "5", "1", "q"])
    assert answers(shell) == [3, -2, 1] and "Saved: A is much better." in said and "Saved: B is better." in said
    assert "Saved: equal." in said and "Saved: A is slightly better." in said


def test_another_kind_for_a_while(shell, press):
    press(["a", "q"])
    press(["\r"], "--question", "slider", "--questions", "1")
    assert answers(shell) == ["a", 0.5] and stored(shell).ask().kind == "pair"


def test_undo_shows_the_same_question_again_whatever_kind_is_asked_for(shell, press):
    press(["a", "q"])
    first = next(iter(stored(shell).history.asked))
    said = press(["u", "u", "q"], "--question", "slider")
    assert "There is nothing to undo" in said and said.count(f"tea  pair {first}, after 0 answers") == 2
    waiting = stored(shell).ask()
    assert waiting.number == first
    stored(shell).tell(waiting, "b")
    # Once it has its answer, that kind is asked again.
    press(["u", "a", "\r"], "--question", "slider", "--questions", "1")
    assert answers(shell) == ["a", 0.5] and stored(shell).history.comparisons.popitem()[1].kind == "slider"


SENT_AT_ONCE = [
    ("order:4", ["3 1=4 2\n", "2\r\n", "4 3", " 1\rq"], [[2, [0, 3], 1], [1], [3, 2, 0]]),
    ("slider:4", ["0.3\n", "\n", f"{RIGHT}{RIGHT}{LEFT}\r", ".7\r\n", "\r", f"{LEFT}s"], [0.3, 31 / 60, 0.7, "skip"]),
    ("rating", ["-2", "-", "3q", "0"], [-2, -3, 0]),
    ("choice:4", ["31", "2\n"], [2, 1]),
    ("pair", ["ab", f"{RIGHT}{LEFT}", "tq"], ["a", "b", "tie"]),
]


@pytest.mark.parametrize(("question", "keys", "expected"), SENT_AT_ONCE)
def test_keys_that_are_sent_at_once_are_taken_one_by_one(shell, press, question, keys, expected):
    """But none of them answers the next question, which nobody has seen."""
    asked(shell, question)
    assert "means nothing" not in press([*keys, "q"])
    assert answers(shell) == expected


@pytest.mark.parametrize(
    ("question", "keys", "says"),
    [
        ("slider", ["nan\r", "0,5\r", "\x7f", "q"], [r"n means nothing here", ", means nothing here"]),
        ("slider", ["7\r\r", "q"], ["A place must be a number from 0 to 1, but got '7'."]),
        ("order:4", ["1 1\r2 1\r", "x2\r", "q"], ["each once", "x means nothing here"]),
        ("pair", ["xa", "q"], ["x means nothing here"]),
    ],
)
def test_what_is_sent_with_something_wrong_stores_nothing(shell, press, question, keys, says):
    """Nobody who sent it had read the sentence."""
    asked(shell, question)
    said = press(keys)
    assert answers(shell) == [] and all(one in said for one in says)


def test_a_terminal_that_is_gone_quits(shell, press):
    press([""])
    assert answers(shell) == []


def test_an_escape_sequence_is_one_key(shell, press):
    """The letters in it answer nothing."""
    sequences = ["\x1b[1;5B", "\x1b[[A", "\x1b\x1b[B", "\x1bOA", "\x1b[3~", "\x1ba", "\x1b[", "\x1b[1;", "\xe0H"]
    said = press([*sequences, "q"])
    assert answers(shell) == [] and said.count("means nothing here") == len(sequences)


def test_a_pasted_order_in_a_real_terminal(shell, opened):
    asked(shell, "order:4")
    screen = opened("tune", "tea.toml")
    screen.press("3 1=4 2\r")
    screen.until("Saved: 3 > 1 = 4 > 2.")
    screen.press("q")
    assert screen.end() == 0 and answers(shell) == [[2, [0, 3], 1]]


def test_a_kind_that_is_none_is_told_by_the_option(shell, monkeypatch):
    monkeypatch.setattr(tune, "_is_terminal", lambda: True)
    for guess in ("foo", "auto", "order:10"):
        shell.refused("tune", shell.folder / "tea.toml", "--question", guess, code=2, says="Error: `--question` must ")


def test_what_stands_against_the_best_so_far_is_said(shell, press):
    press(["a", "b", "a", "q"])
    study = stored(shell)
    compared = [design["minutes"] for design in study.history.options]
    free = next(
        low / 10.0 for low in range(10, 79) if not any(low / 10.0 <= one <= low / 10.0 + 0.1 for one in compared)
    )
    study.narrow("minutes", free, free + 0.1)
    assert "Note: No design was compared yet that is open now" in press(["q"])
