"""Tables as data, and the three ways to write them down: Markdown, LaTeX, HTML."""

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass

from kappasharp.lab.analysis import style
from kappasharp.lab.analysis.results import BASELINE, Results, Setting, paper
from kappasharp.lab.analysis.statistics import FAMILY, PairedComparison, Verdict, tally

LATEX = {"%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#", "±": r"$\pm$", "−": "$-$", "≥": r"$\ge$", "η": r"$\eta$"}
LATEX |= {
    "†": r"$^\dagger$",
    "‡": r"$^\ddagger$",
    "*": "$^*$",
    "–": "--",
    "<": "$<$",
    "κ": r"$\kappa$",
    "τ": r"$\tau$",
    "α": r"$\alpha$",
}


PAPERS_QUERIES = 50


@dataclass(frozen=True)
class Entry:
    """A text, and whether it is good or bad news."""

    text: str
    mood: Verdict | None = None


@dataclass(frozen=True)
class Table:
    """A title, a note below, a header and rows; the first column is text."""

    title: str
    note: str
    header: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]


def markdown(table: Table) -> str:
    """As GitHub-flavoured Markdown."""
    lines = [f"### {table.title}", "", _bar(table.header), _bar(["---", *["---:"] * (len(table.header) - 1)])]
    lines += [_bar([_marked(cell) for cell in row]) for row in table.rows]
    return "\n".join([*lines, "", _escaped(table.note), ""])


def latex(table: Table) -> str:
    """As a LaTeX table with booktabs."""
    body = [" & ".join(_tex(cell.text) for cell in row) + r" \\" for row in table.rows]
    head = " & ".join(_tex(text) for text in table.header) + r" \\"
    columns = "l" + "r" * (len(table.header) - 1)
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_tex(table.title)}. {_tex(table.note)}}}", r"\small"]
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
    return "\n".join([*lines, r"\end{tabular}", r"\end{table}", ""])


def hypertext(table: Table) -> str:
    """As HTML; good and bad news are coloured, and said in words for those who do not see colours."""
    head = "".join(f"<th>{html.escape(text)}</th>" for text in table.header)
    rows = "".join(f"<tr>{''.join(_td(cell, at) for at, cell in enumerate(row))}</tr>" for row in table.rows)
    return (
        f"<figure class=table><figcaption>{html.escape(table.title)}</figcaption><div class=scroll>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        f"<p class=note>{html.escape(table.note)}</p></figure>"
    )


def _bar(texts: Iterable[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _marked(cell: Entry) -> str:
    text = _escaped(cell.text)
    return f"**{text}**" if cell.mood in (Verdict.WIN, Verdict.LOSS) else text


def _escaped(text: str) -> str:
    """Markdown's own signs as they are."""
    return "".join("\\" + letter if letter in "*|_" else letter for letter in text)


def _tex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


def _td(cell: Entry, column: int) -> str:
    name = "th" if column == 0 else "td"
    mood = "" if cell.mood is None else f" class={cell.mood.value} title={cell.mood.value}"
    return f"<{name}{mood}>{html.escape(cell.text)}</{name}>"


def number(value: float, digits: int = 3) -> str:
    """A number for people: a true minus sign, a dash for what is not there."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def gain(one: PairedComparison | None) -> Entry:
    """A gain with the paper's stars, and † where it survives Holm's correction."""
    if one is None or math.isnan(one.difference):
        return Entry("–")
    kept = "†" if one.verdict_holm is not Verdict.NEUTRAL else ""
    # In per cent of next to nothing every difference is a thousand.
    is_of_nothing = abs(one.baseline.mean) <= 2.0 * one.baseline.sd / math.sqrt(max(one.pairs, 1))
    shown = f"Δ {one.difference:+.2g}" if is_of_nothing else f"{one.gain_percent:+.1f}"
    return Entry(shown.replace("-", "−") + one.stars + kept, one.verdict)


STARS = (
    "* p < 0.05, ** p < 0.01 (paired t-test, uncorrected, as in the paper); † still p < 0.05 after Holm's "
    f"correction. {FAMILY}. Δ the difference itself, where the baseline's mean cannot be told from zero. "
    "‡ the paper's utility is not public: absolute values there and here are not comparable."
)


def main_table(results: Results, preset: str, initialization: str) -> Table:
    """The paper's Table 1 with the paper's own value beside ours. [tab:main]"""
    methods = _compared_methods(results)
    header = ["problem", "runs", "baseline", "paper's"]
    header += [text for name in methods for text in (name, "gain %", "paper's")]
    stated, compared = paper(), results.comparisons(preset)
    rows = []
    for problem in results.experiment.problems:
        base = results.sample(Setting(problem, initialization, BASELINE, preset))
        theirs = stated["table1"].get(problem, {}).get(BASELINE) if _is_papers(results, initialization) else None
        row = [_problem(problem), Entry(str(len(base.values))), Entry(f"{number(base.mean)} ± {number(base.sd)}")]
        row.append(Entry(f"{number(theirs[0])} ± {number(theirs[1])}" if theirs else "–"))
        for name in methods:
            setting = Setting(problem, initialization, name, preset)
            sample = results.sample(setting)
            row += [
                Entry(f"{number(sample.mean)} ± {number(sample.sd)}"),
                gain(compared.get(setting)),
                _stated(results, initialization, problem, name),
            ]
        rows.append(tuple(row))
    rows.append(_tally_row(results, preset, initialization, blanks_first=3, blanks_between=1))
    title = f"Final best utility, {initialization}, preset {preset}: mean ± sd, gain over the baseline"
    return Table(title, STARS, tuple(header), tuple(rows))


def gain_table(results: Results, preset: str, initialization: str, title: str) -> Table:
    """Gains of every method, each with the paper's beside it where the paper states one."""
    methods = _compared_methods(results)
    header = ["problem"] + [text for name in methods for text in (name, "paper's")]
    compared = results.comparisons(preset)
    rows = []
    for problem in results.experiment.problems:
        row = [_problem(problem)]
        for name in methods:
            row += [
                gain(compared.get(Setting(problem, initialization, name, preset))),
                _stated(results, initialization, problem, name),
            ]
        rows.append(tuple(row))
    rows.append(_tally_row(results, preset, initialization))
    return Table(
        f"{title}, {initialization}, preset {preset}: gain % over the baseline", STARS, tuple(header), tuple(rows)
    )


def robustness_table(results: Results, preset: str, method: str) -> Table:
    """A method's gain in every problem and initialization. [app:init_robustness]"""
    compared = results.comparisons(preset)
    initializations = results.experiment.initializations
    rows = [
        (_problem(problem), *(gain(compared.get(Setting(problem, name, method, preset))) for name in initializations))
        for problem in results.experiment.problems
    ]
    every = [one for setting, one in compared.items() if setting.method == method]
    note = f"Win / loss / neutral: {tally([one.verdict for one in every])} uncorrected, "
    note += f"{tally([one.verdict_holm for one in every])} after Holm's correction, {len(every)} cells in all. {STARS}"
    return Table(
        f"{method}: gain % by initialization, preset {preset}", note, ("problem", *initializations), tuple(rows)
    )


def time_table(results: Results, preset: str, initialization: str) -> Table:
    """Seconds per run, one run at a time. [tab:wallclock]"""
    methods = list(results.experiment.methods)
    stated = paper()["wallclock"]
    rows = []
    for problem in results.experiment.problems:
        means = {name: _seconds(results, Setting(problem, initialization, name, preset)) for name in methods}
        shown = [Entry(number(means[name], 2)) for name in methods]
        theirs = stated.get(problem)
        rows.append((Entry(problem), *shown, Entry(f"{theirs[0]}, {theirs[1]}" if theirs else "–")))
    note = "The paper's seconds are its baseline's and its correction's, on other machines: compare ratios."
    return Table(f"Seconds per run, preset {preset}", note, ("problem", *methods, "paper's"), tuple(rows))


def _seconds(results: Results, setting: Setting) -> float:
    """Mean seconds of the runs that ran by themselves; a run out of a batch has no time of its own."""
    alone = [row["seconds"] for row in results.rows.get(setting, {}).values() if row["block_runs"] == 1]
    return sum(alone) / len(alone) if alone else math.nan


def _problem(name: str) -> Entry:
    return Entry(name + ("‡" if name in paper()["not_comparable"] else ""))


def _stated(results: Results, initialization: str, problem: str, method: str) -> Entry:
    if not _is_papers(results, initialization):
        return Entry("–")
    return Entry(str(paper()["gains"].get(problem, {}).get(method, "–")).replace("-", "−"))


def _is_papers(results: Results, initialization: str) -> bool:
    """Whether a table shows what the paper's tables show: their initialization, their number of questions."""
    return initialization == style.PAPERS_INITIALIZATION and results.experiment.queries == PAPERS_QUERIES


def _tally_row(
    results: Results, preset: str, initialization: str, *, blanks_first: int = 0, blanks_between: int = 0
) -> tuple[Entry, ...]:
    """Wins, losses and neutral cells of every method, uncorrected and corrected."""
    row = [Entry("W / L / N, and after Holm"), *[Entry("")] * blanks_first]
    for method in _compared_methods(results):
        found = results.comparisons(preset).items()
        every = [one for at, one in found if (at.method, at.initialization) == (method, initialization)]
        plain, strict = tally([one.verdict for one in every]), tally([one.verdict_holm for one in every])
        row += [*[Entry("")] * blanks_between, Entry(plain), Entry(strict)]
    return tuple(row)


def _compared_methods(results: Results) -> list[str]:
    return [name for name in results.experiment.methods if name != BASELINE]
