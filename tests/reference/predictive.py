"""Plasma-16D's controller as it is described in words: the plant rolled forward step by step, nothing condensed."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint, minimize, nnls
from torch import Tensor

from kappasharp.problems.plasma_jet import HORIZON, A, B

STEADY = 33.306
Array = np.ndarray


def hold(degrees: Tensor) -> tuple[Tensor, Tensor]:
    """The state, and the power, at which the plant rests so many degrees above its steady state; the flow is left."""
    a, b = torch.tensor(A), torch.tensor(B)
    # x = A x + B (power, 0) with a given temperature: two equations in the intensity and the power.
    left = torch.stack([torch.stack([-a[0, 1], -b[0, 0]]), torch.stack([1.0 - a[1, 1], -b[1, 0]])])
    right = torch.stack([a[0, 0] - 1.0, a[1, 0]])
    intensity, power = torch.linalg.solve(left, right)
    return torch.stack([degrees, intensity * degrees], -1), torch.stack([power * degrees, 0.0 * degrees], -1)


def roll(state: Tensor, inputs: Tensor) -> Tensor:
    """The states (N, 2) that follow when the inputs (N, 2) are applied one after the other."""
    states = []
    for u in inputs:
        state = torch.tensor(A) @ state + torch.tensor(B) @ u
        states.append(state)
    return torch.stack(states)


class Plan:
    """The program of one step: cost and constraints of inputs and slack, all of them in deviations."""

    def __init__(self, parameters: Sequence[float], state: Array, before: Array, reference: Array) -> None:
        self.parameters, self.state, self.before = parameters, torch.tensor(state), torch.tensor(before)
        self.wanted_states, self.wanted_inputs = hold(torch.tensor(reference))

    def cost(self, z: Tensor) -> Tensor:
        """Half the weighted squares: states, inputs, changes, terminal state, slack."""
        weights = [10.0**exponent for exponent in self.parameters[:8]]
        of_state, of_input, of_change, of_end = (torch.tensor(weights[i : i + 2]) for i in (0, 2, 4, 6))
        inputs, slack = z[:-1].reshape(HORIZON, 2), z[-1]
        missed = roll(self.state, inputs) - self.wanted_states
        changes = torch.diff(torch.cat([self.before.unsqueeze(0), inputs]), dim=0)
        squares = (
            (of_state * missed[:-1].square()).sum()
            + (of_end * missed[-1].square()).sum()
            + (of_input * (inputs - self.wanted_inputs).square()).sum()
            + (of_change * changes.square()).sum()
            + 10.0 ** self.parameters[14] * slack.square()
        )
        return 0.5 * squares

    def broken(self, z: Tensor) -> Tensor:
        """By how much each limit is broken, negative inside: inputs low, inputs high, slack, temperatures."""
        inputs, slack = z[:-1].reshape(HORIZON, 2), z[-1]
        low, high = torch.tensor([0.0, -2.0]), torch.tensor([3.5 - self.parameters[13], 1.5])
        ceiling = 44.5 - self.parameters[12] - STEADY
        heat = roll(self.state, inputs)[:, 0] - ceiling - slack
        return torch.cat([(low - inputs).flatten(), (inputs - high).flatten(), -slack.reshape(1), heat])

    @cached_property
    def normals(self) -> Array:
        """The slopes of the limits, which are lines."""
        zero = torch.zeros(2 * HORIZON + 1, dtype=torch.float64)
        return torch.autograd.functional.jacobian(self.broken, zero, vectorize=True).numpy()

    def slope(self, z: Array) -> Array:
        """The slope of the cost."""
        return torch.autograd.functional.jacobian(self.cost, torch.tensor(z)).numpy()

    def solve(self) -> Array:
        """Inputs and slack by SciPy's interior-point method."""
        zero = np.zeros(2 * HORIZON + 1)
        slope, offsets = self.slope(zero), self.broken(torch.tensor(zero)).numpy()
        curvature = torch.autograd.functional.hessian(self.cost, torch.tensor(zero), vectorize=True).numpy()
        high = np.array([3.5 - self.parameters[13], 1.5])
        found = minimize(
            lambda z: (0.5 * z @ curvature @ z + slope @ z, curvature @ z + slope),
            zero,
            jac=True,
            hess=lambda _: curvature,
            method="trust-constr",
            bounds=Bounds(np.r_[np.tile([0.0, -2.0], HORIZON), 0.0], np.r_[np.tile(high, HORIZON), np.inf]),
            constraints=LinearConstraint(self.normals[-HORIZON:], -np.inf, -offsets[-HORIZON:]),
            options={"gtol": 1e-10, "xtol": 1e-13, "barrier_tol": 1e-12, "maxiter": 500},
        )
        return found.x

    def optimality(self, z: Array) -> tuple[float, float]:
        """The largest broken limit, and how much of the slope no pressure of the tight limits holds, relative to it."""
        slope, broken = self.slope(z), self.broken(torch.tensor(z)).numpy()
        tight = self.normals[broken > -1e-7]
        held = nnls(tight.T, -slope)[1] if len(tight) else float(np.linalg.norm(slope))
        return float(broken.max()), held / max(1.0, float(np.linalg.norm(slope)))
