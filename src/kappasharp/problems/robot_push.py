"""RobotPush-14D: two robot hands push two objects towards their goals, in the physics engine Box2D."""

import math
import platform
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from kappasharp.errors import needed
from kappasharp.problems.problem import Maximum, Problem, Provenance
from kappasharp.problems.worker_pool import each
from kappasharp.randomness import stream

GOALS = ((4.0, 3.5), (-4.0, 3.5))
STARTS = ((0.0, 2.0), (0.0, -2.0))
STEP_SECONDS, ITERATIONS, STEPS_PER_UNIT, COASTING_STEPS = 0.01, 10, 10, 100
GRIP = 30.0  # the hand's force and torque, per unit of mass and of missing velocity
HIGHEST = sum(math.dist(goal, start) for goal, start in zip(GOALS, STARTS, strict=True))

HAND: tuple[tuple[str, float, float], ...] = (
    ("x", -5.0, 5.0),
    ("y", -5.0, 5.0),
    ("x velocity", -10.0, 10.0),
    ("y velocity", -10.0, 10.0),
)
HAND += (("time", 2.0, 30.0), ("angle", 0.0, 2.0 * math.pi))
PARAMETERS = tuple((f"hand {i} {name}", low, high) for i in (1, 2) for name, low, high in HAND)
PARAMETERS += tuple((f"hand {i} spin", -5.0, 5.0) for i in (1, 2))

# One evaluation whose reward is known: an engine built with other rounding gives another.
KNOWN_POINT = (
    4.3211389170882, -4.603944219113681, -0.9436071388718474, 2.621458243200653, 17.420914635511046,
    0.46596792017063965, 0.932283931856456, -2.778031147727357, -6.08901641326304, 7.573817694953071,
    7.539579016711221, 2.8543929781946282, 2.502868822392033, 2.0731538602459416,
)  # fmt: skip
KNOWN_REWARD, KNOWN_ROUNDING = 6.292547934243, 1e-9
BEST_KNOWN = (
    1.274317986411063, -3.368494800968104, -9.674857413777929, 8.194892703313036, 17.587588834198854,
    2.5329236378721904, -1.3661956385887402, 1.8946324783729296, 5.701953788537323, 0.7290080598245305,
    19.04554920333474, 1.7225866739575584, -1.8507303308117595, 1.3072409726283931,
)  # fmt: skip

# What builds the engine so that it rounds as on every other machine: without fused multiply-add. Older releases of
# setuptools read CFLAGS for C++, newer ones CXXFLAGS; a wheel in pip's cache may have been built without either.
NO_FMA = "CFLAGS=-ffp-contract=off CXXFLAGS=-ffp-contract=off"
BUILD = (
    "python -m pip install swig==4.5.1 setuptools==84.2.1 wheel==0.48.0",
    "python -m pip uninstall --yes Box2D box2d-py",
    f"{NO_FMA} python -m pip install --no-cache-dir --no-build-isolation --no-binary box2d-py box2d-py==2.3.8",
)
REMEDY = f"build it in the activated environment with `{' && '.join(BUILD)}`."
# The extra brings a wheel, but there is none for Linux on anything but x86_64.
HAS_WHEEL = sys.platform != "linux" or platform.machine() == "x86_64"
SEARCH = "differential evolution (400 generations of 168) and a random walk; nothing exceeds 11.0727371"


class World:
    """Two objects and two hands on a table with friction."""

    def __init__(self, engine: Any, hands: Sequence[Sequence[float]]) -> None:
        self.engine = engine
        self.world = engine.b2World(gravity=(0.0, 0.0), doSleep=True)
        self.table = self.world.CreateStaticBody(position=(0.0, 0.0))
        box, disc = engine.b2PolygonShape(box=(0.5, 0.5)), engine.b2CircleShape(radius=1.0, pos=(0.0, 0.0))
        self.objects = [
            self._body(shape, start, 0.0, density=0.05, friction=0.01, grip=5.0)
            for shape, start in zip((box, disc), STARTS, strict=True)
        ]
        palm = engine.b2PolygonShape(box=(1.0, 0.3))
        self.hands = [
            self._body(palm, (hand[0], hand[1]), hand[5], density=0.1, friction=0.1, grip=2.0) for hand in hands
        ]

    def _body(
        self, shape: Any, position: tuple[float, float], angle: float, *, density: float, friction: float, grip: float
    ) -> Any:
        fixture = self.engine.b2FixtureDef(shape=shape, density=density, friction=friction)
        body = self.world.CreateDynamicBody(position=position, angle=angle, fixtures=fixture)
        self.world.CreateFrictionJoint(bodyA=self.table, bodyB=body, maxForce=grip, maxTorque=2.0)
        return body

    def steer(self, hand: Any, velocity: Any, spin: float) -> None:
        """Pull a hand towards its velocity and spin."""
        hand.ApplyTorque(hand.mass * (spin - hand.angularVelocity) * GRIP, wake=True)
        # In the engine's own vectors, which are of single precision: the reward depends on their rounding.
        force = hand.mass * (velocity - hand.linearVelocity) * GRIP
        hand.ApplyForce(force, hand.position, wake=True)

    def step(self) -> None:
        """A hundredth of a second."""
        self.world.Step(STEP_SECONDS, ITERATIONS, ITERATIONS)

    def is_at_rest(self) -> bool:
        """Whether every body sleeps: then nothing moves any more."""
        return not any(body.awake for body in (*self.objects, *self.hands))


def reward(point: Sequence[float], velocity_noise: float = 0.0, seed: int = 0) -> float:
    """How much nearer to their goals the two objects end than they began."""
    hands, spins = (point[0:6], point[6:12]), point[12:14]
    engine = needed("Box2D", "The problem robotpush-14d", "lab", "" if HAS_WHEEL else REMEDY)
    noise = _noise(point, velocity_noise, seed)
    velocities = [engine.b2Vec2(h[2] + noise[2 * i], h[3] + noise[2 * i + 1]) for i, h in enumerate(hands)]
    world = World(engine, hands)
    pushing = [int(STEPS_PER_UNIT * hand[4]) for hand in hands]
    for t in range(max(pushing) + COASTING_STEPS):
        for hand, velocity, spin, steps in zip(world.hands, velocities, spins, pushing, strict=True):
            if t < steps:
                world.steer(hand, velocity, spin)
        world.step()
        if t >= max(pushing) and world.is_at_rest():
            break
    ends = [tuple(body.position) for body in world.objects]
    return HIGHEST - sum(math.dist(goal, end) for goal, end in zip(GOALS, ends, strict=True))


def _noise(point: Sequence[float], velocity_noise: float, seed: int) -> list[float]:
    """The hands' velocity errors: a design met twice gets the same, so that the utility stays a function."""
    if velocity_noise == 0.0:
        return [0.0] * 4
    generator = stream(seed, "robotpush-14d", "velocity noise", *(value.hex() for value in map(float, point)))
    return (velocity_noise * torch.randn(4, generator=generator, dtype=torch.float64)).tolist()


def engine_complaint() -> str | None:
    """What is wrong with this environment's build of Box2D, and the remedy; None where it rounds as it should."""
    off = abs(reward(KNOWN_POINT) - KNOWN_REWARD)
    if off <= KNOWN_ROUNDING:
        return None
    return (
        f"robotpush-14d: this build of Box2D rounds differently (the known reward is off by {off:.1e}), so rewards "
        f"will not be those of other machines; {REMEDY}"
    )


@cache
def check_engine() -> None:
    """Warn where this build of Box2D rounds differently; once, at its first use."""
    complaint = engine_complaint()
    if complaint:
        warnings.warn(complaint, RuntimeWarning, stacklevel=2)


def evaluate(X: Tensor, velocity_noise: float = 0.0, seed: int = 0) -> Tensor:
    """Rewards of points (n, 14)."""
    check_engine()
    return each(partial(reward, velocity_noise=velocity_noise, seed=seed), X)


ROBOTPUSH_14D = Problem(
    name="robotpush-14d",
    low=tuple(low for _, low, _ in PARAMETERS),
    high=tuple(high for _, _, high in PARAMETERS),
    evaluate=evaluate,
    maximum=Maximum(11.072735604684567, BEST_KNOWN, proven=False, source=SEARCH),
    provenance=Provenance.SOURCED,
    formula="how much nearer to (4, 3.5) and (−4, 3.5) two objects end than they began, pushed by two hands in Box2D",
    origin="Wang et al. (2018), Ensemble Bayesian optimisation; without its velocity noise (sd 0.01), so deterministic",
    parameters=tuple(name for name, _, _ in PARAMETERS),
    is_simulated=True,
)

ROBOTPUSH_14D_NOISY = replace(
    ROBOTPUSH_14D,
    name="robotpush-14d-noisy",
    evaluate=partial(evaluate, velocity_noise=0.01),
    maximum=Maximum(11.065254169617713, BEST_KNOWN, proven=False, source="the noise-free problem's best design"),
    origin="Wang et al. (2018), Ensemble Bayesian optimisation, with its velocity noise, a stream per design",
)
