"""The GPU's contract: the same questions as the CPU, step by step, and the same results over whole runs."""

import pytest
import torch

from tests.lab import on_gpu

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
STEP_TOLERANCE = 1e-6
# Where an ascent stops may differ so many times as much as it does here between designs that differ in the last digit.
# Runs of the paper's methods, whose questions that moves most, are compared question by question.
ROUNDINGS = 10
# More than that is another question.
QUESTION_MOVES = 1e-4
# The chance of a false alarm on three problems together is 0.3 %.
LEAST_P = 0.001


@needs_gpu
@pytest.mark.parametrize("problem", on_gpu.PROBLEMS)
def test_the_first_ten_questions_are_the_cpus(problem):
    assert on_gpu.step_by_step(problem, list(range(8))) <= STEP_TOLERANCE


@needs_gpu
@pytest.mark.parametrize("method", ["adaptive", "static", "connected"])
def test_so_is_every_question_of_the_papers_methods_from_the_same_answers(method):
    difference = on_gpu.each_step("ackley-8d", list(range(8)), method, "paper")
    assert difference.there <= max(STEP_TOLERANCE, ROUNDINGS * difference.rounded)


@needs_gpu
@pytest.mark.parametrize("problem", on_gpu.PROBLEMS)
def test_sixty_runs_end_as_the_cpus_do(problem):
    assert on_gpu.in_distribution(problem).p >= LEAST_P


def test_the_contract_holds_of_the_cpu_itself():
    """So that the functions above are run everywhere: a block on the CPU against its runs one by one."""
    assert on_gpu.step_by_step("hartmann-6d", [0, 1], device="cpu") <= STEP_TOLERANCE
    difference = on_gpu.each_step("hartmann-6d", [0, 1], "static", "paper", device="cpu")
    assert difference.there == 0.0 < difference.rounded < QUESTION_MOVES
    assert on_gpu.in_distribution("hartmann-6d", seeds=2, device="cpu", queries=6).p == 1.0
