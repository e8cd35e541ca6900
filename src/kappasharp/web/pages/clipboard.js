/** Copying, also where the browser has no clipboard for a page: on plain http from another machine. */

/** @import { Page } from "./types.js" */
import { button, el } from "./elements.js";
import { text as words } from "./texts.js";

/**
 * Copy a text, or show it selected.
 * @param {Page} page
 * @param {string} text
 * @param {HTMLElement} [within] the dialog that is open: nothing outside of it takes the focus
 */
export async function copy(page, text, within = document.body) {
  if ((await written(text)) || copiedBySelection(text, within)) {
    page.say(words("copy.done"), "good");
    return;
  }
  page.say("");
  showSelected(text);
}

/** @param {string} text */
async function written(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Not allowed, or not there at all.
    return false;
  }
}

/**
 * @param {string} text
 * @param {HTMLElement} within
 */
function copiedBySelection(text, within) {
  const before = document.activeElement;
  const area = el("textarea", { class: "off-screen", readonly: true, "aria-hidden": "true", tabindex: "-1" }, text);
  within.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (before instanceof HTMLElement) before.focus();
  return done;
}

/** @param {string} text */
function showSelected(text) {
  const area = el("textarea", { class: "code", rows: 10, readonly: true, "aria-label": words("copy.text") }, text);
  const dialog = el(
    "dialog",
    { class: "copy", "aria-label": words("copy.title"), onclose: () => dialog.remove() },
    el("p", {}, words("copy.byHand")),
    area,
    button(words("page.close"), () => dialog.close()),
  );
  document.body.append(dialog);
  dialog.showModal();
  area.focus();
  area.select();
}
