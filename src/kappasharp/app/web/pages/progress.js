/** How far a study is: answers, and what the model expects of the best design so far. Figures older than the count say so. */

/** @import { Page, Pair, Standing, Study } from "./types.js" */
import { el, percent } from "./elements.js";
import { at, get, sentence } from "./talk.js";
import { pieces, text } from "./texts.js";

export class Progress {
  /**
   * @param {Page} page
   * @param {Study} study
   * @param {(standing: Standing) => void} heard
   */
  constructor(page, study, heard) {
    this.page = page;
    this.study = study;
    this.heard = heard;
    this.element = el("div", { class: "progress" });
    /** The question that is open. @type {Pair | null} */
    this.pair = null;
    /** The latest figures. @type {Standing | null} */
    this.standing = null;
    /** Whether they are of now. */
    this.fresh = false;
    this.asking = this.gone = this.failed = false;
    this.epoch = 0;
  }

  /**
   * Another question is open: its count is true at once, the figures are as old as they are.
   * @param {Pair} pair
   */
  show(pair) {
    this.fresh = this.failed = false;
    // What rests on an answer that was taken back is not older but wrong.
    if (this.pair !== null && pair.answers < this.pair.answers) this.forget();
    this.pair = pair;
    this.write();
  }

  forget() {
    this.standing = null;
    this.epoch += 1;
  }

  /** Ask for the figures, and again as long as there were answers meanwhile: one request at a time, however fast the answers come. */
  async follow() {
    if (this.asking) return;
    this.asking = true;
    try {
      while (!this.gone && !this.fresh) {
        const [asked, epoch] = [this.pair, this.epoch];
        /** @type {Standing} */
        const found = await get(at(this.study.id, "standing"));
        if (this.gone) return;
        if (epoch !== this.epoch) continue;
        this.standing = found;
        this.fresh = asked === this.pair;
        this.write();
        this.heard(found);
      }
    } catch (error) {
      // What is known stays, with its age: neither question nor answers hang on it.
      console.info(sentence(error));
      this.failed = true;
      this.write();
    } finally {
      this.asking = false;
    }
  }

  write() {
    const { pair, standing, study } = this;
    if (pair === null) return;
    // Other people may have answered since the question was put.
    const answers = this.fresh && standing !== null ? standing.answers : pair.answers;
    const best = answers < study.first_pairs ? null : (standing?.best ?? null);
    const age = standing === null || standing.answers === answers ? null : standing.answers;
    this.element.replaceChildren(
      el("meter", { min: 0, max: 1, low: 0.5, high: 0.9, optimum: 1, value: (best === null ? 0 : 1 - best.room_left).toFixed(3), "aria-label": text("progress.meter") }),
      el("p", {}, ...pieces("progress.line", { answers: el("span", { class: "count" }, text("progress.answers", { count: answers })), rest: words(study.first_pairs - answers, best, age, this.failed) })),
    );
  }
}

/**
 * What stands behind the count.
 * @param {number} left answers before the model chooses
 * @param {Standing["best"]} best
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
