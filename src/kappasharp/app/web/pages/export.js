/** Export: the study as files, and the Python that makes it again. */

/** @import { Page, View } from "./types.js" */
import { copy } from "./clipboard.js";
import { button, el } from "./elements.js";
import { at } from "./talk.js";

/** @type {[string, string, string][]} */
const FILES = [
  ["json", "JSON", "Everything: every question, answer, undo and change, in order. `kappasharp import` reads it again."],
  ["csv", "CSV of the answers", "One row for each answer, with its designs."],
  ["options", "CSV of the designs", "One row for each design, with its wins and the model’s utility."],
  ["parquet", "Parquet of the answers", "The same rows for data tools. It needs the library pyarrow on the server."],
  ["html", "HTML report", "One page with pictures that needs nothing else: to send or to print."],
  ["python", "Python", "A program that makes the same study from the same answers, of every kind."],
];

/**
 * @param {Page} page
 * @param {HTMLElement} root
 * @returns {Promise<View>}
 */
export async function open(page, root) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const code = el("pre", { class: "code", tabindex: "0", role: "region", "aria-label": "The Python that makes this study again" });
  const rows = FILES.map(([kind, name, words]) =>
    el("li", {}, el("div", {}, el("h2", {}, name), el("p", { class: "quiet" }, words)),
      button("Download", () => download(page, kind, name), { name: `Download ${name}` })));
  root.append(
    el("h1", {}, "Export"),
    el("p", { class: "quiet" }, `${study.name}: method ${study.method}, preset ${study.preset}, seed ${study.seed}, made ${new Date(study.created).toLocaleString("en-GB")}; stored in ${page.listing.storage}.`),
    el("ul", { class: "files panel" }, ...rows),
    el("section", { class: "panel", "aria-label": "Python" },
      el("div", { class: "head" }, el("h2", {}, "The Python that reproduces it"),
        button("Copy", () => void copy(page, code.textContent ?? ""), { name: "Copy the Python" })), code),
  );
  const answer = await fetch(at(study.id, "export/python"));
  code.textContent = answer.ok ? await answer.text() : "The server could not write it.";
  return {};
}

/**
 * A file that cannot be made says why here, not on an empty page.
 * @param {Page} page
 * @param {string} kind
 * @param {string} name
 */
async function download(page, kind, name) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  page.say(`Making the ${name} …`);
  try {
    const answer = await fetch(at(study.id, `export/${kind}`));
    if (!answer.ok) throw new Error((await answer.json()).error);
    const disposition = answer.headers.get("content-disposition") ?? "";
    const file = /filename="([^"]+)"/.exec(disposition)?.[1] ?? "study";
    const address = URL.createObjectURL(await answer.blob());
    const link = el("a", { href: address, download: file });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
    page.say(`${file} is in your downloads.`, "good");
  } catch (error) {
    page.say(error instanceof Error ? error.message : String(error), "bad");
  }
}
