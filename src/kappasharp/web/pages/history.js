/** History: every answer, to look at, turn round, take out or ask again. Each change is one more event. */

/** @import { Answer, Page, Past, Row, Standing, View } from "./types.js" */
import { thumbnail } from "./cards.js";
import { button, duration, el, folded, foremost, renew, valueWords } from "./elements.js";
import { sure } from "./fields.js";
import { at, following, get, post } from "./talk.js";
import { numeral, text } from "./texts.js";
import { answerWords } from "./wording.js";

const AT_ONCE = 50;
/** So many values of a design are shown; more are behind a fold. */
const VALUES = 4;

/**
 * @param {Page} page
 * @param {HTMLElement} root
 * @returns {Promise<View>}
 */
export async function open(page, root) {
  const history = new History(page, root);
  await history.draw();
  return following(() => history.draw(), () => history.since);
}

class History {
  /**
   * @param {Page} page
   * @param {HTMLElement} root
   */
  constructor(page, root) {
    this.page = page;
    this.study = /** @type {NonNullable<Page["study"]>} */ (page.study);
    this.most = AT_ONCE;
    this.since = -1;
    /** The rows that are there, by their answers' events, and what each was made of. @type {Map<number, {was: string, row: HTMLElement}>} */
    this.rows = new Map();
    /** @type {HTMLElement | null} */
    this.table = null;
    this.notes = el("div", {});
    this.rest = el("div", {});
    this.title = el("h1", {}, text("history.title"));
    this.changed = el("div", { "aria-live": "polite" });
    this.body = el("div", {});
    this.body.append(this.notes, this.rest);
    root.append(this.title, this.changed, this.body);
  }

  async draw() {
    /** @type {Past} */
    const past = await get(at(this.study.id, "history"));
    this.since = past.since;
    const skips = past.rows.filter((one) => one.answer === "skip").length;
    const answers = text("history.count", { count: past.rows.length - skips });
    this.title.textContent = skips ? text("history.withSkips", { answers, skips: text("history.skips", { count: skips }) }) : answers;
    this.drawRows(past);
    this.notes.replaceChildren(
      ...(past.queue ? [note(text("history.waiting", { count: past.queue }))] : []),
      ...(past.cycle.length > 2 ? [note(text("history.circle", { path: past.cycle.reduceRight((rest, one) => text("history.over", { first: `#${one}`, rest }), `#${past.cycle[0]}`) }))] : []),
    );
    const rest = el("div", {},
      past.rows.length ? null : el("p", { class: "empty" }, text(this.page.may("voter") ? "history.empty" : "history.emptyViewer")),
      past.rows.length > this.most ? button(text("history.earlier", { count: past.rows.length - this.most }), () => this.drawAll()) : null,
      past.removed.length ? this.removed(past) : null,
    );
    this.rest = /** @type {HTMLDivElement} */ (renew(this.rest, rest));
    void this.markSurprises();
  }

  /**
   * The rows of the table: those that are there and still true are left alone, with the focus that may be on them.
   * @param {Past} past
   */
  drawRows(past) {
    const made = past.rows.length ? table(text("history.answers"), [], past.rows) : null;
    const [heads, known] = [made, this.table].map((one) => one?.querySelector("thead") ?? null);
    if (heads === null || !heads.isEqualNode(known)) {
      this.table?.remove();
      if (made !== null) this.rest.before(made);
      this.table = made;
      this.rows.clear();
    }
    const before = this.rows;
    this.rows = new Map();
    for (const one of past.rows.slice(0, this.most)) {
      const [was, there] = [JSON.stringify(one), before.get(one.event)];
      before.delete(one.event);
      if (there?.was === was) this.rows.set(one.event, there);
      else {
        const row = this.row(one, past, this.actions(one));
        this.rows.set(one.event, { was, row });
        if (there !== undefined) renew(there.row, row);
      }
    }
    for (const { row } of before.values()) row.remove();
    const body = this.table?.querySelector("tbody") ?? null;
    let next = body?.firstElementChild ?? null;
    for (const { row } of this.rows.values()) {
      if (row === next) next = next.nextElementSibling;
      else body?.insertBefore(row, next);
    }
  }

  drawAll() {
    this.most = Infinity;
    void this.draw();
  }

  /** @param {Past} past */
  removed(past) {
    const rows = past.removed.map((one) => this.row(one, past, !this.mayChange(one) ? [] : [
      button(text("history.putBack"), () => void this.change("amend", { event: one.event, answer: one.answer }, text("history.countsAgain", { number: one.number }), null),
        { name: text("history.putBackNumber", { number: one.number }) })]));
    return el("details", { class: "removed" }, el("summary", {}, text("history.deletedCount", { count: rows.length })), table(text("history.deleted"), rows, past.removed));
  }

  async markSurprises() {
    try {
      /** @type {Standing} */
      const { surprises } = await get(at(this.study.id, "standing"));
      for (const one of this.body.querySelectorAll(".flag.surprised")) one.remove();
      for (const event of surprises) {
        this.body.querySelector(`[data-event="${event}"] .flags`)?.append(el("span", { class: "flag surprised" }, text("history.surprised")));
      }
    } catch (error) {
      this.page.fail(error);
    }
  }

  /**
   * Have something changed, and say how to take it back.
   * @param {string} what
   * @param {object} data
   * @param {string} done
   * @param {object | null} back what takes it back
   */
  async change(what, data, done, back) {
    try {
      await post(at(this.study.id, what), { ...data, voter: this.page.voter });
      await this.draw();
      const undo = back === null ? null : button(text("history.takeBack"), () => void this.change(what, back, text("history.takenBack"), null));
      this.changed.replaceChildren(el("p", { class: "note row" }, done, undo));
      undo?.focus();
    } catch (error) {
      this.page.fail(error);
    }
  }

  /** Whether who looks may change an answer. @param {Row} one */
  mayChange(one) {
    return this.page.may("owner") || (this.page.may("voter") && one.voter === this.page.voter);
  }

  /** @param {Row} one */
  actions(one) {
    if (!this.mayChange(one)) return [];
    const turned = turnedRound(one);
    const { event, number, answer } = one;
    return [
      button(text("history.turn"), async () => {
        if (turned === null) return;
        const words = text("history.turnMeans", { number, now: answerWords(one.kind, answer), then: answerWords(one.kind, turned) });
        if (await sure(words, text("history.turn"), text("page.cancel"), text("history.turnAsk", { number }))) await this.change("amend", { event, answer: turned }, text("history.turned", { number }), { event, answer });
      }, { name: text("history.turnNumber", { number }), disabled: turned === null }),
      button(text("history.delete"), async () => {
        const words = text("history.deleteMeans");
        if (await sure(words, text("history.delete"), text("page.cancel"), text("history.deleteAsk", { number }))) await this.change("amend", { event, answer: null }, text("history.countsNoMore", { number }), { event, answer });
      }, { name: text("history.deleteNumber", { number }) }),
      button(text("history.again"), () => void this.change("again", { pair: one.pair }, text("history.willAsk"), null),
        { name: text("history.againNumber", { number }), disabled: one.pair === null }),
    ];
  }

  /**
   * @param {Row} one
   * @param {Past} past
   * @param {HTMLElement[]} actions
   */
  row(one, past, actions) {
    const flags = one.contradicts.map((other) => el("span", { class: "flag bad" }, text("history.contradicts", { number: other })));
    if (one.amended) flags.push(el("span", { class: "flag" }, text("history.changed")));
    if (one.origin === "elsewhere") flags.push(el("span", { class: "flag" }, text("history.elsewhere")));
    return el(
      "tr",
      { "data-event": one.event },
      el("th", { scope: "row", "data-label": text("history.answer") }, one.number),
      ...(one.kind === "pair" || one.kind === "rating" ? this.sides(one, past) : [this.several(one, past)]),
      el("td", { class: "said" }, el("b", {}, said(one)), el("span", { class: "flags" }, ...flags)),
      el("td", { "data-label": text("history.voter") }, one.voter, one.program ? el("span", { class: "flags" }, el("span", { class: "flag" }, text("history.program"))) : null),
      el("td", { "data-label": text("history.thought") }, duration(one.seconds)),
      el("td", { class: "actions" }, ...actions),
    );
  }

  /**
   * The two designs of a pair or a rating.
   * @param {Row} one
   * @param {Past} past
   */
  sides(one, past) {
    const rated = typeof one.answer === "number" ? one.answer : 0;
    const won = [one.answer === "a" || rated > 0, one.answer === "b" || rated < 0];
    return one.options.map((option, index) =>
      el("td", { class: `side ${won[index] ? "won" : ""}`, "data-label": "AB"[index] },
        thumbnail(this.page, option), this.values(option, one, past), won[index] ? el("span", { class: "unseen" }, text("history.preferred")) : null));
  }

  /**
   * The designs of a choice or an order, the best first where that was said; or the place of a slider.
   * @param {Row} one
   * @param {Past} past
   */
  several(one, past) {
    const { groups, rest } = inOrder(one);
    const first = one.answer === "skip" ? -1 : 0;
    const tiles = groups.flatMap((group, rank) => group.map((index, nth) => {
      const option = one.options[index];
      const joint = one.kind === "order" && (rank || nth) ? el("span", { class: "joint" }, !nth ? ">" : rank === rest ? "·" : "=") : null;
      return el("div", { class: rank === first ? "won" : null }, joint,
        el("div", {}, thumbnail(this.page, option), rank === first ? el("span", { class: "unseen" }, text("history.theBest")) : null, this.values(option, one, past)));
    }));
    return el("td", { colspan: 2, class: "several" }, el("div", {}, ...tiles));
  }

  /**
   * The values of a design: where it differs most from the others of its question, the rest behind a fold.
   * @param {number} option
   * @param {Row} one
   * @param {Past} past
   */
  values(option, one, past) {
    const own = past.options[option];
    const designs = [own, ...one.options.filter((other) => other !== option).map((other) => past.options[other])];
    const { first, rest, differing } = foremost(this.study.parameters, designs, VALUES);
    const told = Object.entries(past.outcomes[option] ?? {}).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, numeral(value))));
    return el("div", { class: "design" }, told.length ? el("dl", { class: "words told-outcomes" }, ...told) : null, folded(valueWords(first, own), rest, differing, false, (more) => valueWords(more, own)));
  }
}

/**
 * The designs of an answer by their places in the question, those it puts first in front; which group has no order.
 * @param {Row} one
 * @returns {{groups: number[][], rest: number}}
 */
function inOrder(one) {
  const all = one.options.map((_, index) => index);
  if (one.kind === "choice" && typeof one.answer === "number") return { groups: [[one.answer], all.filter((index) => index !== one.answer)], rest: 1 };
  if (!Array.isArray(one.answer)) return { groups: [all], rest: 0 };
  const named = one.answer.map((group) => (Array.isArray(group) ? group : [group]));
  const rest = all.filter((index) => !named.flat().includes(index));
  return { groups: rest.length ? [...named, rest] : named, rest: named.length };
}

/** @param {Row} one */
function said(one) {
  if (one.answer === "skip") return text("answer.skip");
  if (one.kind === "choice") return text("history.bestOf", { count: one.options.length });
  if (!Array.isArray(one.answer)) return answerWords(one.kind, one.answer);
  const named = one.answer.flat().length;
  const count = one.options.length;
  return named < count - 1 ? text("history.topOf", { some: named, count }) : text("history.orderOf", { count });
}

/**
 * The opposite of an answer, where there is one.
 * @param {Row} one
 * @returns {Answer | null}
 */
function turnedRound(one) {
  if (one.kind === "rating" && typeof one.answer === "number") return one.answer === 0 ? null : -one.answer;
  return one.answer === "a" ? "b" : one.answer === "b" ? "a" : null;
}

/**
 * @param {string} name
 * @param {HTMLElement[]} rows
 * @param {Row[]} answers
 */
function table(name, rows, answers) {
  const sided = answers.some((one) => one.kind === "pair" || one.kind === "rating");
  const designs = sided ? ["A", "B"].map((one) => el("th", { scope: "col" }, one)) : [el("th", { scope: "col", colspan: 2 }, text("history.designs"))];
  const [number, ...rest] = [text("history.number"), text("history.answer"), text("history.voter"), text("history.thought")].map((one) => el("th", { scope: "col" }, one));
  const heads = [number, ...designs, ...rest];
  return el(
    "div",
    { class: "panel scroll", tabindex: "0", role: "region", "aria-label": name },
    el("table", { class: "history" },
      el("thead", {}, el("tr", {}, ...heads, el("th", { scope: "col" }, el("span", { class: "unseen" }, text("history.changes"))))),
      el("tbody", {}, ...rows)),
  );
}

/** @param {string} words */
function note(words) {
  return el("p", { class: "note" }, words);
}
