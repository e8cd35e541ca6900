/** Export: the study as files, and the Python that makes it again. */

/** @import { Page, View } from "./types.js" */
import { copy } from "./clipboard.js";
import { button, el } from "./elements.js";
import { refusalOf, at } from "./talk.js";
import { moment, text } from "./texts.js";

const FILES = /** @type {const} */ (["json", "csv", "options", "parquet", "html", "python"]);

/**
 * @param {Page} page
 * @param {HTMLElement} root
 * @returns {Promise<View>}
 */
export async function open(page, root) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const code = el("pre", { class: "code", tabindex: "0", role: "region", "aria-label": text("export.remakes") });
  const rows = FILES.map((kind) => {
    const name = text(`export.${kind}.name`);
    return el("li", {}, el("div", {}, el("h2", {}, name), el("p", { class: "quiet" }, text(`export.${kind}.means`))),
      button(text("export.download"), () => download(page, kind, name), { name: text("export.downloadName", { name }) }));
  });
  root.append(
    el("h1", {}, text("export.title")),
    el("p", { class: "quiet" }, text("export.about", { name: study.name, method: study.method, preset: study.preset, seed: String(study.seed), time: moment(study.created), storage: page.listing.storage })),
    el("ul", { class: "files panel" }, ...rows),
    el("section", { class: "panel", "aria-label": text("export.python.name") },
      el("div", { class: "head" }, el("h2", {}, text("export.reproduces")),
        button(text("export.copy"), () => void copy(page, code.textContent ?? ""), { name: text("export.copyPython") })), code),
  );
  const answer = await fetch(at(study.id, "export/python"));
  code.textContent = answer.ok ? await answer.text() : text("export.notWritten");
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
  page.say(text("export.making", { name }));
  try {
    const answer = await fetch(at(study.id, `export/${kind}`));
    if (!answer.ok) throw refusalOf(answer.status, await answer.text());
    const disposition = answer.headers.get("content-disposition") ?? "";
    const file = /filename="([^"]+)"/.exec(disposition)?.[1] ?? "study";
    const address = URL.createObjectURL(await answer.blob());
    const link = el("a", { href: address, download: file });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
    page.say(text("export.done", { file }), "good");
  } catch (error) {
    page.fail(error);
  }
}
