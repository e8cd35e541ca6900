"""The estimate of a run's memory against the true peak of a process that does nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from kappasharp.errors import InvalidValueError
from kappasharp.lab import memory
from kappasharp.methods.registry import PRESETS
from tests.lab import tiny

ROOT = Path(__file__).parents[2]
RUNS = 80


def test_the_sizes_are_those_of_the_last_question():
    (block,) = tiny.blocks(methods=["baseline"], queries=50)
    assert memory.sizes(block) == memory.Sizes(106, 65, 6)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read there")
@pytest.mark.parametrize("preset", ["paper", "modern"])
@pytest.mark.parametrize("size", [(56, 40, 6), (106, 65, 20)], ids=str)
def test_the_true_peak_is_within_a_factor_of_two(preset, size):
    words = [sys.executable, "-m", "tests.lab.peak", preset, *map(str, size), str(RUNS)]
    found = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    idle, measured = int(found[0]), int(found[1]) / RUNS
    assert idle < memory.IDLE
    assert 0.5 < memory.per_run(memory.Sizes(*size), PRESETS[preset]) / measured < 2.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4GB", 4 * 10**9), ("512 MiB", 2**29), ("8e9", 8 * 10**9), ("1.5gb", 15 * 10**8), ("100", 100)],
)
def test_memory_in_words(text, expected):
    assert memory.read(text) == expected


@pytest.mark.parametrize("text", ["", "much", "4 parsecs", "GB", "1.2.3GB", "-4GB", "nan"])
def test_other_words_are_refused(text):
    with pytest.raises(InvalidValueError, match="`memory` must"):
        memory.read(text)


def test_a_budget_without_room_for_one_run_is_refused():
    (block,) = tiny.blocks(methods=["baseline"], queries=50)
    with pytest.raises(InvalidValueError, match=r"`memory` must hold a worker with one run, 35\d MB for hartmann-6d"):
        memory.fitting(block, 300 * 10**6)


def test_more_designs_a_question_are_more_points_and_more_answers():
    two, four = (tiny.blocks(methods=[name], queries=50)[0] for name in ("baseline", "best_of_4"))
    assert memory.sizes(two) == (6 + 100, 15 + 50, 6) and memory.sizes(four) == (6 + 200, 15 + 150, 6)
