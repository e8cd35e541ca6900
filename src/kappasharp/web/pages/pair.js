/** Two designs, A and B: which is better, or by how much. */

/** @import { Compare } from "./compare.js" */
/** @import { Board, Key, Pair } from "./types.js" */
import { button, el, parameterLines, room } from "./elements.js";
import { Faces, differences } from "./faces.js";
import { Outcomes, outcomeHint } from "./outcomes.js";
import { text } from "./texts.js";
import { RATINGS, ratingWords } from "./wording.js";

const MARKS = ["A", "B"];

/**
 * @param {Compare} view
 * @param {Pair} pair
 * @returns {Promise<Board>}
 */
export async function board(view, pair) {
  const rated = pair.kind === "rating";
  const faces = new Faces(view, rated ? "pair rating" : "pair", MARKS);
  const outcomes = new Outcomes(view, pair, false);
  await faces.draw(pair.designs, (index) => ({
    className: "ab"[index],
    lines: outcomes.on(index, parameters(view, pair, index)),
    choose: rated ? undefined : (event) => view.answer("ab"[index], event),
  }));
  const { choices, keys } = rated ? scale(view) : sides(view);
  return {
    title: text(rated ? "rating.title" : "pair.title"),
    hint: outcomeHint(view.study.outcomes),
    element: faces.element,
    choices,
    extras: [faces.flipButton],
    keys: [...keys, ...faces.keys],
    leave: () => {
      outcomes.gone = true;
    },
  };
}

/**
 * The parameters of a design; where it has a picture and outcomes to be judged by, in few words.
 * @param {Compare} view
 * @param {Pair} pair
 * @param {number} index
 */
function parameters(view, pair, index) {
  const { parameters: all, outcomes, has_pictures: drawn } = view.study;
  const [own, other] = [pair.designs[index].params, pair.designs[1 - index].params];
  if (outcomes === null || !drawn) return parameterLines(all, own, [other], { room: room(all, drawn), open: view.unfolded });
  return differences(view, [own, other]);
}

/**
 * @param {Compare} view
 * @returns {{choices: HTMLElement[], keys: Key[]}}
 */
function sides(view) {
  const say = (/** @type {string} */ answer) => (/** @type {MouseEvent} */ event) => view.answer(answer, event);
  return {
    choices: [
      button(text("pair.better", { mark: "A" }), say("a"), { kind: "choice a", key: "←", shortcut: "ArrowLeft" }),
      button(text("pair.tie"), say("tie"), { kind: "choice", key: "↓", shortcut: "ArrowDown" }),
      button(text("pair.better", { mark: "B" }), say("b"), { kind: "choice b", key: "→", shortcut: "ArrowRight" }),
    ],
    keys: [
      { keys: ["ArrowLeft"], label: "←", words: text("pair.better", { mark: "A" }), action: () => view.answer("a") },
      { keys: ["ArrowRight"], label: "→", words: text("pair.better", { mark: "B" }), action: () => view.answer("b") },
      { keys: ["ArrowDown"], label: "↓", words: text("pair.tie"), action: () => view.answer("tie") },
    ],
  };
}

/**
 * Seven buttons from A much better to B much better.
 * @param {Compare} view
 * @returns {{choices: HTMLElement[], keys: Key[]}}
 */
function scale(view) {
  const choices = RATINGS.map(({ value, letter, much }, index) =>
    el(
      "button",
      {
        type: "button", class: `choice ${value > 0 ? "a" : value < 0 ? "b" : ""} much-${Math.abs(value)}`, "aria-label": ratingWords(value),
        "aria-keyshortcuts": String(index + 1), onclick: (/** @type {MouseEvent} */ event) => view.answer(value, event),
      },
      el("b", {}, letter),
      // There are seven in a row: where that is narrow, few letters.
      ...(much === "much" || much === "slightly"
        ? [el("span", { class: "wide" }, text(`rating.${much}Wide`)), el("span", { class: "narrow" }, text(`rating.${much}`))]
        : [el("span", {}, text(`rating.${much}`))]),
      el("kbd", { "aria-hidden": "true" }, index + 1),
    ),
  );
  const numbers = RATINGS.map((_, index) => String(index + 1));
  return {
    choices,
    keys: [{ keys: numbers, label: "1 – 7", words: text("rating.keyScale"), action: (key) => view.answer(RATINGS[Number(key) - 1].value) }],
  };
}
