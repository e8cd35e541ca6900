/** Copying, also where the browser has no clipboard for a page: on plain http from another machine. */

/** @import { Page } from "./types.js" */
import { button, el } from "./elements.js";

/**
 * Copy a text, or show it selected.
 * @param {Page} page
 * @param {string} text
 */
export async function copy(page, text) {
  if ((await written(text)) || copiedBySelection(text)) {
    page.say("Copied.", "good");
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

/** @param {string} text */
function copiedBySelection(text) {
  const before = document.activeElement;
  const area = el("textarea", { class: "off-screen", readonly: true, "aria-hidden": "true", tabindex: "-1" }, text);
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (before instanceof HTMLElement) before.focus();
  return done;
}

/** @param {string} text */
function showSelected(text) {
  const area = el("textarea", { class: "code", rows: 10, readonly: true, "aria-label": "The text to copy" }, text);
  const dialog = el(
    "dialog",
    { class: "copy", "aria-label": "Copy", onclose: () => dialog.remove() },
    el("p", {}, "The browser does not let the page copy. The text is selected: Ctrl-C, or ⌘C on a Mac, copies it."),
    area,
    button("Close", () => dialog.close()),
  );
  document.body.append(dialog);
  dialog.showModal();
  area.focus();
  area.select();
}
