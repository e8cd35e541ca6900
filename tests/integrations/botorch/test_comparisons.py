"""Orders and choices as BoTorch's comparisons."""

import pytest
import torch

from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.integrations.botorch import KappaSharpGP, comparisons_of_choices, comparisons_of_orders


def test_an_order_is_its_neighbours_and_a_choice_the_best_against_the_others():
    assert comparisons_of_orders([[2, 0, 3], (1, 4)]).tolist() == [[2, 0], [0, 3], [1, 4]]
    assert comparisons_of_choices([[2, 0, 3], torch.tensor([1, 4])]).tolist() == [[2, 0], [2, 3], [1, 4]]
    assert comparisons_of_orders([]).shape == (0, 2)


def test_a_model_takes_them():
    points = torch.linspace(0.0, 1.0, 5, dtype=torch.float64).unsqueeze(-1)
    model = KappaSharpGP(points, comparisons_of_orders([[3, 2, 4], [3, 1, 0]]))
    assert int(model.utility.argmax()) == 3 and bool(model.converged)


@pytest.mark.parametrize("make", [comparisons_of_orders, comparisons_of_choices])
def test_what_is_no_order(make):
    for wrong in ([[0]], [[0, 0]], [[1, -1]]):
        with pytest.raises(InvalidValueError, match="two or more different indices"):
            make(wrong)
    for wrong in ([[0, 1.5]], [[True, 2]], [["a", 1]]):
        with pytest.raises(InvalidTypeError, match="lists of indices"):
            make(wrong)


@pytest.mark.parametrize("function", [comparisons_of_choices, comparisons_of_orders])
def test_what_is_no_list_of_answers_is_told(function):
    with pytest.raises(InvalidTypeError, match="must hold one list of indices for every answer"):
        function(None)
