/** Several designs at once: which is the best? */

/** @import { Compare } from "./compare.js" */
/** @import { Board, Design, Option, Pair } from "./types.js" */
import { apart, button, el, parameterLines, room, shown } from "./elements.js";
import { Faces, differences } from "./faces.js";
import { byKey } from "./keys.js";
import { Outcomes, outcomeHint } from "./outcomes.js";
import { listed, text } from "./texts.js";

/**
 * What stands under the pictures of a gallery: outcomes, or else where the designs differ; with no pictures, all of it.
 * @param {Compare} view
 * @param {Option[]} designs
 * @param {number} index
 * @param {Outcomes} outcomes
 */
export function galleryLines(view, designs, index, outcomes) {
  return view.study.has_pictures && view.study.outcomes !== null ? outcomes.on(index) : outcomes.on(index, values(view, designs, index));
}

/**
 * @param {Compare} view
 * @param {Option[]} designs
 * @param {number} index
 */
function values(view, designs, index) {
  const all = designs.map((one) => one.params);
  const { parameters, has_pictures: drawn } = view.study;
  return drawn ? differences(view, [all[index], ...all]) : parameterLines(parameters, all[index], all, { room: room(parameters, true), open: view.unfolded });
}

/**
 * What the designs share, in one line.
 * @param {Compare} view
 * @param {Design[]} designs
 */
export function sharedLine(view, designs) {
  const { same } = apart(view.study.parameters, designs);
  if (!same.length || !view.study.has_pictures || view.study.outcomes !== null) return null;
  const values = listed(same.map((one) => `${one.name} ${shown(designs[0][one.name])}`));
  if (same.length <= room(same, true)) return el("p", { class: "shared values quiet", hidden: view.blind }, text("gallery.shared", { values }));
  return el("details", { class: "shared values quiet", hidden: view.blind, open: view.unfolded }, el("summary", {}, text("gallery.sharedCount", { count: same.length })), values);
}

/**
 * @param {Compare} view
 * @param {Pair} pair
 * @returns {Promise<Board>}
 */
export async function board(view, pair) {
  const count = pair.designs.length;
  const marks = pair.designs.map((_, index) => String(index + 1));
  const faces = new Faces(view, "gallery", marks);
  faces.element.dataset.count = String(count);
  const choose = (/** @type {number} */ index, /** @type {MouseEvent} */ event) => {
    if (view.answer(index, event)) faces.cards[index].classList.add("chosen");
  };
  const outcomes = new Outcomes(view, pair, true);
  await faces.draw(pair.designs, (index) => ({
    lines: galleryLines(view, pair.designs, index, outcomes),
    badge: button(marks[index], (event) => choose(index, event), { kind: "badge answers", name: text("gallery.best", { mark: marks[index] }), shortcut: marks[index] }),
    choose: (event) => choose(index, event),
  }));
  const shared = sharedLine(view, pair.designs.map((one) => one.params));
  if (shared !== null) faces.element.append(shared);
  return {
    title: text("gallery.title", { count }),
    hint: [byKey(text("gallery.hintKeys")) || text("gallery.hint"), " ", ...outcomeHint(view.study.outcomes)],
    element: faces.element,
    choices: [],
    extras: [faces.flipButton],
    keys: [
      { keys: marks, label: `1 – ${count}`, words: text("gallery.keyBest"), action: (key) => { if (view.answer(Number(key) - 1)) faces.cards[Number(key) - 1].classList.add("chosen"); } },
      ...faces.keys,
    ],
    leave: () => {
      outcomes.gone = true;
    },
  };
}
