"""Parameters and their place in the cube: round trips, lattices with both ends, likeness, bad spaces."""

import json
import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kappasharp.acquisition import discrete
from kappasharp.errors import InvalidTypeError, InvalidValueError, KappaSharpError, UnknownNameError
from kappasharp.model import points as model_points
from kappasharp.randomness import stream
from kappasharp.space.parameters import Categorical, Fixed, Float, Int
from kappasharp.space.space import Space, space

MIXED = {
    "kp": (0.2, 3.0),
    "ki": Float(1e-3, 2.0, log=True),
    "n": Int(1, 8),
    "mode": ["soft", "hard"],
    "shape": ["round", "square", "flat"],
    "site": Fixed("north"),
}
shares = st.floats(0.0, 1.0)


def numbers():
    """Parameters of every kind."""
    low = st.floats(1e-3, 10.0)
    return st.one_of(
        st.builds(lambda a, w, log: Float(a, a + w, log=log), low, st.floats(0.1, 100.0), st.booleans()),
        st.builds(lambda a, k: Int(a, a + k), st.integers(-50, 50), st.integers(1, 30)),
        st.builds(lambda a, k, s: Int(a, a + k * s, step=s), st.integers(1, 9), st.integers(1, 9), st.integers(1, 5)),
        st.builds(lambda k: Categorical(tuple(f"c{i}" for i in range(k))), st.integers(2, 6)),
    )


@given(numbers(), shares)
def test_a_value_survives_the_cube(part, u):
    value = part.draw(u)
    coordinates = part.encode(value)
    assert len(coordinates) == part.width and all(0.0 <= c <= 1.0 for c in coordinates)
    back = part.decode(coordinates)
    if part.values is None:
        assert math.isclose(back, value, rel_tol=1e-12, abs_tol=1e-12)
        assert part.low <= back <= part.high
    else:
        assert back == value and type(back) is type(value)
    assert part.check("x", value) == value and part.same(value, back)


@given(numbers(), st.lists(shares, min_size=6, max_size=6))
def test_any_point_of_the_cube_is_a_value(part, point):
    value = part.decode(point[: part.width])
    assert part.check("x", value) == value
    if part.values is not None:
        assert value in part.values


@given(numbers())
def test_both_ends_are_values(part):
    first, last = part.draw(0.0), part.draw(1.0)
    if isinstance(part, Categorical):
        assert (first, last) == (part.choices[0], part.choices[-1])
    else:
        assert math.isclose(first, part.low) and math.isclose(last, part.high)
        assert math.isclose(part.decode([0.0]), part.low) and math.isclose(part.decode([1.0]), part.high)


def test_every_value_of_a_lattice_has_the_same_share():
    part = Int(1, 8)
    drawn = Counter(part.draw((i + 0.5) / 8000) for i in range(8000))
    assert drawn == dict.fromkeys(range(1, 9), 1000)


def test_a_logarithmic_range_is_even_in_its_logarithm():
    part = Float(1e-3, 1e3, log=True)
    assert part.encode(1.0) == [0.5] and math.isclose(part.decode([0.25]), 10**-1.5)
    whole = Int(1, 1024, log=True)
    assert math.isclose(whole.encode(32)[0], 0.5) and whole.decode([0.5]) == 32


def test_a_step_that_does_not_meet_the_end_stops_before_it():
    assert Int(0, 10, step=3).values == (0, 3, 6, 9)
    assert Float(0.0, 1.0, step=0.3).values == pytest.approx((0.0, 0.3, 0.6, 0.9))
    assert Float(0.0, 1.0, step=0.1).values[-1] == 1.0 and len(Float(0.0, 1.0, step=0.1).values) == 11


def test_choices_of_two_take_one_coordinate_and_more_take_one_each():
    found = space(MIXED)
    assert found.dimensions == 1 + 1 + 1 + 1 + 3
    point = found.encode({"kp": 0.2, "ki": 2.0, "n": 8, "mode": "hard", "shape": "square", "site": "north"})
    assert point == [0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0]
    assert found.size == math.inf and space({"a": [1, 2], "b": Int(1, 4)}).size == 8


def test_the_lattice_knows_its_coordinates():
    groups = model_points.lattice(space(MIXED)).groups
    assert [group.at for group in groups] == [(2,), (3,), (4, 5, 6)]
    assert torch.equal(groups[2].levels, torch.eye(3))
    assert groups[0].levels[:, 0].tolist() == pytest.approx([i / 7 for i in range(8)])
    assert model_points.lattice(space({"x": (0.0, 1.0)})) is None


def test_a_point_is_decoded_to_where_the_search_would_round_it():
    """In plain Python and in tensors: the nearest value, and of two as near the first."""
    given = {"n": Int(1, 9, log=True), "s": Float(0, 1, step=0.1), "c": ["x", "y"], "d": ["p", "q", "r"]}
    found = space(given)
    even = torch.full((1, found.dimensions), 0.5)
    for point in torch.cat([torch.rand(200, found.dimensions, generator=stream(0, "decoded")).double(), even]):
        design = found.decode(point.tolist())
        assert found.encode(design) == discrete.nearest(model_points.lattice(found), point[None])[0].tolist()


def test_many_designs_are_encoded_as_each_is():
    found = space({"x": (-3.0, 7.0), "l": Float(0.01, 9.0, log=True), "n": Int(2, 10**4), "c": ["x", "y", "z"]})
    rows = torch.rand(200, found.dimensions, generator=stream(0, "encoded")).double()
    designs = [found.decode(row) for row in rows.tolist()]
    assert model_points.points(found, designs).tolist() == [found.encode(design) for design in designs]


def test_many_points_are_decoded_as_each_is():
    """To the last digit, at both ends of every parameter and beyond them too."""
    found = space({**MIXED, "s": Float(0.0, 0.3, step=0.1)})
    drawn = torch.rand(200, found.dimensions, generator=stream(0, "decoded")).double()
    rows = torch.cat([1.2 * drawn - 0.1, drawn.round()]).tolist()
    narrow = found.opened(found, {"kp": (0.5, 2.0, None), "shape": (None, None, ("round", "flat"))})
    for one in (found, narrow):
        assert one.decode_all(rows) == [one.decode(row) for row in rows]
        assert [list(design) for design in one.decode_all(rows[:2])] == [list(one.parameters)] * 2
    assert found.decode_all([]) == []


def test_many_points_are_decoded_by_torch_as_each_is():
    """Plain ranges all at once, others one by one; to the last digit and of the same type."""
    plain = space({"x": (-1.3, 1.7), "f": Fixed(3), "y": (0.1, 0.3), "z": (1, 7)})
    for found in (plain, space(MIXED), plain.opened(plain, {"x": (0.1, 0.3, None)})):
        drawn = torch.rand(200, found.dimensions, generator=stream(0, "decoded")).double()
        points = torch.cat([1.2 * drawn - 0.1, drawn.round(), 1.0 - drawn * 2.0**-52, drawn * 2.0**-1070])
        rows = model_points.rows(found, points)
        assert [tuple(design.values()) for design in found.decode_all(points.tolist())] == rows
        assert all(list(map(type, row)) == list(map(type, rows[0])) for row in rows)
        assert model_points.rows(found, points[:0]) == []


def test_a_fixed_value_is_in_every_design_and_in_no_coordinate():
    found = space(MIXED)
    design = found.draw([0.5] * 5)
    assert design["site"] == "north" and list(design) == list(MIXED)
    assert found.check({name: design[name] for name in design if name != "site"}) == design
    with pytest.raises(InvalidValueError, match="fixed at 'north'"):
        found.check(design | {"site": "south"})


def test_true_is_not_one():
    part = Categorical((True, 1, "1"))
    assert [part.encode(value).index(1.0) for value in (True, 1, "1")] == [0, 1, 2]


class TestSame:
    """Two values that cannot be told apart."""

    def test_in_the_parameters_units(self):
        part = Float(0.0, 10.0, jnd=0.5)
        assert part.same(1.0, 1.5) and not part.same(1.0, 1.51)

    def test_as_a_share_of_a_logarithmic_one(self):
        part = Float(1.0, 1000.0, log=True, jnd=0.1)
        assert part.same(100.0, 110.0) and part.same(110.0, 100.0) and not part.same(100.0, 111.0)

    def test_by_default_half_a_percent_of_the_range(self):
        assert Float(0.0, 10.0).same(1.0, 1.05) and not Float(0.0, 10.0).same(1.0, 1.06)

    def test_zero_tells_everything_apart(self):
        assert not Float(0.0, 10.0, jnd=0).same(1.0, 1.0001)

    def test_whole_numbers_and_choices_differ(self):
        assert not Int(1, 1000).same(1, 2) and Int(1, 1000, jnd=2).same(1, 3)
        assert not Categorical(("a", "b")).same("a", "b")

    def test_every_parameter_must_agree(self):
        found = space({"x": Float(0.0, 1.0, jnd=0.1), "y": Float(0.0, 1.0, jnd=0.1)})
        assert found.same({"x": 0.0, "y": 0.0}, {"x": 0.1, "y": 0.1})
        assert not found.same({"x": 0.0, "y": 0.0}, {"x": 0.0, "y": 0.2})


@given(numbers(), shares, shares)
def test_being_the_same_has_no_order_and_a_value_is_its_own(part, u, v):
    x, y = part.draw(u), part.draw(v)
    assert part.same(x, x) and part.same(x, y) == part.same(y, x)


@given(st.dictionaries(st.text("abcxyz", min_size=1), numbers(), min_size=1, max_size=4))
def test_a_space_is_its_definition(parameters):
    found = space(parameters)
    again = space(found.definition())
    assert again.parameters == found.parameters and again.definition() == found.definition()


BAD = [
    ({}, "a parameter to tune"),
    ({"x": Fixed(1)}, "a parameter to tune"),
    ({"x": (1.0, 1.0)}, r"`space\['x'\]`.*low < high, but got low=1, high=1"),
    ({"x": (2, 1)}, "low < high"),
    ({"x": (0.0, float("nan"))}, "finite number, but got nan"),
    ({"x": (0.0, math.inf)}, "finite number"),
    ({"x": ("a", 1)}, "must be a number, but got 'a'"),
    ({"x": (0, 1, 2)}, r"must be \(low, high\)"),
    ({"x": []}, "two choices or more"),
    ({"x": ["only"]}, "two choices or more"),
    ({"x": ["a", "b", "a"]}, "not have a choice twice"),
    ({"x": [[1], [2]]}, "text, a number, True, False or None"),
    ({"x": {"low": 0.0, "high": 1.0, "log": True}}, "zero has no logarithm"),
    ({"x": {"low": -1.0, "high": 1.0, "log": True}}, "low > 0"),
    ({"x": {"low": 0.0, "high": 1.0, "jnd": -0.1}}, "not be below 0"),
    ({"x": {"low": 0.0, "high": 1.0, "jnd": 1.0}}, "nobody could tell any two values apart"),
    ({"x": {"low": 0.0, "high": 1.0, "step": 0}}, "must be above 0"),
    ({"x": {"low": 0.0, "high": 1.0, "step": 2.0}}, "must fit in the range"),
    ({"x": {"low": 0.0, "high": 1.0, "step": 1e-9}}, "not have more than"),
    ({"x": {"type": "int", "low": 0.5, "high": 3}}, "whole number, but got 0.5"),
    ({"x": {"low": 0.0}}, "low and high"),
    ({"x": {"low": 0.0, "hihg": 1.0}}, "Did you mean 'high'"),
    ({"x": {"type": "flaot", "low": 0.0, "high": 1.0}}, "Did you mean 'float'"),
    ({"": (0.0, 1.0)}, "printable text"),
    ({"a\nb": (0.0, 1.0)}, "printable text"),
    ({1: (0.0, 1.0)}, "printable text"),
    ({"x": 3.0}, r"\(low, high\), a list of choices"),
    ([("x", (0, 1))], "mapping of names"),
]


@pytest.mark.parametrize(("given", "words"), BAD, ids=[str(i) for i in range(len(BAD))])
def test_a_malformed_space_is_refused_in_words(given, words):
    with pytest.raises(KappaSharpError, match=words):
        space(given)


def test_a_design_is_checked_in_words():
    found = space(MIXED)
    good = {"kp": 1.0, "ki": 0.1, "n": 3, "mode": "soft", "shape": "flat"}
    with pytest.raises(UnknownNameError, match="Did you mean 'mode'"):
        found.check(good | {"moda": "soft"})
    with pytest.raises(InvalidValueError, match="kp is missing"):
        found.check({"ki": 0.1, "n": 3, "mode": "soft", "shape": "flat"})
    with pytest.raises(InvalidValueError, match=r"`kp` must be from 0.2 to 3, but got 3.1"):
        found.check(good | {"kp": 3.1})
    with pytest.raises(InvalidValueError, match=r"`n` must be a whole number, but got 2\.5"):
        found.check(good | {"n": 2.5})
    with pytest.raises(InvalidValueError, match="one of \\['soft', 'hard'\\], but got 'medium'"):
        found.check(good | {"mode": "medium"})
    with pytest.raises(InvalidTypeError, match="`kp` must be a number, but got True"):
        found.check(good | {"kp": True})
    with pytest.raises(InvalidTypeError, match="mapping"):
        found.check([1.0])
    with pytest.raises(InvalidValueError, match="finite"):
        found.check(good | {"kp": math.nan})


def test_other_libraries_numbers_are_stored_as_pythons():
    found = space({"x": (np.float32(0), np.float64(1)), "n": Int(np.int64(1), 5)})
    design = found.check({"x": np.float64(0.5), "n": np.int32(4)})
    assert [type(value) for value in design.values()] == [float, int]
    assert isinstance(found, Space) and space(found) is found


@pytest.mark.parametrize(
    ("part", "entries"),
    [
        (Float(0, 1, jnd=np.float32(0.1)), {"jnd": 0.1}),
        (Float(0, 9, jnd=np.int64(1), step=np.int64(1)), {"jnd": 1, "step": 1}),
        (Float(np.float32(0.1), 1, log=np.True_, step=np.float32(0.25)), {"low": 0.1, "log": True, "step": 0.25}),
        (Int(0, 9, jnd=np.int64(2), step=np.int64(3)), {"jnd": 2, "step": 3}),
        (Categorical(list(np.array([True, False]))), {"choices": [True, False]}),
        (Categorical(list(np.array(["a", "b"]))), {"choices": ["a", "b"]}),
        (Categorical([np.float32(0.1), np.int64(2)]), {"choices": [0.1, 2]}),
        (Fixed(np.True_), {"value": True}),
        (Fixed(np.float32(0.1)), {"value": 0.1}),
    ],
)
def test_all_of_a_parameter_is_plain(part, entries):
    stored = json.dumps(space({"p": part, "x": (0.0, 1.0)}).definition())
    assert json.loads(stored)["p"].items() >= entries.items()


def test_numpys_true_is_true_and_not_one():
    either = Categorical([True, False])
    assert either.check("b", np.True_) is True and either.check("b", np.array(False)) is False
    with pytest.raises(InvalidValueError, match="one of"):
        either.check("b", np.int64(1))
    assert Categorical([1, True]).check("b", np.True_) is True and Categorical([True, 1]).index(np.int64(1)) == 1
    found = space({"x": (0.0, 1.0), "on": Fixed(True), "share": Fixed(0.1)})
    assert found.check({"x": 0, "on": np.True_, "share": np.float32(0.1)})["on"] is True
    with pytest.raises(InvalidTypeError, match="`x` must be a number"):
        found.check({"x": np.True_})


def test_a_float32_is_what_it_is_written_as():
    assert Float(0, 1, step=0.1).check("x", np.float32(0.3)) == 0.3
    assert Float(0, 0.1).check("x", np.float32(0.1)) == 0.1 and Float(0, 1).check("x", np.float16(0.7)) == 0.7
    assert Categorical([0.1, 0.2]).check("x", np.float32(0.2)) == 0.2
    assert Float(0, 1).check("x", np.longdouble(0.25)) == 0.25 and Float(0, 1).check("x", np.float64(1 / 3)) == 1 / 3
    assert Float(0, 1).check("x", torch.tensor(0.3, dtype=torch.float32, requires_grad=True)) == 0.3
    assert Int(1, 5).check("n", torch.tensor(3)) == 3 and Categorical([True, 1]).check("b", torch.tensor(True)) is True
    for bad in (np.float32("nan"), np.float32("inf"), np.float32(0.2), torch.tensor(torch.inf)):
        with pytest.raises(InvalidValueError, match="`x` must be"):
            Float(0, 0.1).check("x", bad)


def test_values_are_as_people_write_them():
    assert Float(0.0, 1.0, step=0.1).values == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    assert Float(0.0, 1.0, step=0.3).values == (0.0, 0.3, 0.6, 0.9)
    assert Float(0.5, 8.0, log=True).decode([1.0]) == 8.0 and Float(0.5, 8.0, log=True).decode([0.0]) == 0.5
    assert {type(value) for value in Float(1, 9, step=1).values} == {float}
    assert {type(value) for value in Int(1.0, 9.0, step=2.0).values} == {int}


def test_a_range_wider_than_numbers_reach_is_refused():
    with pytest.raises(InvalidValueError, match="a width that a number can hold"):
        space({"x": (-1e308, 1e308)})
