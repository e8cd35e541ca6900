"""Limits between parameters: what they mean against Python's own reading, how far, hostile texts, impossible ones."""

import math
import pickle
import warnings

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch.quasirandom import SobolEngine

from kappasharp.errors import InvalidTypeError, InvalidValueError, KappaSharpError, UnknownNameError
from kappasharp.model import limits, points
from kappasharp.model.limits import BROKEN, EDGE, AllowedDesigns, check, feasible_share, nearest, parse, parse_all
from kappasharp.space import limits as space_limits
from kappasharp.space.parameters import Fixed, Float, Int
from kappasharp.space.space import space

SPACE = space({
    "a": (0.0, 1.0),
    "b": (0.0, 1.0),
    "ki": Float(1e-3, 10.0, log=True),
    "n": Int(1, 9),
    "step": Float(0.0, 1.0, step=0.25),
    "material": ["oak", "ash", "steel"],
    "frame": ["ash", "steel"],
    "glazing": [1, 2, 4],
    "lit": [True, False],
    "odd": ["auto", 1, True, None],
    "site": Fixed("north"),
    "height": Fixed(2.5),
})  # fmt: skip
TEXTS = [
    "a + b <= 1",
    "0.1 <= a / ki <= 10",
    "not (material == 'oak' and glazing > 3)",
    "a * n >= 2 and not (material == 'oak' or b < 0.5)",
    "material == frame",
    "material != frame or lit",
    "not lit and site == 'north'",
    "material in ('oak', 'ash') and n not in [1, 2, 3]",
    "n % 2 == 0",
    "n < 3 or n > 7",
    "not 2 < n <= 5",
    "abs(a - b) < 0.2",
    "max(a, b, step) - min(a, b) <= sqrt(ki) + exp(-n)",
    "height * a - 2 ** n / 100 >= log(ki)",
    "a - b - step + ki - 0.5 <= -+-1 ** 2",
    "glazing == n",
    "glazing in (1, 4)",
    "lit == True and odd != 1",
    "odd == None or odd == True",
    "'oak' != material",
]


def draw(count, seed=1):
    shares = SobolEngine(len(SPACE.tuned), scramble=True, seed=seed).draw(count, dtype=torch.float64)
    return [SPACE.draw(row.tolist()) for row in shares]


class Told:
    """A choice that is not equal to a truth value because Python says True == 1."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        other = other.value if isinstance(other, Told) else other
        return isinstance(other, bool) == isinstance(self.value, bool) and self.value == other

    def __bool__(self):
        return bool(self.value)

    __hash__ = None


FUNCTIONS = {"abs": abs, "min": min, "max": max, "sqrt": math.sqrt, "exp": math.exp, "log": math.log}


def by_python(text, design):
    """What Python itself says of a text that we wrote ourselves."""
    values = {name: Told(v) if name in ("odd", "lit") else v for name, v in design.items()}
    return bool(eval(text, {"__builtins__": {}} | FUNCTIONS, values))


@pytest.mark.parametrize("text", TEXTS)
def test_a_limit_means_what_python_says(text):
    limit, designs = parse(text, SPACE), draw(300)
    wanted = [by_python(text, design) for design in designs]
    assert [limit.holds(design) for design in designs[:40]] == wanted[:40]
    violation = limit.violation(designs)
    assert violation.dtype == torch.float64
    assert (violation == 0.0).tolist() == wanted
    assert bool((violation >= 0.0).all()) and len(set(wanted)) == 2, "the example must hold here and not there"


@pytest.mark.parametrize("text", TEXTS)
def test_points_of_the_cube_break_a_limit_as_their_designs_do(text):
    """Rounding of exp is the one difference, far below where any of these designs is at the edge."""
    limit = parse(text, SPACE)
    X = SobolEngine(SPACE.dimensions, scramble=True, seed=3).draw(240, dtype=torch.float64)
    X[0], X[1] = 0.0, 1.0
    wanted = limit.violation([SPACE.decode(row.tolist()) for row in X])
    found = AllowedDesigns(SPACE, (limit,))(X.reshape(2, 3, 40, -1))
    assert found.shape == (2, 3, 40)
    torch.testing.assert_close(found.reshape(-1), wanted, rtol=1e-9, atol=1e-9)
    assert bool(((found.reshape(-1) == 0.0) == (wanted == 0.0)).all())


def test_points_between_two_values_go_to_the_one_that_decode_takes():
    one = space({"n": Int(1, 9, log=True), "c": ["x", "y"], "s": Float(0, 1, step=0.1)})
    limits = tuple(parse(text, one) for text in ("n <= 4", "c == 'x'", "s < 0.5"))
    levels = points.levels(one.tuned["n"])[:, 0]
    middles = (levels[1:] + levels[:-1]) / 2
    X = torch.stack([middles, torch.full((8,), 0.5), torch.linspace(0, 1, 8)], -1)
    wanted = torch.stack([limit.violation([one.decode(x.tolist()) for x in X]) for limit in limits]).sum(0)
    assert AllowedDesigns(one, limits)(X).tolist() == wanted.tolist()


def test_the_gap_is_in_units_of_the_spread():
    """a + b is triangular on [0, 2]: its middle half is 2 − √2 wide. Units of the parameters do not matter."""
    wide = space({"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (0.0, 1000.0), "d": (0.0, 1000.0)})
    small, large = parse("a + b <= 1", wide), parse("c + d <= 1000", wide)
    design = {"a": 0.9, "b": 0.4, "c": 900.0, "d": 400.0}
    assert small.violation([design]).item() == pytest.approx(0.3 / (2 - math.sqrt(2)), rel=0.05)
    assert large.violation([design]).item() == pytest.approx(small.violation([design]).item(), rel=0.05)
    assert parse("a > 0.9", wide).violation([design]).item() == EDGE
    assert parse("a >= 0.9", wide).violation([design]).item() == 0.0
    assert parse("a != 0.9", wide).violation([design]).item() == 1.0


def test_rounding_breaks_nothing():
    tenths = space({"a": Float(0, 1, step=0.1), "b": Float(0, 1, step=0.1)})
    assert 0.1 + 0.2 > 0.3
    assert parse("a + b <= 0.3", tenths).holds({"a": 0.1, "b": 0.2})
    assert parse("a + b == 0.3", tenths).holds({"a": 0.1, "b": 0.2})
    assert not parse("a + b <= 0.3", tenths).holds({"a": 0.2, "b": 0.2})


@pytest.mark.parametrize(
    "text",
    ["1 / a > 3", "1 / (1 / a) < 3", "a / a == a / a", "(0 / a) ** 0 == 1", "sqrt(a - 1) >= 0", "log(a) < 3",
     "log(-1 - a) < 3", "exp(1000 + a) > 1", "not exp(1000 + a) < 1", "(-2 - a) ** 0.5 >= -9", "n % a < 5",
     "max(1 / a, 3) >= 3", "abs(1 / a) ** 0 <= 1", "1e308 * (10 + a) > -1", "not (1 / a < 3)"],
)  # fmt: skip
def test_what_cannot_be_computed_is_broken(text):
    one = space({"a": Int(0, 3), "n": Int(1, 2)})
    limit = parse(text, one)
    assert limit.violation([{"a": 0, "n": 1}]).item() == BROKEN and not limit.holds({"a": 0, "n": 1})


def test_what_is_broken_twice_is_broken_as_much():
    limit = parse("1 / a > 3 and log(a) < 1", space({"a": Int(0, 3)}))
    assert limit.violation([{"a": 0}]).item() == BROKEN


def test_or_may_guard_what_cannot_be_computed():
    one = space({"a": Int(0, 3)})
    assert parse("a == 0 or 1 / a <= 1", one).violation([{"a": i} for i in range(4)]).tolist() == [0.0] * 4


def test_odd_names():
    odd = space({
        "wall height": (0, 1), "lambda": (0, 1), "a-b": (0, 1), "größe": (0, 1), "tick`s": (0, 1), "max": (0, 1),
        "quoted0": (0, 1), "it's": ["x`y`", "z"], "ﬁ": (0, 1),
    })  # fmt: skip
    design = dict.fromkeys(odd.parameters, 0.5) | {"it's": "x`y`", "wall height": 0.2}
    texts = ["`wall height` <= 0.3", "2 * `lambda` <= `lambda` or `a-b` < 1", "größe < 1", "`tick``s` < 1", "fi < 1"]
    texts += ["max(max, `max`) < 1", "`wall height` < quoted0", "`it's` == 'x`y`'", "ﬁ < 1", "`ﬁ` < 1"]
    assert [text for text in texts if not parse(text, odd).holds(design)] == []
    assert not parse("`wall height` > quoted0", odd).holds(design)
    with pytest.raises(InvalidValueError, match="in backquotes: `wall height`"):
        parse("wall height <= 1", odd)
    with pytest.raises(InvalidValueError, match="in backquotes: `lambda`"):
        parse("lambda <= 1", odd)
    with pytest.raises(InvalidValueError, match="may be any of 'fi', 'ﬁ': write it in backquotes"):
        parse("ﬁ < 1", space({"fi": (0, 1), "ﬁ": (0, 1)}))


HOSTILE = {
    "__import__('os').system('true')": "must be true or false",
    "__import__('os') == 1": "No function of a limit is called '__import__'",
    "a.real <= 1": "'a.real' in .* is none of these",
    "a[0] <= 1": r"'a\[0\]'",
    "(lambda: a)() <= 1": "none of these",
    "[a for a in (1, 2)] == 1": "none of these",
    "a if b else 1": "must be true or false",
    "(a := 3) <= 1": "none of these",
    "f'{a}' == material": "none of these|is compared with",
    "min(*[a]) <= 1": "two or more",
    "max(a, b, key=a) <= 1": "none of these",
    "max(a) <= 1": "must have two or more values",
    "sqrt(a, b) <= 1": "must have 1 value",
    "9**9**9 >= a": "exponent beyond 100",
    "a ** 101 <= 1": "exponent beyond 100",
    "a ** -(10 ** 3) <= 1": "exponent beyond 100",
    "1 / 0 <= a": "'1 / 0' in .* has no finite value",
    "1e999 <= a": "has no finite value",
    "1" + "0" * 400 + " <= a": "has no finite value",
    "1j <= a": "none of these",
    "b'x' == material": "none of these|compare",
    "... <= a": "none of these",
    "a <= True": "has no order",
    "a + lit <= 1": "`lit` is a choice",
    "a ^ 2 <= 1": r"'a \^ 2' in .* is none of these; a power is written \*\*",
    "a & b <= 1": "is none of these; write `and`",
    "(a < 1) & (b < 1)": "must be true or false: a comparison has; write `and`",
    "~(a < 1)": "must be true or false: a comparison has; write `not`",
    "a => 1": "That sign is written >=",
    "a =< 1": "That sign is written <=",
    "a // b <= 1": "only / divides",
    "a is b": "write ==",
    "~n == 3": "none of these",
    "a + b": "must be true or false",
    "a": "must be true or false",
    "a and b": "must be true or false",
    "True": "must be true or false",
    "a < 1, b < 1": "must be true or false",
    "material < 'oak'": "'material' in .* has no order",
    "material + 1 <= 2": "`material` is a choice",
    "material == 'oka'": r"`material` must be one of \['oak', 'ash', 'steel'\], but got 'oka'",
    "material in ['oak', 3]": "must be one of",
    "material in 'oak'": "must be a list such as",
    "material == a": "is compared with a choice",
    "a == 'oak'": "`a` is a number",
    "'oak' == 'oak'": "a limit compares parameters",
    "odd <= 1": "has no order",
    "lit == 1": "`lit` must be one of",
    "c + b <= 1": "No parameter is called 'c'. There are: a, b",
    "materail == 'oak'": "Did you mean 'material'",
    "a + b = 1": "compared by ==, not by =",
    "a + b => 1": "is none: ",
    "": "is none: ",
    "a <=": "is none: ",
    "a <= 1; b": "is none: ",
    "import os": "is none: ",
    "a <= 1\x00": "is none: ",
    "a <= '\\d'": "is none: ",
    "`a <= 1": "is none: ",
    "`` <= 1": "is none: ",
    "1 <= 2": "must name a parameter, but '1 <= 2' names none. There are: a, b",
    "a + b == 1": "wants an exact value of `a`",
    "not a != 0.5": "wants an exact value of `a`",
    "(" * 300 + "a" + ")" * 300 + "<= 1": "is none: |nested",
    "-" * 3000 + "a <= 1": "nested at most 40 deep",
    "not " * 900 + "a <= 1": "nested at most 40 deep",
    "abs(" * 45 + "a" + ")" * 45 + "<= 1": "nested at most 40 deep",
    "+".join(["a"] * 1500) + "<= 1": "at most 2000 words",
    "a" * 4001: "at most 4000 characters, but got 4001",
}


@pytest.mark.parametrize(("text", "sentence"), HOSTILE.items(), ids=[text[:24] for text in HOSTILE])
def test_everything_else_is_a_sentence(text, sentence):
    with pytest.raises(KappaSharpError, match=f"(?s){sentence}") as found:
        parse(text, SPACE)
    said = str(found.value)
    assert "quoted0" not in said and len(said) < 600


@pytest.mark.parametrize("given_", [None, 3, b"a < 1", ["a < 1"]])
def test_a_limit_is_a_text(given_):
    with pytest.raises(InvalidTypeError, match="must be a text such as"):
        parse(given_, SPACE)


WORDS = st.sampled_from([
    "a", "b", "n", "ki", "material", "lit", "'oak'", "1", "0", "2.5", "1e300", "(", ")", "+", "-", "*", "/", "**", "%",
    "<=", "<", "==", "!=", ">", " and ", " or ", " not ", " in ", "abs(", "min(", ",", "sqrt(", "log(", "`", "[", "]",
    ".", "=", " lambda ", ":", " if ", " else ", "site", "height", "None", "True", "{", "}", "'", '"', "\\", "\n", "#",
    "é", "_",
])  # fmt: skip


@given(st.one_of(st.lists(WORDS, max_size=14).map("".join), st.text(max_size=40)))
@example("a<1#b")
@example("a<1 in[1]")
def test_any_text_is_a_limit_or_a_sentence(text):
    try:
        limit = parse(text, SPACE)
    except KappaSharpError:
        return
    violation = limit.violation(draw(16))
    assert violation.shape == (16,) and bool((violation >= 0.0).all()) and bool((violation <= BROKEN).all())


numbers = st.recursive(
    st.sampled_from(["a", "b", "n", "ki", "1", "2.5", "0"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda x: f"abs({x})"),
        st.tuples(inner, inner).map(lambda t: f"min({t[0]}, {t[1]})"),
    ),
    max_leaves=6,
)
comparisons = st.tuples(numbers, st.sampled_from(["<", ">", "<=", ">="]), numbers).map(" ".join)
conditions = st.recursive(
    st.one_of(comparisons, st.sampled_from(["material == 'oak'", "lit", "n == 3", "frame != material"])),
    lambda inner: st.one_of(
        inner.map(lambda x: f"not ({x})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"(({t[0]}) {t[1]} ({t[2]}))"),
    ),
    max_leaves=5,
)


@given(conditions)
def test_any_condition_means_what_python_says(text):
    try:
        limit = parse(text, SPACE)
    except InvalidValueError as error:
        assert "names none" in str(error)
        return
    designs = draw(24)
    assert (limit.violation(designs) == 0.0).tolist() == [by_python(text, design) for design in designs]


def test_fixed_values_may_be_left_out_and_others_may_not():
    assert parse("a <= height and site == 'north'", SPACE).holds({"a": 0.5})
    assert not parse("a > height", SPACE).holds({"a": 0.5})
    assert not parse("a <= 1 and site == 'south'", SPACE).holds({"a": 0.5})
    with pytest.raises(InvalidValueError, match="b is missing"):
        parse("a + b <= 1", SPACE).holds({"a": 0.5})
    with pytest.raises(InvalidValueError, match="`material` must be one of"):
        parse("material == 'oak'", SPACE).holds({"material": "glass"})
    with pytest.raises(InvalidTypeError, match="`a` must be a number"):
        parse("a <= 1", SPACE).holds({"a": "much"})


def test_a_share_of_designs_keeps_all_limits():
    two = space({"a": (0.0, 1.0), "b": (0.0, 1.0), "c": ["x", "y", "z"]})
    limits = [parse("a + b <= 1", two), parse("a >= b and c != 'x'", two)]
    assert feasible_share(limits[:1], two) == pytest.approx(1 / 2, abs=0.005)
    assert feasible_share(limits, two) == pytest.approx(1 / 4 * 2 / 3, abs=0.005)
    assert feasible_share([], two) == 1.0


@pytest.mark.parametrize(
    "texts",
    [["abs(a - 0.123456) <= 1e-6", "abs(b - a) <= 1e-6"], ["n == 17 and m == 23 and k == 5", "a >= 0.999"],
     ["n + m + k == 90", "c == 'z'"], ["a * b * s >= 0.99"], []],
)  # fmt: skip
def test_a_design_is_found_where_few_keep_the_limits(texts):
    some = space({"a": (0, 1), "b": (0, 1), "s": (0, 1), "n": Int(1, 30), "m": Int(1, 30), "k": Int(1, 30),
                  "c": ["x", "y", "z"]})  # fmt: skip
    limits = parse_all(texts, some)
    design, miss = nearest(limits, some)
    assert miss == 0.0 and all(limit.holds(design) for limit in limits)
    assert not limits or feasible_share(limits, some) < 0.002


def test_limits_that_no_design_meets():
    two = space({"a": (0.0, 1.0), "b": (0.0, 1.0), "c": ["x", "y"]})
    with pytest.raises(InvalidValueError, match=r"meets 'a \+ b <= -1': not among 4,096 .* nearest was a=0, b=0"):
        parse_all("a + b <= -1", two)
    with pytest.raises(InvalidValueError, match=r"all of 'a <= 0\.4', 'a >= b', 'b > 0\.5' together"):
        parse_all(["a <= 0.4", "a >= b", "b > 0.5"], two)
    with pytest.raises(InvalidValueError, match="meets \"c == 'x' and c == 'y'\""):
        parse_all(["a <= 0.5", "c == 'x' and c == 'y'"], two)
    with pytest.raises(InvalidTypeError, match="must be a list of texts"):
        parse_all(3, two)
    check([], two)


def test_a_limit_travels():
    """To worker processes, with its text as what it is known by."""
    limit = parse("a + b <= 1 and material in ('oak', 'ash')", SPACE)
    there = pickle.loads(pickle.dumps(AllowedDesigns(SPACE, (limit,))))
    X = torch.rand(50, SPACE.dimensions, generator=torch.Generator().manual_seed(1))
    assert there(X).tolist() == AllowedDesigns(SPACE, (limit,))(X).tolist()
    assert there.constraints == (limit,) and repr(limit) == 'Constraint(text="' + limit.text + '")'


def test_python_s_own_warnings_do_not_reach_the_user():
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with pytest.raises(InvalidValueError, match="is none: invalid escape sequence"):
            parse("material == '\\d'", SPACE)
    assert heard == []


def test_a_long_sum_is_not_deep():
    many = space({f"w{i}": (0.0, 1.0) for i in range(400)})
    limit = parse(" + ".join(many.parameters) + " <= 200", many)
    assert limit.holds(dict.fromkeys(many.parameters, 0.25)) and not limit.holds(dict.fromkeys(many.parameters, 0.75))


def test_nothing_is_drawn_twice(monkeypatch):
    """A search asks thousands of points a time: parsing is once, and a call computes columns that are needed only."""
    limit = parse("a + b <= 1", SPACE)
    monkeypatch.setattr(space_limits, "read", None)
    monkeypatch.setattr(limits, "_sobol", None)
    seen = []
    inner = limits._of_levels
    monkeypatch.setattr(limits, "_of_levels", lambda part, at: seen.append(part) or inner(part, at))
    assert AllowedDesigns(SPACE, (limit,))(torch.zeros(5000, SPACE.dimensions)).shape == (5000,) and seen == []


def test_unknown_names_are_said_as_everywhere():
    with pytest.raises(UnknownNameError, match="No parameter is called 'aa'"):
        parse("aa <= 1", SPACE)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (["a + b <= 1", "a + b >= 1"], "'a + b <= 1' and 'a + b >= 1' together want an exact value of `a`"),
        (["2 * a <= 2 - 2 * b", "b < 3", "1 - a - b <= 0"], "'2 * a <= 2 - 2 * b' and '1 - a - b <= 0' together want"),
        (["1 <= a + b <= 1"], "but '1 <= a + b <= 1' wants an exact value"),
    ],
)
def test_an_equality_in_two_parts_is_one(limits, said):
    with pytest.raises(InvalidValueError, match="A limit must leave room") as found:
        parse_all(limits, SPACE)
    assert said in str(found.value)
    assert len(parse_all(["a + b <= 1.01", "a + b >= 1", "n >= 3", "n <= 3"], SPACE)) == 4


@pytest.mark.parametrize(
    ("limit", "kept", "broken"),
    [
        ("exp(5 * x) <= 10", 0.4605, 0.4606),
        ("1 / x >= 5", 0.19999, 0.20001),
        ("x ** 9 <= 1e-6", 0.2154, 0.2155),
        ("1e12 * x <= 1", 1e-12, 2e-12),
    ],
)
def test_what_is_forgiven_is_rounding_however_steep_a_limit_is(limit, kept, broken):
    """A slack by how much the sides vary over the space let designs far beyond a steep limit pass."""
    found = parse(limit, space({"x": (0.0, 10.0)}))
    assert found.holds({"x": kept}) and not found.holds({"x": broken})


def test_sides_that_cancel_are_rounded_by_their_parts():
    found = parse("(x - 0.1) - y <= 0", space({"x": (0.0, 1.0), "y": (0.0, 1.0)}))
    assert found.holds({"x": 0.3, "y": 0.19999999999999996})
