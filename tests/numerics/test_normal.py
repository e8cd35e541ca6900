"""log Φ, the hazard and their derivatives against mpmath from z = −40 to 40, in both precisions."""

from functools import cache

import numpy as np
import pytest
import torch

from kappasharp.numerics import normal
from tests.reference import exact
from tests.reference.data import published

# Largest relative error allowed. In the upper tail everything carries exp(−z²/2), with relative condition number z²:
# half a unit in the last place of z = 38 is worth 720 units of the result. The curvature's logarithmic slope is a
# difference that cancels to 2/z³ at the switch to the continued fraction (z = −8; −4 in float32): worst just above it.
TOLERANCE = {
    torch.float64: {"log_cdf": 3e-13, "psi": 3e-13, "curvature": 3e-13, "slope": 1e-10},
    torch.float32: {"log_cdf": 1e-5, "psi": 1e-5, "curvature": 1e-5, "slope": 2e-3},
}
PRECISIONS = list(TOLERANCE)
GRID = np.concatenate([np.linspace(-40.0, 40.0, 81), [-8.0625, -7.9375, -4.0625, -3.9375, -0.5, -1e-3, 0.5, 1e-3]])


@cache
def truth(z: float) -> dict[str, float]:
    return exact.normal(z)


def ours(z: torch.Tensor) -> dict[str, torch.Tensor]:
    found = normal.derivatives(z)
    return {"log_cdf": normal.log_cdf(z), "psi": found.psi, "curvature": found.curvature, "slope": found.slope}


@pytest.mark.parametrize("name", ["log_cdf", "psi", "curvature", "slope"])
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_every_quantity_agrees_with_mpmath_in_both_tails(dtype, name):
    z = torch.as_tensor(GRID, dtype=dtype)
    expected = np.array([truth(float(value))[name] for value in z])
    # A number below the smallest normal one has fewer digits: it counts as wrong by its absolute size only.
    size = np.maximum(np.abs(expected), torch.finfo(dtype).tiny / torch.finfo(dtype).eps)
    error = np.abs(ours(z)[name].double().numpy() - expected) / size
    assert error.max() <= TOLERANCE[dtype][name], f"{name} at z = {float(z[int(error.argmax())])}"


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_the_hazard_alone_equals_the_one_with_derivatives(dtype):
    z = torch.as_tensor(GRID, dtype=dtype)
    assert torch.equal(normal.hazard(z), normal.derivatives(z).psi)


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_nothing_jumps_where_the_continued_fraction_takes_over(dtype):
    tail = normal.TAIL[dtype]
    width = 1e-6 if dtype is torch.float64 else 1e-3
    z = torch.tensor([-tail - width, -tail + width], dtype=dtype)
    for name, values in ours(z).items():
        true_step = truth(float(z[1]))[name] - truth(float(z[0]))[name]
        jump = float(values[1] - values[0]) - true_step
        assert abs(jump) <= 2.0 * TOLERANCE[dtype][name] * abs(float(values[0])), name


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_a_number_in_the_tail_does_not_depend_on_its_neighbours(dtype):
    """Without any z in the tail a shorter path is taken; it must give the same numbers."""
    z = torch.as_tensor(GRID[GRID > -normal.TAIL[dtype]], dtype=dtype)
    alone = normal.derivatives(z)
    together = normal.derivatives(torch.cat([z, z.new_tensor([-30.0])]))
    for a, b in zip(alone, together, strict=True):
        assert torch.equal(a, b[:-1])


def test_no_value_is_clamped():
    """BoTorch freezes z at ±3; here each quantity keeps moving as far as double precision can show it."""
    below, above = torch.linspace(-1000.0, -3.0, 200), torch.linspace(3.0, 37.0, 200)
    for z in (below, above):
        found = ours(z)
        assert bool((found["log_cdf"].diff() > 0).all())
        assert bool((found["psi"].diff() < 0).all())
        assert bool((found["curvature"].diff() < 0).all())
    assert bool((ours(below)["slope"].diff() < 0).all())


def test_the_curvature_lies_between_zero_and_one():
    z = torch.linspace(-1000.0, 37.0, 4001)
    curvature = normal.derivatives(z).curvature
    assert bool((curvature > 0).all())
    assert bool((curvature < 1).all())


def test_the_distribution_function_keeps_its_digits_in_the_lower_tail():
    """Φ itself, not only its logarithm: relative error, z down to −30; the density's is that of its exponent, z²ε."""
    z = torch.linspace(-30.0, 8.0, 39)
    expected = torch.tensor([truth(float(value))["log_cdf"] for value in z]).exp()
    assert torch.allclose(normal.cdf(z), expected, rtol=3e-13, atol=0.0)


def test_the_density_is_the_hazard_times_the_distribution_function():
    z = torch.linspace(-30.0, 8.0, 39)
    assert torch.allclose(normal.log_density(z), normal.hazard(z).log() + normal.log_cdf(z), rtol=1e-14, atol=1e-14)
    assert torch.allclose(normal.density(z).log(), normal.log_density(z), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("source", ["mpmath", "r"])
def test_published_values_of_log_cdf_are_met(source):
    values = published("log_normal_cdf.json")[source]["log_cdf"]
    z = torch.tensor([float(key) for key in values])
    assert torch.allclose(normal.log_cdf(z), torch.tensor(list(values.values())), rtol=3e-13, atol=0.0)


def test_gpys_published_value_at_minus_fifteen_is_met():
    value = published("log_normal_cdf.json")["gpy"]
    z = torch.tensor([value["z"]])
    assert float(normal.log_cdf(z)) == pytest.approx(value["log_cdf"], rel=1e-14)
    assert float(normal.hazard(z)) == pytest.approx(value["hazard"], rel=1e-14)


def test_no_numbers_in_give_no_numbers_out():
    assert all(part.shape == (0,) for part in normal.derivatives(torch.empty(0)))
