"""Answers about several designs: one Thurstone draw a design, as comparisons that share noise. (docs/method.md)"""

import math

import pytest
import torch

from kappasharp.inference import comparison_space, comparisons, likelihood
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import Model, model_from
from kappasharp.inference.likelihood import Probit
from kappasharp.kernels import priors, stationary
from kappasharp.questions.comparisons import Said, beside, best_of, order_of, rated
from kappasharp.settings import find_preset

MODEL = model_from(find_preset("modern"))
F = torch.tensor([0.3, -0.4, 1.1, 0.2], dtype=torch.float64)


def placed(answers, each):
    """Comparisons (1, m, 2) of answers about designs of their own, `each` to a question."""
    rows = [(q * each + a, q * each + b) for q, said in enumerate(answers) for a, b in said.pairs]
    return torch.tensor([rows])


def by_quadrature(order, sigma=1.0):
    """P(y₁ > y₂ > … ) for y_i ~ N(F_i, σ²), by nested one-dimensional integrals on one grid."""
    t = torch.linspace(-12.0, 12.0, 24001, dtype=torch.float64)
    below = torch.ones_like(t)
    for number in reversed(order):
        density = torch.exp(-0.5 * ((t - F[number]) / sigma).square()) / (sigma * math.sqrt(2.0 * math.pi))
        below = torch.cat([t.new_zeros(1), torch.cumulative_trapezoid(density * below, t)])
    return float(below[-1])


def best_by_quadrature(best):
    t = torch.linspace(-12.0, 12.0, 24001, dtype=torch.float64)
    density = torch.exp(-0.5 * (t - F[best]).square()) / math.sqrt(2.0 * math.pi)
    others = [torch.special.ndtr(t - F[j]) for j in range(4) if j != best]
    return float(torch.trapezoid(density * torch.stack(others).prod(0), t))


def by_parts(said, probit):
    """The same probability from what every comparison has for itself and what they share, by quasi-Monte Carlo."""
    weight, noise = comparisons.shared(said.pairs)
    pairs = torch.tensor(said.pairs)
    z = weight * (F[pairs[:, 0]] - F[pairs[:, 1]]) / probit.scale
    points = torch.quasirandom.SobolEngine(len(pairs), scramble=True, seed=1).draw(2**17, dtype=torch.float64)
    values, vectors = torch.linalg.eigh(noise)
    root = vectors * values.clamp(min=0.0).sqrt()
    shared = torch.special.ndtri(points.clamp(1e-12, 1 - 1e-12)) @ root.mT
    return float(torch.special.ndtr(z + shared).prod(-1).mean())


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1], [1, 3, 0, 2]])
def test_an_order_has_the_probability_of_one_draw_a_design(order):
    assert by_parts(order_of(4, order), Probit()) == pytest.approx(by_quadrature(order), abs=2e-4)


@pytest.mark.parametrize("best", range(4))
def test_a_choice_has_the_probability_of_one_draw_a_design(best):
    assert by_parts(best_of(4, best), Probit()) == pytest.approx(best_by_quadrature(best), abs=2e-4)


def test_the_answers_to_one_question_sum_to_one():
    assert sum(by_parts(best_of(4, i), Probit()) for i in range(4)) == pytest.approx(1.0, abs=5e-4)


@pytest.mark.parametrize("count", range(2, 10))
def test_what_is_shared_and_what_is_not_make_the_whole(count):
    for said in (best_of(count, 1), order_of(count, range(count)), order_of(count, [0, 1])):
        weight, noise = comparisons.shared(said.pairs)
        D = torch.zeros(len(said.pairs), count, dtype=torch.float64)
        for row, (a, b) in enumerate(said.pairs):
            D[row, a], D[row, b] = 1.0, -1.0
        own = 2.0 / weight**2
        assert torch.allclose(own * (torch.eye(len(D), dtype=torch.float64) + noise), D @ D.mT, atol=1e-12)
        assert float(torch.linalg.eigvalsh(noise)[0]) > -1e-12


def test_naming_the_first_of_an_order_is_a_choice_and_the_order_of_two_is_a_pair():
    assert order_of(4, [2]) == best_of(4, 2)
    assert order_of(2, [1, 0]) == best_of(2, 1) == rated(-1)._replace(level=0)
    assert comparisons.detail([order_of(2, [1, 0]), best_of(2, 0)]) is None


def test_equals_and_designs_left_out():
    assert order_of(5, [2, [0, 3]]) == Said(((2, 0), (0, 3), (3, 1), (3, 4)), (False, True, False, False))


def test_a_pair_among_orders_is_a_pair_to_the_last_digit():
    X = torch.rand(1, 8, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pairs = torch.tensor([[[0, 1], [2, 3], [5, 4]]])
    K = stationary.covariance("rbf", X, torch.tensor([[-0.5, 0.0, 0.3, 2.0]], dtype=torch.float64), 1e-6)
    plain = comparisons.none_of((1,), 3, X)
    found = [comparison_space.condition(MODEL, K, comparisons.incidence(pairs, 8, one)) for one in (None, plain)]
    assert torch.equal(found[0].map.f, found[1].map.f)
    assert torch.equal(found[0].root, found[1].root)
    assert torch.equal(found[0].value, found[1].value)


def task(seed=0, d=3):
    answers = [
        order_of(4, [2, 0, 3, 1]),
        best_of(4, 1),
        order_of(4, [3, 0]),
        best_of(2, 1),
    ]
    X = torch.rand(1, 16, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Answers(X, placed(answers, 4), None, comparisons.detail(answers))


def test_the_evidence_has_the_gradient_of_its_differences():
    data = comparison_space.gather(*task())
    theta = torch.tensor([[-0.5, -0.2, 0.3, 2.0]], dtype=torch.float64)
    start = torch.zeros(1, 10, dtype=torch.float64)
    gradient = data.evaluate(MODEL, theta, start).gradient[0]
    for j in range(4):
        step = torch.zeros_like(theta)
        step[0, j] = 1e-5
        sides = [data.evaluate(MODEL, theta + sign * step, start).value.item() for sign in (1, -1)]
        assert gradient[j].item() == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-7)


def test_the_map_is_where_the_augmented_posterior_is_flat():
    """Dense: f and the shared noise η together, with independent Gaussian priors; no comparison space anywhere."""
    answers = task()
    X, pairs, _, detail = answers
    K = stationary.covariance("rbf", X, torch.tensor([[-0.5, 0.0, 0.3, 2.0]], dtype=torch.float64), 1e-6)
    found = comparison_space.condition(MODEL, K, comparisons.incidence(pairs, 16, detail))
    f = found.map.f[0].clone().requires_grad_()
    # η at the MAP is the noise's covariance times the dual weights; the prior's square is then ½ αᵀ N α.
    alpha = found.map.dual.alpha[0]
    eta = detail.noise[0] @ alpha
    z = detail.weight[0] * (f[pairs[0, :, 0]] - f[pairs[0, :, 1]]) / math.sqrt(2.0) + eta
    objective = 0.5 * f @ torch.linalg.solve(K[0], f) - torch.special.log_ndtr(z).sum()
    (slope,) = torch.autograd.grad(objective, f)
    assert float((K[0] @ slope).abs().max()) < 1e-6
    assert torch.allclose(z.detach(), found.map.dual.z[0], atol=1e-8)
    # η is stationary too: its pull from the answers is the dual weights.
    hazard = torch.exp(-0.5 * z.detach().square()) / math.sqrt(2 * math.pi) / torch.special.ndtr(z.detach())
    assert torch.allclose(hazard, alpha, atol=1e-7)


def test_laplace_stays_near_the_exact_posterior():
    """Importance sampling from the prior: what Laplace's method costs is no more than with pairs."""
    answers = task(seed=2)
    theta = torch.tensor([[-0.5, 0.0, 0.3, math.log(4.0)]], dtype=torch.float64)
    K = stationary.covariance("rbf", answers.X, theta, 1e-6)
    found = comparison_space.condition(MODEL, K, comparisons.incidence(answers.pairs, 16, answers.detail))
    generator = torch.Generator().manual_seed(0)
    normals = torch.randn(2**18, 26, generator=generator, dtype=torch.float64)
    f = normals[:, :16] @ torch.linalg.cholesky(K[0]).mT
    values, vectors = torch.linalg.eigh(answers.detail.noise[0])
    shared = normals[:, 16:] @ (vectors * values.clamp(min=0.0).sqrt()).mT
    winner, loser = answers.pairs[0].unbind(-1)
    z = answers.detail.weight[0] * (f[:, winner] - f[:, loser]) / MODEL.likelihood.scale + shared
    weight = torch.special.log_ndtr(z).sum(-1).exp()
    assert float(weight.sum().square() / weight.square().sum()) > 5000.0
    share = (weight / weight.sum()).unsqueeze(-1)
    exact = (share * f).sum(0)
    deviation = (share * (f - exact).square()).sum(0).sqrt()
    assert float(((found.map.f[0] - exact) / deviation).abs().max()) < 0.15
    assert found.value.item() == pytest.approx(math.log(weight.mean()), abs=0.25)


def test_a_batch_is_its_runs_one_by_one():
    theta = torch.tensor([[-0.5, -0.2, 0.3, 2.0]], dtype=torch.float64)
    tasks = [task(seed) for seed in range(3)]
    both = Answers(
        torch.cat([t.X for t in tasks]),
        torch.cat([t.pairs for t in tasks]),
        None,
        comparisons.Detail(*(torch.cat(part) for part in zip(*(t.detail for t in tasks), strict=True))),
    )
    together = comparison_space.gather(*both).evaluate(MODEL, theta.repeat(3, 1), torch.zeros(3, 10).double())
    for run, one in enumerate(tasks):
        alone = comparison_space.gather(*one).evaluate(MODEL, theta, torch.zeros(1, 10).double())
        assert together.value[run].item() == pytest.approx(alone.value.item(), abs=1e-12)
        assert torch.allclose(together.gradient[run], alone.gradient[0], atol=1e-10)


def test_further_pairs_border_a_fit_with_orders():
    answers = task()
    K = stationary.covariance("rbf", answers.X, torch.tensor([[-0.5, 0.0, 0.3, 2.0]], dtype=torch.float64), 1e-6)
    whole_pairs = torch.cat([answers.pairs, torch.tensor([[[15, 0], [3, 14]]])], 1)
    detail = comparisons.joined(answers.detail, comparisons.none_of((1,), 2, answers.X))
    whole = comparison_space.condition(MODEL, K, comparisons.incidence(whole_pairs, 16, detail))
    known = comparison_space.condition(MODEL, K[:, :14, :14], comparisons.incidence(answers.pairs, 14, answers.detail))
    grown = comparison_space.extend(MODEL, known, K[:, 14:, :14], K[:, 14:, 14:], whole_pairs[:, 10:])
    assert torch.allclose(grown.map.f, whole.map.f, atol=1e-7)
    assert torch.allclose(grown.root @ grown.root.mT, whole.root @ whole.root.mT, atol=1e-7)


def test_ratings_share_out_all_of_the_line():
    """For any difference, the probabilities of the seven ratings sum to one; pairs are their sums."""
    probit = Probit(threshold=0.4)
    model = Model("rbf", 1e-6, probit, priors.PRIORS["botorch_0_18"])
    X = torch.tensor([[[0.2], [0.7]]], dtype=torch.float64)
    z = torch.tensor([0.63], dtype=torch.float64)
    chances = {}
    for rating in range(-3, 4):
        said = rated(rating)
        ties = torch.tensor([said.ties]) if rating == 0 else None
        detail = comparisons.none_of((1,), 1, X)._replace(level=torch.tensor([[said.level]]))
        marks = comparison_space.bounded(probit, Answers(X, torch.tensor([[list(said.pairs[0])]]), ties, detail)).ties
        sign = -1.0 if rating < 0 else 1.0
        chances[rating] = float(likelihood.log_probability(sign * z[None], model.likelihood.margin, marks).exp())
    assert sum(chances.values()) == pytest.approx(1.0, abs=1e-12)
    better = sum(chances[r] for r in (1, 2, 3))
    assert better == pytest.approx(float(torch.special.ndtr(z - probit.margin)), abs=1e-12)


@pytest.mark.parametrize(("designs", "count", "near"), [(2, 4, 0.1), (4, 7, 0.05), (6, 11, 1 / 30)])
def test_the_places_beside_a_chosen_one_are_never_near_it(designs, count, near):
    place = torch.linspace(0.0, 1.0, 401, dtype=torch.float64)
    others = comparisons.other_places(place, designs)
    assert others.shape == (401, count) and beside(designs) == (count, pytest.approx(near))
    assert bool(((others >= 0.0) & (others <= 1.0)).all())
    assert float((others - place.unsqueeze(-1)).abs().min()) > near - 1e-9
    assert bool((others[:, 1:] > others[:, :-1]).all())
