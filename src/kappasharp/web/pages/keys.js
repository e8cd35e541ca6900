/**
 * Keys. Each means one thing, whatever has the focus: those that answer never only look, those that look never answer. Enter presses what
 * has the focus, Space presses nothing, and no player and no list takes a key that a question has.
 */

/** @import { Key } from "./types.js" */
import { el } from "./elements.js";
import { text } from "./texts.js";

/** What Enter presses. */
const PRESSED = "button, a, summary, audio, video";

/**
 * Do what a key means now; whether it meant anything.
 * @param {KeyboardEvent} event
 * @param {Key[]} keys
 * @param {(sentence: string) => void} say
 */
export function pressed(event, keys, say) {
  const target = event.target instanceof HTMLElement ? event.target : null;
  const list = target?.closest("select") ?? null;
  if (target?.closest("textarea, input:not([type=range])") || (list !== null && isOpen(list))) return false;
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (name === "Enter" && list !== null) {
    if (typeof list.showPicker === "function") list.showPicker();
    return true;
  }
  // Once, however long it is held.
  if (name === "Enter" && target?.closest(PRESSED)) return event.repeat;
  const found = keys.find((one) => one.keys.includes(name));
  if (found !== undefined) {
    if (!event.repeat || found.repeats) found.action(name, event.shiftKey);
    return true;
  }
  const would = name === " " && target?.closest(`${PRESSED}, select`) != null;
  if (would) say(text("keys.spaceDoesNothing"));
  // A list that is closed changes by no key: what it would choose is another question.
  return would || (list !== null && name !== "Tab");
}

/** @param {HTMLSelectElement} list */
function isOpen(list) {
  try {
    return list.matches(":open");
  } catch {
    // An older browser, which keeps the keys to itself while the list is open.
    return false;
  }
}

/**
 * The list of keys, as they are now.
 * @param {Key[]} keys
 */
export function showKeys(keys) {
  const label = (/** @type {string} */ words) => words.split(" ").map((each) => (each === "–" ? " – " : el("kbd", {}, each)));
  const rows = keys.map((one) => [el("dt", {}, ...label(one.label)), el("dd", {}, one.words)]);
  /** @type {HTMLElement} */ (document.getElementById("key-list")).replaceChildren(...rows.flat());
  /** @type {HTMLDialogElement} */ (document.getElementById("keys")).showModal();
}

/**
 * Words for those who have keys and a mouse.
 * @param {string} words
 */
export function byKey(words) {
  return matchMedia("(hover: hover) and (pointer: fine)").matches ? words : "";
}
