/** What a design leads to: its outcomes on the cards, and which of the designs has more of each. */

/** @import { Compare } from "./compare.js" */
/** @import { OutcomeRow, OutcomeTable, Pair, Ranges, Told } from "./types.js" */
import { el, rail } from "./elements.js";
import { at, get, sentence } from "./talk.js";
import { listed, numeral, pieces, text } from "./texts.js";
import { saidLine } from "./wording.js";

/**
 * Which way is better, as it was said; or that the function of the outcomes is missing.
 * @param {OutcomeTable | null} outcomes
 * @returns {(string | HTMLElement)[]}
 */
export function outcomeHint(outcomes) {
  if (outcomes === null) return [];
  if (outcomes.missing !== null) return [saidLine(outcomes.missing, null, "span")];
  const names = (/** @type {string} */ way) => outcomes.table.filter((one) => one.better === way).map((one) => one.name);
  const [less, more] = [names("less"), names("more")];
  if (less.length === outcomes.table.length) return [text("outcomes.lessOfEach")];
  if (more.length === outcomes.table.length) return [text("outcomes.moreOfEach")];
  if (less.length && more.length) return [text("outcomes.both", { less: listed(less), more: listed(more) })];
  return less.length ? [text("outcomes.less", { less: listed(less) })] : more.length ? [text("outcomes.more", { more: listed(more) })] : [];
}

/**
 * How a value stands beside others, all as they are written: an arrow, words for those who do not see it, and whether that is said to be better.
 * @param {OutcomeRow} row
 * @param {number} value
 * @param {number[]} others
 */
function standing(row, value, others) {
  const [low, high] = [Math.min(value, ...others), Math.max(value, ...others)];
  if (!others.length || low === high || (value !== low && value !== high)) return null;
  const up = value === high;
  const way = others.length > 1 ? (up ? "top" : "bottom") : up ? "up" : "down";
  const kind = !row.better ? "plain" : (row.better === "more") === up ? "good" : "worse";
  return el("span", { class: `standing ${kind}` }, el("span", { "aria-hidden": "true" }, up ? "▲" : "▼"), el("span", { class: "unseen" }, " ", text(`outcomes.${way}.${kind}`)));
}

/**
 * The outcomes of one design: a line each with its place in the range, or a few words each.
 * @param {OutcomeTable} outcomes
 * @param {Ranges} ranges
 * @param {Told} own
 * @param {Told[]} others
 * @param {boolean} [brief]
 */
export function outcomeLines(outcomes, ranges, own, others, brief = false) {
  const words = () => (own.state === "computing" ? [text("outcomes.computing")] : pieces("outcomes.note", { sentence: saidLine(own.sentence, null, "span") }));
  if (own.state !== "known") return el("p", { class: `outcome-note ${own.state}`, role: "note" }, ...words());
  const value = (/** @type {Told} */ told, /** @type {string} */ name) => told.values.find((one) => one.name === name);
  const lines = outcomes.table.map((row) => {
    const here = value(own, row.name);
    if (here === undefined) return [el("dt", { title: row.name }, row.name), el("dd", {}, brief ? "–" : el("span", { class: "number" }, "–", el("span", { class: "standing" })))];
    const there = others.flatMap((one) => value(one, row.name) ?? []);
    const mark = standing(row, Number(here.words), there.map((one) => Number(one.words)));
    if (brief) return [el("dt", {}, row.name), el("dd", {}, numeral(here.words), mark ?? el("span", { class: "standing" }))];
    const [low, high] = ranges[row.name] ?? [here.value, here.value];
    const place = (/** @type {number} */ one) => (high > low ? Math.min(Math.max((one - low) / (high - low), 0), 1) : 0.5);
    return [
      el("dt", { title: row.name }, row.name),
      el("dd", { class: mark === null ? null : "differs" }, rail(place(here.value), place((there.length === 1 ? there[0] : here).value)), el("span", { class: "number" }, numeral(here.words), mark ?? el("span", { class: "standing" }))),
    ];
  });
  return el("dl", { class: brief ? "words" : "parameters" }, ...lines.map((line) => el("div", {}, ...line)));
}

/** The outcomes on the cards of one question; those that are being computed take their place when they come. */
export class Outcomes {
  /**
   * @param {Compare} view
   * @param {Pair} pair
   * @param {boolean} brief
   */
  constructor(view, pair, brief) {
    this.view = view;
    this.pair = pair;
    this.brief = brief;
    this.table = view.study.outcomes;
    this.elements = pair.designs.map((_, index) => el("div", { class: "outcomes", "data-index": index, "aria-live": "polite" }));
    this.gone = false;
    this.show();
    void this.follow();
  }

  /**
   * What stands on a card, and what stands below it.
   * @param {number} index
   * @param {...HTMLElement} rest
   */
  on(index, ...rest) {
    return el("div", {}, this.table === null ? null : this.elements[index], ...rest);
  }

  show() {
    const told = this.pair.designs.map((one) => one.outcomes);
    for (const [index, element] of this.elements.entries()) {
      const own = told[index];
      if (this.table === null || own === undefined) continue;
      const others = told.filter((one, other) => other !== index && one !== undefined);
      element.replaceChildren(outcomeLines(this.table, this.pair.ranges ?? {}, own, /** @type {Told[]} */ (others), this.brief));
    }
  }

  async follow() {
    while (!this.gone && this.pair.designs.some((one) => one.outcomes?.state === "computing")) {
      try {
        /** @type {{outcomes: Told[], ranges: Ranges}} */
        const found = await get(at(this.view.study.id, `outcomes/${this.pair.number}`));
        this.pair.ranges = found.ranges;
        for (const [index, one] of found.outcomes.entries()) this.pair.designs[index].outcomes = one;
      } catch (error) {
        for (const one of this.pair.designs) {
          if (one.outcomes?.state === "computing") one.outcomes = { state: "failed", values: [], sentence: sentence(error) };
        }
      }
      this.show();
      if (!this.gone) this.view.fit();
    }
  }
}
