"""Batches within a limit: nothing is lost or run twice, no batch is too large, and the longest go first."""

import pytest

from kappasharp.lab import memory
from kappasharp.lab.jobs import AS_THEY_ARE, Limit, cut, jobs, length
from tests.lab import tiny

BLOCKS = tiny.blocks(problems=["hartmann-6d", "robotpush-14d", "levy-20d"], seeds=7)


def keys(batches):
    return sorted(key for batch in batches for block in batch for key in block.keys)


def sizes(batches):
    return [sum(len(block.seeds) for block in batch) for batch in batches]


@pytest.mark.parametrize("runs", [None, 1, 3, 7, 10, 14, 1000])
def test_nothing_is_lost_and_no_batch_is_too_large(runs):
    batches = jobs(BLOCKS, Limit(runs))
    assert keys(batches) == sorted(key for block in BLOCKS for key in block.keys)
    assert max(sizes(batches)) <= (runs or 7)


def test_blocks_stay_as_they_are_without_a_limit():
    assert sorted(jobs(BLOCKS, AS_THEY_ARE), key=str) == sorted([(block,) for block in BLOCKS], key=str)


def test_the_longest_go_first():
    batches = jobs(BLOCKS, AS_THEY_ARE)
    assert [batch[0].problem for batch in batches] == ["robotpush-14d"] * 2 + ["levy-20d"] * 2 + ["hartmann-6d"] * 2
    (peer,) = tiny.blocks(methods=["botorch_0_18"], seeds=7)
    assert length(peer) > max(length(block) for block in BLOCKS)


def test_a_block_is_cut_into_nearly_equal_parts():
    (block,) = tiny.blocks(methods=["baseline"], seeds=60)
    pieces = cut(block, 25)
    assert [len(piece.seeds) for piece in pieces] == [20, 20, 20]
    assert [seed for piece in pieces for seed in piece.seeds] == list(range(60))
    assert cut(block, 60) == [block]


def test_a_budget_cuts_what_would_need_more():
    (block,) = tiny.blocks(methods=["baseline"], seeds=60, queries=50)
    each = memory.per_run(memory.sizes(block), block.preset_values)
    for runs in (1, 10, 60):
        budget = memory.IDLE + each * runs
        assert sizes(jobs([block], Limit(memory=budget))) == [runs] * (60 // runs)
    assert sizes(jobs([block, *BLOCKS[:1]], Limit(runs=4096, memory=memory.IDLE + each * 30)))[:2] == [30, 30]
