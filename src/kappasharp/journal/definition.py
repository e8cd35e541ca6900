"""What a study is before its first question: a space, a seed, a method, a preset, how it starts. It never changes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypedDict

from kappasharp.arguments import is_whole, shown
from kappasharp.errors import CorruptedError, InvalidTypeError, InvalidValueError, StorageError, UnknownNameError
from kappasharp.journal import events
from kappasharp.questions import kind as questions_kind
from kappasharp.questions.kind import ONE_PAIR, PAIR, Form, Kind
from kappasharp.settings import DEFAULT_METHOD, DEFAULT_PRESET, Method, Preset, find_method, find_preset
from kappasharp.space import limits as space_limits
from kappasharp.space.outcomes import GivenOutcomes, Limit, OutcomeFunction, Outcomes, StudyOutcome, split_name
from kappasharp.space.outcomes import from_plain as read_outcomes
from kappasharp.space.space import Design, GivenSpace, Space, space


def fits(form: Form, space: Space) -> Form:
    """The form, if there are such questions about designs of that space; or a sentence."""
    if form.kind is Kind.SLIDER and not space.can_move:
        raise InvalidValueError(
            "A slider needs a parameter to move along, but this space has none that is continuous; a choice or an "
            "order asks about whole numbers and choices."
        )
    if form.designs > space.size:
        raise InvalidValueError(
            f"{form.words.capitalize()} designs must not show more than there are, but this space has only "
            f"{space.size:g}."
        )
    return form


MOST_FIRST_PAIRS = 10_000
LARGEST_SEED = 2**4096
# Whose kind of question is chosen anew every time, and what it begins with. (docs/results/answers.md)
AUTO, FIRST_OF_AUTO = "auto", Form(Kind.CHOICE, questions_kind.USUAL)
STRAIGHT = Form(Kind.SLIDER)


class Options(TypedDict, total=False):
    """What a study may be told beside its space; what is left out has its default."""

    seed: int
    method: str
    preset: str | Preset
    first_pairs: int
    question: str
    use_seconds: bool
    tell_apart: bool
    outcomes: GivenOutcomes
    limits: Sequence[str | Limit]
    favourites: Sequence[Mapping[str, Any]]
    render: str


@dataclass(frozen=True)
class Definition:
    """A study's fixed part."""

    space: Space
    seed: int = 0
    method_name: str = DEFAULT_METHOD
    preset_choice: str | Preset = DEFAULT_PRESET
    first_pairs: int = Preset.first_pairs
    form: Form = ONE_PAIR
    # Whether every question's kind is chosen anew; `form` is then that of the first ones.
    is_auto: bool = False
    use_seconds: bool = False
    # Whether each voter has a taste of their own, and is asked about it.
    tell_apart: bool = False
    outcomes: Outcomes | None = None
    # Between parameters, as texts.
    limits: tuple[str, ...] = ()
    # Designs that people came with: the first questions ask about them.
    favourites: tuple[Design, ...] = ()
    # What draws a design for people to see, as module:function; a name, which nothing here runs.
    render: str | None = None
    # What computes the outcomes, where somebody has allowed it in this process; never stored.
    simulator: OutcomeFunction | None = field(default=None, compare=False, repr=False)

    @property
    def question(self) -> str:
        """The usual kind of question, as it is given."""
        return AUTO if self.is_auto else str(self.form)

    @property
    def method(self) -> Method:
        """The method of that name; with the seconds of answers, and voters told apart, where the study wants them."""
        return replace(find_method(self.method_name), use_seconds=self.use_seconds, tell_apart=self.tell_apart)

    @property
    def preset(self) -> Preset:
        """The preset, by name or its own."""
        return find_preset(self.preset_choice)

    @property
    def limited(self) -> tuple[StudyOutcome, ...]:
        """The outcomes that have limits."""
        return () if self.outcomes is None else self.outcomes.limited

    @property
    def asks_all_alike(self) -> bool:
        """Whether it asks pairs and nothing else by itself, and of everybody the same."""
        return self.form.is_pair and not self.is_auto and not self.tell_apart

    def plain(self) -> dict[str, Any]:
        """The same as plain data; of a study of pairs as it ever was."""
        choice = self.preset_choice
        return {
            "space": self.space.definition(),
            "seed": self.seed,
            "method": self.method_name,
            "preset": choice if isinstance(choice, str) else asdict(choice),
            "first_pairs": self.first_pairs,
        } | self._since_0_3()

    def _since_0_3(self) -> dict[str, Any]:
        """What older versions did not know; left out where it is as it ever was."""
        question = {} if self.question == str(ONE_PAIR) else {"question": self.question}
        seconds = {"use_seconds": True} if self.use_seconds else {}
        apart = {"tell_apart": True} if self.tell_apart else {}
        outcomes = {} if self.outcomes is None else {"outcomes": self.outcomes.plain()}
        limits = {"limits": list(self.limits)} if self.limits else {}
        favourites = {"favourites": [dict(one) for one in self.favourites]} if self.favourites else {}
        render = {} if self.render is None else {"render": self.render}
        return question | seconds | apart | outcomes | limits | favourites | render

    @property
    def kinds(self) -> list[str]:
        """The kinds of question that this study can ask."""
        fewest = {
            name: questions_kind.FEWEST if kind in questions_kind.COUNTED else None
            for name, kind in questions_kind.NAMES.items()
        }
        return [name for name, designs in fewest.items() if self.can_ask(questions_kind.parse(name, designs))]

    def can_ask(self, form: Form) -> bool:
        """Whether this study can ask such questions."""
        try:
            self.asking(form)
        except InvalidValueError:
            return False
        return True

    def wanted(self, kind: str | None = None, designs: int | None = None) -> Form | None:
        """What a voter wishes to be asked, as in `Study.ask`, checked; None where that is left to the study."""
        if kind is None and designs is None:
            return None
        return self.asking(questions_kind.parse(self.form.kind if kind is None else kind, designs, what="kind"))

    def asking(self, form: Form) -> Form:
        """The form, if this study can ask such questions; or a sentence."""
        if not form.is_pair and find_method(self.method_name) != Method():
            raise InvalidValueError(
                f"Questions other than pairs need the method 'baseline', but this study has {self.method_name!r}."
            )
        return fits(form, self.space)


def stated(
    given: GivenSpace,
    *,
    seed: int,
    method: str,
    preset: str | Preset,
    first_pairs: int | None,
    question: str,
    use_seconds: bool,
    tell_apart: bool,
    render: str | None,
) -> Definition:
    """What a study says beside its outcomes, limits and favourites, checked."""
    if isinstance(method, Method):
        raise InvalidTypeError(
            "`method` must be a name in METHODS, because a study outlives its process, but got a Method."
        )
    _check_choices(find_method(method), method, {"use_seconds": use_seconds, "tell_apart": tell_apart})
    find_preset(preset)
    is_auto = question == AUTO
    form = FIRST_OF_AUTO if is_auto else questions_kind.parse(question, or_auto=True)
    first_pairs = _usual_first(method, preset, form) if first_pairs is None else first_pairs
    for name, value, least in (("seed", seed, 0), ("first_pairs", first_pairs, 1)):
        if not is_whole(value):
            raise InvalidTypeError(f"`{name}` must be a whole number, but got {value!r}.")
        if value < least:
            raise InvalidValueError(f"`{name}` must be {least} or more, but got {shown(value)}.")
    if first_pairs > MOST_FIRST_PAIRS:
        raise InvalidValueError(f"`first_pairs` must not pass {MOST_FIRST_PAIRS}, but got {shown(first_pairs)}.")
    if seed > LARGEST_SEED:
        raise InvalidValueError(f"`seed` must have 4096 bits at most, but got {shown(seed)}.")
    if render is not None:
        events.named_text("render", ":".join(split_name(render, "render")))
    return Definition(
        space(given), int(seed), method, preset, int(first_pairs), form, is_auto, use_seconds, tell_apart, render=render
    )


def completed(
    found: Definition, outcomes: Outcomes | None, limits: tuple[str, ...], favourites: Any, *, gave_first: bool
) -> Definition:
    """The definition with its outcomes, limits and favourites, if a study can have them all; or a sentence."""
    _check_hints(found, outcomes)
    return _with_favourites(replace(_asking(found), outcomes=outcomes, limits=limits), favourites, gave_first)


def _with_favourites(found: Definition, given: Any, gave_first: bool) -> Definition:
    """The definition with the designs that people came with, each checked; and as many first questions as they need."""
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise InvalidTypeError(f"`favourites` must be a list of designs, but got {given!r}.")
    designs: list[Design] = []
    places: list[list[float]] = []
    for place, one in enumerate(given):
        try:
            designs.append(found.space.check(one))
        except (InvalidValueError, InvalidTypeError, UnknownNameError) as error:
            raise type(error)(f"`favourites[{place}]`: {error}") from error
        at = found.space.encode(designs[-1])
        twin = next((i for i, other in enumerate(places) if found.space.near(other, at)), None)
        places.append(at)
        if twin is not None:
            raise InvalidValueError(
                f"`favourites[{place}]` must be told from the others, but it cannot be told from `favourites[{twin}]`; "
                "leave out one of them."
            )
    # A straight line has one of them at an end, and goes on beyond the other.
    each = 1 if found.form == STRAIGHT else found.form.designs
    needed = -(-len(designs) // each)
    if gave_first and found.first_pairs < needed:
        raise InvalidValueError(
            f"`first_pairs` must be {needed} or more for {len(designs)} favourites, but got {found.first_pairs}; leave "
            "it out, or some of them."
        )
    return replace(found, favourites=tuple(designs), first_pairs=max(found.first_pairs, needed))


def _check_hints(found: Definition, outcomes: Outcomes | None) -> None:
    """Hints are beliefs beside the answers; a correction is one of the answers' own Hessian, and knows no others."""
    hinted = [] if outcomes is None else [one.name for one in outcomes.table if one.better is not None]
    if hinted and find_method(found.method_name).correction != Method().correction:
        raise InvalidValueError(
            f"Hints need a method without a correction, such as 'baseline', but this study has {found.method_name!r} "
            f"and a hint about {hinted[0]!r}; leave out one of them."
        )


def check_reopened(study_name: str, stored: Definition, wanted: Definition) -> None:
    """A sentence where a study that goes on has another space than the given one, or was made to ask otherwise."""
    there, given = stored.space.definition(), wanted.space.definition()
    if there != given:
        different = sorted(name for name in there.keys() | given.keys() if there.get(name) != given.get(name))
        raise InvalidValueError(
            f"The parameters must be those of the stored study {study_name!r}, but they differ in "
            f"{', '.join(different)}; leave them as they were, `study.widen` and `study.narrow` change what is open, "
            "or another `study_name` makes a new study."
        )
    for option, default in (("question", str(ONE_PAIR)), ("use_seconds", False), ("tell_apart", False)):
        one, other = getattr(wanted, option), getattr(stored, option)
        if one not in (default, other):
            raise InvalidValueError(
                f"`{option}` must be that of the stored study {study_name!r}, {other!r}, but got {one!r}; leave it "
                "out, or another `study_name` makes a new study. A single question may be of another kind."
            )


def check_made(name: str, /, **given: bool) -> None:
    """A sentence where something is given, by name, that only a study in the making can be told."""
    told = [one for one, is_given in given.items() if is_given]
    if told:
        raise InvalidValueError(
            f"`{told[0]}` must be left out for a study that goes on, but got one for {name!r}: it was said when "
            "the study was made."
        )


def asks_pairs(chosen: Method) -> bool:
    """Whether a method is one for a study: it says how pairs are chosen, and nothing of what is asked or counts."""
    beside = chosen.use_seconds or chosen.tell_apart or chosen.use_outcomes
    return chosen.designs == PAIR and chosen.kind is Kind.PAIR and not beside


def _check_choices(chosen: Method, name: str, beside: Mapping[str, Any]) -> None:
    """A study's method says how pairs are chosen; what is asked, and what else counts, is said beside it."""
    if not asks_pairs(chosen):
        raise InvalidValueError(
            f"`method` must be one that asks pairs, but got {name!r}; a study is told otherwise by `question`, such as "
            "'choice:4', 'order:4', 'slider', 'rating' or 'auto', by `use_seconds`, `tell_apart` and `outcomes`."
        )
    for option, value in beside.items():
        if not isinstance(value, bool):
            raise InvalidTypeError(f"`{option}` must be True or False, but got {value!r}.")
        if value and chosen != Method():
            raise InvalidValueError(f"`{option}` needs the method 'baseline', but got {name!r}.")


def _asking(found: Definition) -> Definition:
    """The definition, if such a study can ask its questions; one that chooses their kind asks pairs in a tiny space."""
    if found.is_auto and found.space.size < found.form.designs:
        found = replace(found, form=ONE_PAIR)
    found.asking(found.form)
    return found


def _usual_first(method: str, preset: str | Preset, form: Form) -> int:
    """How many first questions there are of that form, where nobody says it."""
    asking = replace(find_method(method), kind=form.kind, designs=form.designs)
    return asking.first_questions(find_preset(preset).first_pairs)


def from_plain(data: Any) -> Definition:
    """The definition that `plain` wrote; one with an entry that this version does not know is refused.

    Its limits were met by some design when it was made, and are not computed again: they only must be understood.
    """
    try:
        table = dict(data)
        given = table.pop("space")
        preset = table["preset"]
        _refuse_unknown("definition", table, Options.__annotations__)
        if isinstance(preset, Mapping):
            _refuse_unknown("preset", preset, [field.name for field in fields(Preset)])
            preset = Preset(**preset)
        found = stated(
            given, seed=table["seed"], method=table["method"], preset=preset, first_pairs=table["first_pairs"],
            question=table.get("question", str(ONE_PAIR)), use_seconds=table.get("use_seconds", False),
            tell_apart=table.get("tell_apart", False), render=table.get("render"),
        )  # fmt: skip
        outcomes = None if table.get("outcomes") is None else read_outcomes(table["outcomes"])
        limits = tuple(table.get("limits", ()))
        for text in limits:
            space_limits.read(text, found.space)
        return completed(found, outcomes, limits, table.get("favourites", ()), gave_first=True)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptedError(f"A study's definition cannot be read: {error}") from error


def _refuse_unknown(what: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    """What a newer version stored must not open here as another model."""
    unknown = sorted(table.keys() - set(known))
    if unknown:
        raise StorageError(
            f"The study was made by a newer kappasharp: its {what} has {', '.join(map(repr, unknown))}, which this one "
            "does not know and would leave out. Nothing was changed; a newer clone, installed with `python -m pip "
            "install .`, reads it."
        )
