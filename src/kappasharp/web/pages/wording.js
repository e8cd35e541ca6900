/** What is said of kinds of question, of answers to them, and by the server, in words. Places are counted from 1, as the page shows them. */

/** @import { Answer, Kind, Said, Study } from "./types.js" */
import { el, percent } from "./elements.js";
import { inWords } from "./fields.js";
import { spoken, text } from "./texts.js";

/** A study that chooses anew what it asks. */
export const AUTO = /** @type {const} */ ("auto");

/** From A much better to B much better. @type {{value: number, letter: string, much: "much" | "plain" | "slightly" | "equal"}[]} */
export const RATINGS = [
  { value: 3, letter: "A", much: "much" },
  { value: 2, letter: "A", much: "plain" },
  { value: 1, letter: "A", much: "slightly" },
  { value: 0, letter: "=", much: "equal" },
  { value: -1, letter: "B", much: "slightly" },
  { value: -2, letter: "B", much: "plain" },
  { value: -3, letter: "B", much: "much" },
];

/** @param {number} value */
export function ratingWords(value) {
  const one = RATINGS.find((row) => row.value === value);
  return one === undefined || one.much === "equal" ? text("answer.rated.equal") : text(`answer.rated.${one.much}`, { mark: one.letter });
}

/**
 * An answer as it is said back.
 * @param {Kind} kind
 * @param {Answer} answer
 */
export function answerWords(kind, answer) {
  if (answer === "skip") return text("answer.skip");
  if (Array.isArray(answer)) return answer.map((one) => (Array.isArray(one) ? one.map((each) => each + 1).join(" = ") : String(one + 1))).join(" > ");
  if (typeof answer === "string") return answer === "tie" ? text("answer.tie") : text("answer.preferred", { mark: answer.toUpperCase() });
  if (kind === "choice") return text("answer.best", { mark: answer + 1 });
  return kind === "slider" ? text("answer.place", { share: percent(answer) }) : ratingWords(answer);
}

/**
 * "order:4" as "an order of 4".
 * @param {string} form
 * @param {boolean} [alone] where no words stand before it
 */
export function formWords(form, alone = false) {
  const [kind, count] = /** @type {[Kind | "auto", string]} */ (form.split(":"));
  return text(alone ? `kind.${kind}.form` : `kind.${kind}.one`, { count });
}

/**
 * The forms that a study can ask for, its usual one first.
 * @param {Study} study
 */
export function formsOf(study) {
  const [usual, count = "4"] = study.question.split(":");
  const gallery = usual === "slider" ? "4" : count;
  const counted = { choice: gallery, order: gallery, slider: usual === "slider" ? count : "4" };
  const all = study.kinds.map((kind) => (kind in counted ? `${kind}:${counted[/** @type {keyof typeof counted} */ (kind)]}` : kind));
  return [...new Set([...(study.question === AUTO ? [] : [study.question]), ...all])];
}

/**
 * A sentence of the server as a line of its own.
 * @param {Said} one
 * @param {string | null} [name] its class
 * @param {"p" | "li" | "span" | "td"} [tag]
 */
export function saidLine(one, name = null, tag = "p") {
  const { words, lang } = spoken(one);
  return el(tag, { class: name, lang }, inWords(words));
}

/**
 * Sentences of the server as a list.
 * @param {Said[]} all
 */
export function saidList(all) {
  return el("ul", { class: "sentences" }, ...all.map((one) => saidLine(one, null, "li")));
}
