"""Simulated people: what each promises, and the frequencies that its numbers imply."""

import math

import pytest
import torch

from kappasharp.errors import InvalidValueError, UnknownNameError
from kappasharp.problems import simulated_voters
from kappasharp.problems.simulated_voters import FIRST, PERSONS, SECOND, TIE, Person

MANY = 40_000
PINNED = [
    -0.8538184340309066, -0.16971537732312847, 0.6027560210993252, 0.04688686345673487,
    -0.03245561508000132, -1.230732290462203, 0.8034329062518983, 0.8920375768457045,
]  # fmt: skip
everyone = pytest.mark.parametrize("who", PERSONS.values(), ids=PERSONS.keys())


def chance(count=MANY, seed=0):
    return simulated_voters.draws("ackley-8d", seed, "test answers", count)


def answers(who, difference, count=MANY, seed=0):
    """Answers about two designs, the first of them better by that much."""
    return simulated_voters.answer(who, torch.tensor([difference, 0.0]).expand(count, 2), chance(count, seed))


def phi(x):
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def share(found, what, probability):
    """The share of these answers is this probability, within five standard deviations of a binomial's."""
    spread = math.sqrt(probability * (1.0 - probability) / len(found))
    assert float((found == what).double().mean()) == pytest.approx(probability, abs=5.0 * spread + 1e-12)


# Those whose sliders, and those whose times, are not like the first one's.
HANDS, CLOCKS = ["shaky", "hasty"], ["timed", "interrupted", "absent"]


def test_the_people():
    assert list(PERSONS) == ["paper", "exact", "careless", "hesitant", "biased", "human", *HANDS, *CLOCKS]
    assert PERSONS["paper"] == Person(noise=0.1, lapse=0.0, just_noticeable=0.0, position_bias=0.0)
    assert PERSONS["human"] == Person(noise=0.1, lapse=0.03, just_noticeable=0.0, position_bias=0.02)
    assert simulated_voters.person("careless") is PERSONS["careless"]
    assert simulated_voters.person(PERSONS["paper"]) is PERSONS["paper"]
    with pytest.raises(UnknownNameError, match=r"No simulated person is called 'papr'\. Did you mean 'paper'\?"):
        simulated_voters.person("papr")


@everyone
def test_every_answer_is_the_first_the_second_or_a_tie(who):
    utility = torch.randn(MANY, 2, generator=torch.Generator().manual_seed(1))
    found = simulated_voters.answer(who, utility, chance())
    kinds = {FIRST, SECOND, TIE} if who.just_noticeable else {FIRST, SECOND}
    assert set(found.unique().tolist()) == kinds
    better_first = utility[:, 0] > utility[:, 1]
    said = found[found != TIE] == FIRST
    assert float((said == better_first[found != TIE]).double().mean()) > 0.85


@everyone
def test_the_better_a_design_the_more_often_it_is_preferred(who):
    counts = [int((answers(who, difference) == FIRST).sum()) for difference in (-0.3, -0.1, 0.0, 0.1, 0.3)]
    assert counts == sorted(counts) and counts[0] < counts[-1]


@everyone
def test_the_level_of_both_utilities_does_not_matter(who):
    utility = torch.randn(500, 2, generator=torch.Generator().manual_seed(2))
    assert torch.equal(
        simulated_voters.answer(who, utility, chance(500)), simulated_voters.answer(who, utility + 7.0, chance(500))
    )


@everyone
def test_runs_may_stand_in_front(who):
    utility = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(3))
    draws = torch.stack([chance(5, seed) for seed in range(3)])
    alone = torch.stack([simulated_voters.answer(who, u, c) for u, c in zip(utility, draws, strict=True)])
    assert torch.equal(simulated_voters.answer(who, utility, draws), alone)


@everyone
def test_single_precision_is_answered_alike(who):
    utility = torch.randn(2000, 2, generator=torch.Generator().manual_seed(4))
    same = simulated_voters.answer(who, utility.float(), chance(2000)) == simulated_voters.answer(
        who, utility, chance(2000)
    )
    assert float(same.double().mean()) > 0.999


@pytest.mark.parametrize("difference", [-0.25, -0.05, 0.0, 0.02, 0.1, 0.2, 0.4])
def test_the_papers_person_follows_the_probit(difference):
    share(answers(PERSONS["paper"], difference), FIRST, phi(difference / (0.1 * math.sqrt(2.0))))


@pytest.mark.parametrize("noise", [0.01, 1.0, 5.0])
def test_noise_is_in_units_of_the_utility(noise):
    share(answers(Person(noise=noise), 0.8 * noise), FIRST, phi(0.8 / math.sqrt(2.0)))


@pytest.mark.parametrize("name", ["paper", "exact", "hesitant"])
def test_swapping_the_sides_and_their_draws_swaps_the_answer(name):
    who, utility, draws = PERSONS[name], torch.randn(5000, 2, generator=torch.Generator().manual_seed(5)), chance(5000)
    found = simulated_voters.answer(who, 0.1 * utility, draws)
    swapped = simulated_voters.answer(who, 0.1 * utility.flip(-1), draws[:, [1, 0, 2, 3]])
    mirror = torch.tensor([SECOND, FIRST, TIE])
    assert torch.equal(swapped, mirror[found])


def test_a_lapse_swaps_with_its_guess():
    utility, draws = torch.randn(5000, 2, generator=torch.Generator().manual_seed(5)), chance(5000)
    mirrored = torch.stack([draws[:, 1], draws[:, 0], draws[:, 2], 1.0 - draws[:, 3]], -1)
    found = simulated_voters.answer(PERSONS["careless"], utility, draws)
    assert torch.equal(simulated_voters.answer(PERSONS["careless"], utility.flip(-1), mirrored), 1 - found)


def test_the_exact_person_never_errs():
    utility = 1e-9 * torch.randn(MANY, 2, generator=torch.Generator().manual_seed(6))
    found = simulated_voters.answer(PERSONS["exact"], utility, chance())
    assert torch.equal(found, (utility[:, 1] > utility[:, 0]).long())


@pytest.mark.parametrize("lapse", [0.02, 0.1, 0.5, 1.0])
def test_a_lapse_has_nothing_to_do_with_the_designs(lapse):
    """However clear the question, half of the lapses are wrong."""
    share(answers(Person(lapse=lapse), 1000.0), SECOND, lapse / 2.0)
    share(answers(Person(lapse=lapse), -1000.0), FIRST, lapse / 2.0)


def test_the_careless_one_answers_like_the_papers_but_for_the_lapses():
    """One mood for all: the same draws, used or not."""
    plain, careless = answers(PERSONS["paper"], 0.1), answers(PERSONS["careless"], 0.1)
    lapses = chance()[:, 2] < 0.1
    share(lapses, True, 0.1)
    assert torch.equal(plain[~lapses], careless[~lapses])
    share(careless[lapses], FIRST, 0.5)


def test_ties_are_the_felt_differences_that_are_just_noticeable_at_most():
    who = PERSONS["hesitant"]
    utility, draws = 0.2 * torch.randn(MANY, 2, generator=torch.Generator().manual_seed(8)), chance()
    felt = simulated_voters.noisy_utility(who, utility, draws)
    found = simulated_voters.answer(who, utility, draws)
    difference = felt[:, 0] - felt[:, 1]
    assert torch.equal(found == TIE, difference.abs() <= 0.1)
    assert torch.equal(found == FIRST, difference > 0.1)
    assert torch.equal(found == SECOND, difference < -0.1)
    edge = Person(noise=0.0, just_noticeable=0.25)
    exactly = torch.tensor([[0.25, 0.0], [0.0, 0.25], [0.2500001, 0.0], [0.0, 0.2500001]])
    assert simulated_voters.answer(edge, exactly, chance(4)).tolist() == [TIE, TIE, FIRST, SECOND]


@pytest.mark.parametrize("difference", [0.0, 0.1, 0.3])
def test_how_often_the_hesitant_one_ties(difference):
    spread = 0.1 * math.sqrt(2.0)
    ties = phi((0.1 - difference) / spread) - phi((-0.1 - difference) / spread)
    share(answers(PERSONS["hesitant"], difference), TIE, ties)


@pytest.mark.parametrize("bias", [-0.2, 0.05, 0.1])
@pytest.mark.parametrize("difference", [-0.1, 0.0, 0.15])
def test_a_position_bias_counts_like_a_better_first_design(bias, difference):
    share(answers(Person(position_bias=bias), difference), FIRST, phi((difference + bias) / (0.1 * math.sqrt(2.0))))
    moved = answers(Person(), difference + bias)
    assert float((answers(Person(position_bias=bias), difference) == moved).double().mean()) > 0.9999


def test_what_is_felt_is_the_utility_with_noise_on_each_side():
    felt = simulated_voters.noisy_utility(Person(noise=0.5, position_bias=2.0), torch.zeros(MANY, 2), chance())
    assert felt.mean(0).tolist() == pytest.approx([2.0, 0.0], abs=5.0 * 0.5 / math.sqrt(MANY))
    assert felt.std(0).tolist() == pytest.approx([0.5, 0.5], rel=5.0 / math.sqrt(2 * MANY))
    assert abs(float(torch.corrcoef(felt.T)[0, 1])) < 5.0 / math.sqrt(MANY)


def test_draws_are_normal_and_uniform_numbers():
    draws = chance()
    assert draws.shape == (MANY, 4) and draws.dtype == torch.float64 and bool(draws.isfinite().all())
    levels = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0])
    for column in (0, 1):
        for level in levels.tolist():
            share(draws[:, column] < level, True, phi(level))
    for column in (2, 3):
        assert float(draws[:, column].min()) >= 0.0 and float(draws[:, column].max()) < 1.0
        for level in (0.1, 0.5, 0.9):
            share(draws[:, column] < level, True, level)
    assert float((torch.corrcoef(draws.T) - torch.eye(4)).abs().max()) < 5.0 / math.sqrt(MANY)


def test_the_same_words_give_the_same_draws_and_others_others():
    first = simulated_voters.draws("levy-10d", 3, "answers", 20)
    assert torch.equal(first, simulated_voters.draws("levy-10d", 3, "answers", 20))
    others = [("levy-10d", 4, "answers"), ("levy-20d", 3, "answers"), ("levy-10d", 3, "pure_k3 initial answers")]
    for words in others:
        assert not bool((simulated_voters.draws(*words, 20) == first).any())


@pytest.mark.parametrize("count", [1, 3, 7, 15, 50])
def test_a_longer_run_begins_with_the_draws_of_a_shorter_one(count):
    assert torch.equal(
        simulated_voters.draws("levy-10d", 3, "answers", 100)[:count],
        simulated_voters.draws("levy-10d", 3, "answers", count),
    )


def test_draws_are_pinned():
    """For ever: another number here is another answer in every run."""
    assert simulated_voters.draws("levy-10d", 3, "answers", 2).flatten().tolist() == pytest.approx(PINNED, abs=1e-12)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"noise": -0.1}, r"`Person.noise` must be finite and at least 0, but got -0\.1\."),
        ({"noise": math.nan}, "`Person.noise` must be finite and at least 0, but got nan"),
        ({"noise": math.inf}, "`Person.noise` must be finite"),
        ({"just_noticeable": -1e-9}, r"`Person.just_noticeable` must be finite and at least 0, but got -1e-09\."),
        ({"just_noticeable": math.nan}, "`Person.just_noticeable` must be finite"),
        ({"lapse": 1.5}, r"`Person.lapse` must be a probability, but got 1\.5\."),
        ({"lapse": -0.1}, "`Person.lapse` must be a probability"),
        ({"lapse": math.nan}, "`Person.lapse` must be a probability"),
        ({"position_bias": math.inf}, "`Person.position_bias` must be finite, but got inf"),
        ({"position_bias": math.nan}, "`Person.position_bias` must be finite"),
    ],
)
def test_nobody_is_like_that(values, words):
    with pytest.raises(InvalidValueError, match=words):
        Person(**values)


@pytest.mark.parametrize("difference", [-0.2, 0.0, 0.1])
def test_a_human_errs_in_three_ways_at_once(difference):
    """Noise, a lean to the first design, and now and then an answer about nothing."""
    attentive = phi((difference + 0.02) / (0.1 * math.sqrt(2.0)))
    share(answers(PERSONS["human"], difference), FIRST, 0.03 * 0.5 + 0.97 * attentive)


@everyone
def test_the_best_of_two_is_the_preferred_one_where_nothing_is_a_tie(who):
    """But for lapses, whose guess is spread over the designs another way round."""
    plain = Person(who.noise, 0.0, 0.0, who.position_bias)
    utility = torch.randn(500, 2, generator=torch.Generator().manual_seed(2))
    found = simulated_voters.best_of(plain, utility, chance(500), torch.empty(500, 0))
    assert torch.equal(found, simulated_voters.answer(plain, utility, chance(500)))


def test_the_best_of_more_is_chosen_by_what_is_felt_about_each():
    utility = torch.tensor([0.0, 0.1, -5.0, 0.05]).expand(MANY, 4)
    further = torch.stack([simulated_voters.further_draws("ackley-8d", seed, 3, 2) for seed in range(200)]).repeat(
        MANY // 200, 1
    )
    found = simulated_voters.best_of(PERSONS["paper"], utility, chance(), further)
    counts = [int((found == i).sum()) for i in range(4)]
    assert counts[2] == 0 and counts[1] > counts[3] > counts[0] > 0.1 * MANY
    assert bool((simulated_voters.best_of(PERSONS["exact"], utility, chance(), further) == 1).all())


def test_a_lapse_names_any_of_them_as_often():
    utility = torch.tensor([9.0, 0.0, 0.0]).expand(MANY, 3)
    found = simulated_voters.best_of(Person(lapse=1.0), utility, chance(), torch.zeros(MANY, 1))
    for number in range(3):
        share(found, number, 1.0 / 3.0)


def test_further_draws_are_normal_and_their_own():
    numbers = torch.stack([simulated_voters.further_draws("ackley-8d", seed, 0, 3) for seed in range(2000)])
    assert abs(float(numbers.mean())) < 0.05 and float(numbers.std()) == pytest.approx(1.0, abs=0.05)
    assert not torch.equal(numbers[0], simulated_voters.further_draws("ackley-8d", 0, 1, 3))


@pytest.mark.parametrize("designs", [2, 4])
def test_a_question_of_any_size_is_answered_run_by_run(designs):
    cells = [("ackley-8d", seed) for seed in range(40)]
    utility = 0.1 * torch.randn(40, designs, generator=torch.Generator().manual_seed(5))
    draws = torch.stack([simulated_voters.draws(*cell, "oracle noise", 1)[0] for cell in cells])
    found = simulated_voters.answer_about(PERSONS["paper"], cells, utility, draws, 7)
    further = torch.stack([simulated_voters.further_draws(*cell, 7, designs - 2) for cell in cells])
    felt = utility + 0.1 * torch.cat([draws[:, :2], further], -1)
    assert torch.equal(found, felt.argmax(-1)) and len(found.unique()) == designs
