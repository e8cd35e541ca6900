/** Keys: each means one thing at a time, and Space never answers. */

/** @import { Key } from "./types.js" */
import { el } from "./elements.js";

/**
 * Do what a key means now; whether it meant anything.
 * @param {KeyboardEvent} event
 * @param {Key[]} keys
 * @param {(sentence: string) => void} say
 */
export function pressed(event, keys, say) {
  const target = event.target instanceof HTMLElement ? event.target : null;
  if (target?.closest("audio, video, select, textarea, input:not([type=range])")) return false;
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  // Enter presses what has the focus, once however long it is held.
  if (name === "Enter" && target?.closest("button, a")) return event.repeat;
  const found = keys.find((one) => one.keys.includes(name));
  if (found !== undefined) {
    if (!event.repeat || found.repeats) found.action(name, event.shiftKey);
    return true;
  }
  const would = name === " " && target?.closest(".choice, .answers") != null;
  if (would) say("Space never answers. Enter presses this button.");
  return would;
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
