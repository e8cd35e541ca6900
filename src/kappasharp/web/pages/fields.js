/** Fields of a form, each with its label and, when something is wrong with it, the reason beside it. */

/** @import { Value } from "./types.js" */
import { el } from "./elements.js";
import { langOf, sentence } from "./talk.js";
import { plainNumeral } from "./texts.js";

let count = 0;

/** A labelled input that can say what is wrong with it. */
export class Field {
  /**
   * @param {string} label
   * @param {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} input
   * @param {{name?: string, class?: string, hint?: string}} [more] `name` for those who hear the label alone
   */
  constructor(label, input, more = {}) {
    count += 1;
    this.input = input;
    input.id ||= `field-${count}`;
    this.fault = el("p", { class: "fault", id: `${input.id}-fault`, hidden: true });
    const hint = more.hint ? el("p", { class: "quiet hint-line", id: `${input.id}-hint` }, more.hint) : null;
    if (hint !== null) input.setAttribute("aria-describedby", hint.id);
    this.hint = hint;
    const named = more.name ? [el("span", { "aria-hidden": "true" }, label), el("span", { class: "unseen" }, more.name)] : [label];
    this.element = el("div", { class: `field ${more.class ?? ""}` }, el("label", { for: input.id }, ...named), input, hint, this.fault);
  }

  get value() {
    return this.input.value.trim();
  }

  /** The number in it; null where there is none. */
  get number() {
    const figures = plainNumeral(this.value);
    return figures === "" || !Number.isFinite(Number(figures)) ? null : Number(figures);
  }

  /** @param {unknown} error what the server said of it */
  refuse(error) {
    this.say(inWords(sentence(error)), langOf(error));
  }

  /**
   * @param {string} words none where all is right
   * @param {string | null} [lang]
   */
  say(words, lang) {
    this.fault.replaceChildren(el("span", { lang }, words));
    this.fault.hidden = words === "";
    if (words === "") this.input.removeAttribute("aria-invalid");
    else this.input.setAttribute("aria-invalid", "true");
    const described = [this.hint?.id, words === "" ? null : this.fault.id].filter(Boolean).join(" ");
    if (described) this.input.setAttribute("aria-describedby", described);
    else this.input.removeAttribute("aria-describedby");
  }
}

/** What is wrong, and with which field. @typedef {{field: Field, words: string}} Fault */

/**
 * Show what is wrong, and nothing that no longer is.
 * @param {Field[]} fields all of the form
 * @param {Fault[]} faults
 */
export function tell(fields, faults) {
  for (const field of fields) field.say(faults.find((one) => one.field === field)?.words ?? "");
}

/**
 * A number where it reads as one.
 * @param {string} word
 * @returns {Value}
 */
export function plain(word) {
  return word !== "" && Number.isFinite(Number(word)) ? Number(word) : word;
}

/**
 * A question that has to be answered before something happens; what was chosen.
 * @param {string} words
 * @param {string} yes
 * @param {string} no
 * @param {string} [title]
 * @returns {Promise<boolean>}
 */
export function sure(words, yes, no, title = "") {
  return new Promise((resolve) => {
    const dialog = el("dialog", { class: "ask", "aria-label": title || yes },
      title ? el("h2", {}, title) : null,
      el("p", {}, words),
      el("form", { method: "dialog", class: "row" },
        el("button", { class: "plain", value: "no", autofocus: true }, no),
        el("button", { class: "plain danger", value: "yes" }, yes)));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/**
 * A sentence of the server without the words that only a program has.
 * @param {string} said
 */
export function inWords(said) {
  return said
    .replace(" (`diagnostics`)", "")
    .replace(/`study\.widen(?:\([^`]*\))?` opens (them|it)/, "the study’s own view opens $1")
    .replace(/`load_study\([^`]*\)` or /, "")
    .replace(/`space\['(.+?)'\]`: /, "“$1”: ")
    .replace(/`favourites\[(\d+)\]`/g, (_, index) => `favourite ${Number(index) + 1}`)
    .replace(/`(?:Float|Int|Categorical|Fixed)\((\w+)=(?:\.\.\.|\w+)\)`/g, "“$1”")
    .replace(/; (?:a value that never changes|one value) is `Fixed(?:\(value\))?`/, "")
    .replace(/`(?:Float|Int)`/g, "a number")
    .replace(/`Categorical`/g, "a choice")
    .replace(/`([^`]+)`/g, "“$1”");
}
