/** How far a study is: answers, and what the model expects of the best design so far. Figures older than the count say so. */

/** @import { News, Pair, Study } from "./types.js" */
import { el, percent } from "./elements.js";
import { pieces, text } from "./texts.js";

/** Where so many answers came since a question was chosen, it is told. */
const OLD = 10;

export class Progress {
  /**
   * @param {Study} study
   * @param {(standing: NonNullable<News["standing"]>) => void} heard
   */
  constructor(study, heard) {
    this.study = study;
    this.heard = heard;
    this.element = el("div", { class: "progress" });
    /** The question that is open. @type {Pair | null} */
    this.pair = null;
    /** The latest figures. @type {News["standing"]} */
    this.standing = null;
    this.failed = false;
    /** How many answers there are, and the event of the study that this was true after. */
    this.answers = this.since = 0;
    /** Figures from before this event rest on an answer that was taken back: they are not older but wrong. */
    this.valid = 0;
  }

  /**
   * Another question is open: its count is true at once, the figures are as old as they are.
   * @param {Pair} pair
   */
  show(pair) {
    this.pair = pair;
    this.count(pair.since, pair.answers);
    this.write();
  }

  /**
   * Somebody answered, or newer figures are there; the question stays as it is.
   * @param {News} now
   */
  hear(now) {
    this.count(now.since, now.answers);
    this.failed = now.failed;
    const found = now.standing;
    if (found !== null && found.since >= Math.max(this.valid, this.standing?.since ?? 0)) {
      this.standing = found;
      this.heard(found);
    }
    this.write();
  }

  /**
   * @param {number} since
   * @param {number} answers
   */
  count(since, answers) {
    if (since < this.since) return;
    if (answers < this.answers) this.valid = since;
    if (this.standing !== null && this.standing.since < this.valid) this.standing = null;
    [this.since, this.answers] = [since, answers];
  }

  write() {
    const { pair, standing, study, answers } = this;
    if (pair === null) return;
    const best = answers < study.first_pairs ? null : (standing?.best ?? null);
    const age = standing === null || standing.answers === answers ? null : standing.answers;
    const old = pair.rests_on !== null && pair.answers - pair.rests_on >= OLD ? el("span", { class: "chosen" }, " · ", text("progress.chosen", { number: pair.rests_on })) : "";
    const fresh = el("div", { class: "progress" },
      el("meter", { min: 0, max: 1, low: 0.5, high: 0.9, optimum: 1, value: (best === null ? 0 : 1 - best.room_left).toFixed(3), "aria-label": text("progress.meter") }),
      el("p", {}, ...pieces("progress.line", { answers: el("span", { class: "count" }, text("progress.answers", { count: answers })), rest: words(study.first_pairs - answers, best, age, this.failed) }), old),
    );
    // What says the same is left alone: a screen reader would read it again.
    if (!fresh.isEqualNode(this.element)) this.element.replaceChildren(...fresh.children);
  }
}

/**
 * What stands behind the count.
 * @param {number} left answers before the model chooses
 * @param {NonNullable<News["standing"]>["best"]} best
 * @param {number | null} age the number of answers that the figures rest on, where there are more now
 * @param {boolean} failed whether newer figures did not come
 */
function words(left, best, age, failed) {
  if (left > 0) return text("progress.left", { count: left });
  if (best === null) return text(failed ? "progress.failed" : "progress.computing");
  const figures = { share: percent(best.beats_random), room: percent(best.room_left) };
  if (age === null) return text("progress.now", figures);
  return text("progress.then", { ...figures, number: age });
}
