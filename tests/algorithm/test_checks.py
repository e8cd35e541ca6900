"""Bad input gets a sentence with the rule, the evidence and what to do; nothing is changed by it."""

import json
import math
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import kappasharp as ks
from kappasharp.acquisition.discrete import Group, Lattice
from kappasharp.algorithm import checks
from kappasharp.errors import InvalidTypeError, InvalidValueError, UnknownNameError
from kappasharp.inference import comparisons
from kappasharp.kernels.priors import PRIORS
from kappasharp.questions.comparisons import order_of
from kappasharp.settings import PRIOR_NAMES, Correction, Gate, Method, Placement, Query, Rule, Weights

POINTS = torch.linspace(0.0, 1.0, 12, dtype=torch.float64).reshape(4, 3)
PAIRS = torch.tensor([[0, 1], [2, 3]])


def changed(value, where=(1, 2)):
    points = POINTS.clone()
    points[where] = value
    return points


@pytest.mark.parametrize(
    ("points", "pairs", "words"),
    [
        (changed(math.nan), PAIRS, r"`points` must be finite, but got nan at index \(1, 2\)"),
        (changed(math.inf), PAIRS, "must be finite, but got inf"),
        (changed(1.5), PAIRS, r"unit cube, but got 1.5 at index \(1, 2\); scale each parameter"),
        (changed(-1e-9), PAIRS, "unit cube, but got -1e-09"),
        (torch.rand(3), PAIRS, r"shape \(…, n_points, dimensions\)"),
        (torch.empty(0, 3), PAIRS, r"none of them 0, but got \(0, 3\)"),
        (POINTS, torch.tensor([[0, 4]]), "indices from 0 to 3, but got a minimum of 0 and a maximum of 4"),
        (POINTS, torch.tensor([[-1, 2]]), "a minimum of -1"),
        (POINTS, torch.tensor([[0, 1], [2, 2]]), r"at index \(1,\) has point 2 on both sides; leave it out"),
        (POINTS, torch.tensor([0, 1]), r"must have the shape \(m, 2\)"),
        (POINTS, torch.tensor([[0, 1, 2]]), r"but got \(1, 3\)"),
        (POINTS.expand(2, 4, 3), PAIRS, r"must have the shape \(2, m, 2\)"),
    ],
)
def test_values_that_break_a_rule_are_named_with_their_place(points, pairs, words):
    for door in (ks.fit, ks.init):
        with pytest.raises(InvalidValueError, match=words):
            door(points, pairs)


@pytest.mark.parametrize(
    ("points", "pairs", "words"),
    [
        (POINTS.long(), PAIRS, r"float32 or float64 numbers, but got torch.int64; `points.double\(\)`"),
        (POINTS.half(), PAIRS, "but got torch.float16"),
        (
            POINTS,
            PAIRS.double(),
            r"integer indices \(winner, loser\), but got torch.float64; utilities are no comparisons",
        ),
        (POINTS.numpy() + 1j, PAIRS, "`points` must be real numbers, but got complex128"),
        ("many", PAIRS, "`points` must be a tensor or a nested list of numbers"),
        (POINTS, [[0, "b"]], "`comparisons` must be a tensor or a nested list of numbers"),
    ],
)
def test_wrong_kinds_are_refused_with_the_conversion(points, pairs, words):
    with pytest.raises(InvalidTypeError, match=words):
        ks.fit(points, pairs)


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(UnknownNameError, match=r"No method is called 'adaptve'\. Did you mean 'adaptive'\?"):
        ks.fit(POINTS, PAIRS, method="adaptve")
    with pytest.raises(UnknownNameError, match=r"No preset is called 'papr'\. Did you mean 'paper'\?"):
        ks.init(POINTS, PAIRS, preset="papr")
    with pytest.raises(UnknownNameError, match="There are: baseline, static"):
        ks.fit(POINTS, PAIRS, method="zzz")


@pytest.mark.parametrize(
    ("name", "value"), [("noise", 0.0), ("noise", math.nan), ("nugget", -1.0), ("threshold", -0.1)]
)
def test_settings_of_the_model_must_make_sense(name, value):
    with pytest.raises(InvalidValueError, match=f"`{name}` must be a finite number of 0.0 or more"):
        ks.init(POINTS, PAIRS, preset=replace(ks.PRESETS["modern"], **{name: value}))


# What the run-time type checks of these tests would catch first: tried as a user meets it, in a process without them.
MISUSES = {
    "ks.fit(X, P, preset=replace(modern, kernel='rbff'))": "No kernel is called 'rbff'. Did you mean 'rbf'?",
    "ks.fit(X, P, preset=replace(modern, curvature='averged'))": "No curvature is called 'averged'. Did you mean",
    "ks.fit(X, P, preset=replace(modern, eubo='improvment'))": "No eubo is called 'improvment'. Did you mean",
    "ks.fit(X, P, preset=replace(modern, priors='botorch_0_16'))": "No priors is called 'botorch_0_16'. Did you mean",
    "ks.fit(X, P, preset=replace(modern, maximizer='defalt'))": "No maximizer is called 'defalt'. Did you mean",
    "ks.fit(X, P, preset=replace(modern, noise='1'))": "`noise` must be a finite number of 0.0 or more",
    "ks.fit(X, P, method=['static'])": "No method is called ['static'].",
    "ks.init(X, P, method=replace(static, query='anchored'))": "`Method.query` must be a Query, but got 'anchored'",
    "ks.init(X, P, method=replace(static, correction='k'))": "`Method.correction` must be a Correction, but got 'k'",
    "ks.init(X, P, seeds=1.5)": "`seeds` must be a whole number or one per run, but got 1.5",
    "ks.init(X, P, seeds=None)": "`seeds` must be a whole number or one per run, but got None",
    "ks.init(X, P, seeds=[0.5])": "`seeds` must be whole numbers, but got [0.5]",
    "ks.tell(asked, question.points, 0)": "`question` must be the one that came with the state",
}


def test_misuse_meets_a_sentence_outside_the_tests_too():
    setting_up = (
        "import json, sys, torch, kappasharp as ks\nfrom dataclasses import replace\n"
        "X, P = torch.rand(4, 3), [[0, 1], [2, 3]]\nmodern, static = ks.PRESETS['modern'], ks.METHODS['static']\n"
        "question, asked, _ = ks.ask(ks.init(X, P))\nout = []\n"
        "for line in json.load(sys.stdin):\n"
        "    try:\n        eval(line)\n        out.append('no error')\n"
        "    except ks.KappaSharpError as error:\n        out.append(str(error))\n"
        "print(json.dumps(out))\n"
    )
    command = [sys.executable, "-c", setting_up]
    done = subprocess.run(command, input=json.dumps(list(MISUSES)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for said, wanted in zip(json.loads(done.stdout), MISUSES.values(), strict=True):
        assert said.startswith(wanted), said


def test_the_numbers_of_a_method_are_checked():
    static = ks.METHODS["static"]
    for gate in (replace(static.gate, ema_rate=5.0), replace(static.gate, threshold=math.nan)):
        with pytest.raises(InvalidValueError, match=r"`Gate\.\w+` must be a finite number from 0.0 to 1.0"):
            ks.init(POINTS, PAIRS, method=replace(static, gate=gate))
    with pytest.raises(InvalidValueError, match="target_exponent"):
        ks.fit(POINTS, PAIRS, method=replace(static, correction=replace(static.correction, target_exponent=1.0)))


def test_whole_numbers_of_any_kind_are_seeds():
    for seeds in (np.int64(3), torch.tensor([3]), [np.int32(3)], range(3, 4)):
        assert checks.seeds.__wrapped__(seeds, 1) == (3,)


def test_answers_go_with_the_state_of_their_question_once():
    start = ks.init(POINTS, PAIRS)
    question, state, _ = ks.ask(start)
    with pytest.raises(InvalidValueError, match="must be given the state that `ask` returned"):
        ks.tell(start, question, 0)
    with pytest.raises(InvalidValueError, match="whose question is still open"):
        ks.ask(state)
    after = ks.tell(state, question, 0)
    with pytest.raises(InvalidValueError, match="without an open question"):
        ks.tell(after, question, 0)


def test_a_state_does_not_share_memory_with_the_caller():
    mine = POINTS.clone()
    state = ks.init(mine, PAIRS)
    mine.zero_()
    assert torch.equal(state.points[0], POINTS)


def test_numbers_that_need_an_inverse_of_a_singular_k_are_nan():
    X = torch.tensor([[0.3, 0.7]], dtype=torch.float64).repeat(10, 1)
    pairs = [[i, i + 1] for i in range(9)]
    found = ks.fit(X, pairs, preset=replace(ks.PRESETS["modern"], nugget=0.0)).diagnostics()
    assert math.isnan(float(found.condition_before))
    assert int(found.rank) == 9


def test_seeds_and_winners_must_fit_the_runs():
    with pytest.raises(InvalidValueError, match="one number per run, but got 2 for 1 runs"):
        ks.init(POINTS, PAIRS, seeds=[1, 2])
    question, state, _ = ks.ask(ks.init(POINTS, PAIRS))
    for winner in (3, -1, 0.5, [0, 1]):
        with pytest.raises(InvalidValueError, match="`answer` must hold 0, 1 or 2"):
            ks.tell(state, question, winner)
    assert ks.tell(state, question, 1).comparisons.shape[1] == len(PAIRS) + 1


def test_a_tie_needs_a_threshold_and_a_mask_of_the_right_shape():
    with pytest.raises(InvalidValueError, match="A tie needs a preset with a threshold above 0"):
        ks.fit(POINTS, PAIRS, ties=[True, False])
    with pytest.raises(InvalidValueError, match=r"mask of the shape \(2,\)"):
        ks.fit(POINTS, PAIRS, ties=[True])
    question, state, _ = ks.ask(ks.init(POINTS, PAIRS))
    with pytest.raises(InvalidValueError, match="A tie needs a preset"):
        ks.tell(state, question, 2)


def test_predictions_are_checked_like_the_data():
    model = ks.fit(POINTS, PAIRS)
    with pytest.raises(InvalidValueError, match=r"must have the shape \('k', 3\)"):
        model.posterior(torch.rand(5, 2))
    with pytest.raises(InvalidValueError, match="unit cube"):
        model.contrast(POINTS, POINTS + 1)
    with pytest.raises(InvalidValueError, match="same number of rows, but got 4 and 1"):
        model.contrast(POINTS, POINTS[:1])


def test_lists_and_single_precision_come_in_as_they_are():
    from_list = ks.fit(POINTS.tolist(), PAIRS.tolist())
    assert torch.equal(from_list.utility, ks.fit(POINTS, PAIRS).utility)
    assert ks.fit(POINTS.float(), PAIRS).utility.dtype == torch.float32


@pytest.mark.parametrize("weights", [Weights.SPECTRAL, Weights.ALIGNED, Weights.PRIOR_WEIGHTED])
def test_what_is_defined_in_the_map_alone_is_refused_elsewhere(weights):
    rule = Rule.VALIDATED if weights is Weights.PRIOR_WEIGHTED else Rule.ALWAYS
    method = Method(correction=Correction(weights, Placement.COVARIANCE), gate=Gate(rule))
    with pytest.raises(InvalidValueError, match=f"placement.*{weights.name} in COVARIANCE, gate {rule.name}"):
        ks.init([[0.1], [0.9]], [[0, 1]], method=method)


@pytest.mark.parametrize(
    ("method", "error", "words"),
    [
        (Method(designs=1), InvalidValueError, "designs.*2"),
        (Method(designs=99), InvalidValueError, "designs"),
        (Method(designs=True), InvalidTypeError, "whole number"),
        (Method(designs=3, query=Query.INCUMBENT), InvalidValueError, "designs.*INCUMBENT"),
    ],
)
def test_how_many_designs_a_question_has_is_checked(method, error, words):
    with pytest.raises(error, match=words):
        ks.init([[0.1], [0.9]], [[0, 1]], method=method)


@pytest.mark.parametrize("method", ["choice_4", "order_4", "best_of_3"])
def test_several_designs_stand_on_the_lattice(method):
    levels = torch.linspace(0.0, 1.0, 5, dtype=torch.float64).unsqueeze(-1)
    state = ks.init([[0.25, 0.3], [0.75, 0.1]], [[0, 1]], method=method)
    question, _, _ = ks.ask(replace(state, lattice=Lattice((Group((0,), levels),))))
    assert bool(torch.isin(question.points[..., 0], levels).all())


def test_a_slider_goes_in_steps_on_a_lattice_and_needs_a_free_coordinate():
    levels = torch.linspace(0.0, 1.0, 5, dtype=torch.float64).unsqueeze(-1)
    state = ks.init([[0.25, 0.3], [0.75, 0.1]], [[0, 1]], method="slider")
    question, _, _ = ks.ask(replace(state, lattice=Lattice((Group((0,), levels),))))
    assert bool(torch.isin(question.points[..., 0], levels).all())
    _, opened, _ = ks.ask(replace(state, lattice=Lattice((Group((0,), levels),))))
    after = ks.tell(opened, question, 0.4)
    assert bool(torch.isin(after.points[..., 2:, 0], levels).all())
    with pytest.raises(InvalidValueError, match="no line to move along"):
        ks.ask(replace(state, lattice=Lattice((Group((0,), levels), Group((1,), levels)))))


ORDERS = [[2, [0, 3], 1], [0, 1, 2, 3], [[0, 1, 2, 3]], [1, 3], [3], [[1, 2]], [(0, torch.tensor(2)), (1, 3)]]


def asked_for_an_order(runs):
    preset = replace(ks.PRESETS["modern"], threshold=0.7)
    start = torch.tensor([[0.25, 0.3], [0.75, 0.1]], dtype=torch.float64).expand(runs, 2, 2)
    state = ks.init(start, [[[0, 1]]] * runs, method="order_4", preset=preset)
    question, state, _ = ks.ask(state)
    return question, state


def test_an_order_may_have_equals_and_name_some_in_every_run_others():
    """What a study makes of the same answer."""
    question, state = asked_for_an_order(len(ORDERS))
    told = ks.tell(state, question, ORDERS)
    for run, answer in enumerate(ORDERS):
        said = order_of(
            4, [[int(one) for one in group] if isinstance(group, list | tuple) else group for group in answer]
        )
        assert (told.comparisons[run, 1:] - 2).tolist() == [list(pair) for pair in said.pairs]
        assert told.ties[run].tolist() == [False, *said.ties]
        expected = comparisons.detail([said])
        assert torch.equal(told.detail.noise[run, 1:, 1:], expected.noise[0])
        assert torch.equal(told.detail.weight[run, 1:], expected.weight[0])
    _, _, info = ks.ask(told)
    assert info.status == ("ok",) * len(ORDERS)


def test_one_order_counts_for_all_runs():
    question, state = asked_for_an_order(2)
    for one, each in [
        ([2, [0, 3], 1], [[2, [0, 3], 1]] * 2),
        ([1, 0, 3, 2], torch.tensor([[1, 0, 3, 2]] * 2)),
        ([1, 0], torch.tensor([1, 0])),
        (np.array([3]), torch.tensor([[3], [3]])),
    ]:
        first, second = (ks.tell(state, question, answer) for answer in (one, each))
        assert torch.equal(first.comparisons, second.comparisons)
        assert first.ties is second.ties is None or torch.equal(first.ties, second.ties)


@pytest.mark.parametrize(
    "wrong",
    [
        [0, 0, 1, 2],
        [0, 4],
        [],
        [[]],
        [0, []],
        [0, "a"],
        [0, [1, [2]]],
        [True, 1],
        [0.5, 1],
        [[0, 1], [2, 3]],
        torch.tensor([0.5, 1.0]),
    ],
)
def test_what_is_no_order_is_refused(wrong):
    question, state = asked_for_an_order(1)
    with pytest.raises(
        InvalidValueError, match="numbers from 0 to 3, none of them twice, best first and equals in a list, for all"
    ):
        ks.tell(state, question, wrong)


def test_a_list_of_lists_has_an_order_for_each_run():
    question, state = asked_for_an_order(1)
    assert ks.tell(state, question, [[0, 1, 2, 3]]).ties is None
    assert ks.tell(state, question, [[[0, 1, 2, 3]]]).ties.tolist() == [[False, True, True, True]]


def test_equals_need_a_threshold():
    question, state, _ = ks.ask(ks.init([[0.25, 0.3], [0.75, 0.1]], [[0, 1]], method="order_4", preset="paper"))
    with pytest.raises(InvalidValueError, match="A tie needs a preset with a threshold above 0"):
        ks.tell(state, question, [0, [1, 2], 3])


@pytest.mark.parametrize("method", list(ks.METHODS))
def test_every_method_can_be_fitted_without_an_answer(method):
    found = ks.fit([[0.1, 0.2], [0.8, 0.4]], [], method=method)
    assert found.status == ("ok",)
    assert torch.equal(found.utility, torch.zeros(2, dtype=torch.float64))


def test_places_are_exact_and_seconds_are_checked():
    slider = ks.init([[0.25, 0.3], [0.75, 0.1]], [[0, 1]], method="slider")
    question, slider, _ = ks.ask(slider)
    first, second = question.points[0]
    told = ks.tell(slider, question, 0.1).points[0, 2]
    assert torch.equal(told, ks.tell(slider, question, torch.tensor(0.1, dtype=torch.float64)).points[0, 2])
    assert torch.allclose(told, first + 0.1 * (second - first), rtol=0, atol=1e-15)
    for wrong in (1.1, True, [True], float("nan")):
        with pytest.raises(InvalidValueError, match=r"a place in \[0, 1\]"):
            ks.tell(slider, question, wrong)
    question, state, _ = ks.ask(ks.init([[0.25, 0.3], [0.75, 0.1]], [[0, 1]]))
    for wrong in (-1, [1.0, 2.0], True, float("inf")):
        with pytest.raises(InvalidValueError, match="`seconds` must be a number of 0 or more"):
            ks.tell(state, question, 0, seconds=wrong)
    with pytest.raises(InvalidTypeError, match="seconds"):
        ks.tell(state, question, 0, seconds="long")


def test_frames_reversed_arrays_and_those_that_must_not_be_written_to_are_taken():
    expected = ks.fit(POINTS, PAIRS).utility
    frozen = POINTS.numpy().copy()
    frozen.setflags(write=False)
    given = [(pd.DataFrame(POINTS.numpy()), pd.DataFrame(PAIRS.numpy())), (frozen, PAIRS.numpy()),
             (POINTS.flip(0).numpy()[::-1], PAIRS)]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for points, pairs in given:
            assert torch.equal(ks.fit(points, pairs).utility, expected)


@pytest.mark.parametrize(
    ("change", "words"),
    [(10.0, r"`question\.points` must lie in the unit cube"), (torch.nan, r"`question\.points` must be finite")],
)
def test_a_question_in_units_of_ones_own_is_refused(change, words):
    question, state, _ = ks.ask(ks.init(POINTS, PAIRS))
    with pytest.raises(InvalidValueError, match=words):
        ks.tell(state, question._replace(points=question.points * change), 0)


def test_what_is_no_state_and_no_answer_is_said():
    question, state, _ = ks.ask(ks.init(POINTS, PAIRS))
    with pytest.raises(InvalidTypeError, match=r"`answer` must be .* but got 'a'"):
        ks.tell(state, question, "a")
    # In tests the types of all arguments are checked before.
    with pytest.raises(InvalidTypeError, match="`state` must be one that"):
        checks.state(None)


def test_the_names_of_priors_that_are_checked_without_torch_are_those_of_the_densities():
    assert tuple(PRIORS) == PRIOR_NAMES
