/** Kinds of question and answers to them, in words. Places are counted from 1, as the page shows them. */

/** @import { Answer, Kind, Study } from "./types.js" */
import { percent } from "./elements.js";

/** What each kind is called, what it asks for, and when it is the right one. @type {Record<Kind, {name: string, short: string, sentence: string}>} */
export const KINDS = {
  pair: { name: "Pairs", short: "a pair", sentence: "Two designs side by side: which do you prefer? The easiest to answer." },
  choice: { name: "The best of several", short: "the best of", sentence: "A gallery: you pick the one you like most. Good for pictures that are judged at a glance." },
  order: { name: "An order", short: "an order of", sentence: "Put several designs in order, or only the top few. Says the most in one answer, and takes the longest." },
  slider: { name: "A slider", short: "a slider", sentence: "Move along a line between two designs until it looks best. Quick and telling; needs a number that can move, and a quick picture." },
  rating: { name: "Ratings", short: "a rating", sentence: "Two designs, and how much better one is, from slightly to much." },
};

/** A study that chooses anew what it asks. */
export const AUTO = "auto";
export const AUTO_WORDS = { name: "Whatever promises most", short: "whatever promises most", sentence: "A pair, a gallery or a slider, by what it promises for the seconds it takes you." };

/** From A much better to B much better. */
export const RATINGS = [
  { value: 3, letter: "A", much: "much" },
  { value: 2, letter: "A", much: "" },
  { value: 1, letter: "A", much: "slightly" },
  { value: 0, letter: "=", much: "" },
  { value: -1, letter: "B", much: "slightly" },
  { value: -2, letter: "B", much: "" },
  { value: -3, letter: "B", much: "much" },
];

/** @param {number} value */
export function ratingWords(value) {
  const one = RATINGS.find((row) => row.value === value);
  if (one === undefined || value === 0) return "equal";
  return `${one.letter} ${one.much ? `${one.much} ` : ""}better`;
}

/**
 * An answer as it is said back.
 * @param {Kind} kind
 * @param {Answer} answer
 */
export function answerWords(kind, answer) {
  if (answer === "skip") return "skipped";
  if (Array.isArray(answer)) return answer.map((one) => (Array.isArray(one) ? one.map((each) => each + 1).join(" = ") : String(one + 1))).join(" > ");
  if (typeof answer === "string") return answer === "tie" ? "no difference" : `${answer.toUpperCase()} preferred`;
  if (kind === "choice") return `${answer + 1} is the best`;
  return kind === "slider" ? `${percent(answer)} along the line` : ratingWords(answer);
}

/**
 * "order:4" as "an order of 4".
 * @param {string} form
 * @param {boolean} [alone] where no words stand before it
 */
export function formWords(form, alone = false) {
  if (form === AUTO) return alone ? AUTO_WORDS.name : AUTO_WORDS.short;
  const [kind, count] = form.split(":");
  const words = [KINDS[/** @type {Kind} */ (kind)].short, count].filter(Boolean).join(" ");
  return alone ? words[0].toUpperCase() + words.slice(1) : words;
}

/**
 * The forms that a study can ask for, its usual one first.
 * @param {Study} study
 */
export function formsOf(study) {
  const count = study.question.split(":")[1] ?? "4";
  const all = study.kinds.map((kind) => (kind === "choice" || kind === "order" ? `${kind}:${count}` : kind));
  return [...new Set([...(study.question === AUTO ? [] : [study.question]), ...all])];
}
