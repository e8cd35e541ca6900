/** How far a study is: answers, and what the model expects of the best design so far. */

/** @import { Pair, Standing, Study } from "./types.js" */
import { el, percent } from "./elements.js";

/**
 * @param {HTMLElement} place
 * @param {Study} study
 * @param {Pair} pair
 * @param {Standing | null} standing null while the model is asked: the figures of the answer before stay so long
 */
export function showProgress(place, study, pair, standing) {
  const started = pair.answers >= study.first_pairs;
  const count = `${pair.answers} ${pair.answers === 1 ? "answer" : "answers"}`;
  const shown = place.querySelector(".count");
  if (standing === null && started && shown !== null) {
    shown.textContent = count;
    return;
  }
  const best = started ? (standing?.best ?? null) : null;
  const words = [];
  if (!started) words.push(`${study.first_pairs - pair.answers} more before the model chooses`);
  if (best !== null) {
    words.push(`the best so far beats ${percent(best.beats_random)} of designs`, `room left ${percent(best.room_left)}`);
  }
  const done = best === null ? 0 : 1 - best.room_left;
  place.classList.remove("stale");
  place.replaceChildren(
    el("meter", { min: 0, max: 1, low: 0.5, high: 0.9, optimum: 1, value: done.toFixed(3), "aria-label": "Way to the best design" }),
    el("p", {}, el("span", { class: "count" }, count), ...words.map((one) => ` · ${one}`)),
  );
}
