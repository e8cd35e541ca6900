/** The designs of a question as cards: all together, one after the other in place, or one alone and large. */

/** @import { Compare } from "./compare.js" */
/** @import { Key, Option } from "./types.js" */
import { media } from "./cards.js";
import { button, el } from "./elements.js";
import { byKey } from "./keys.js";

/** Pictures are waited for this long, in milliseconds, to come together. */
const PATIENCE = 500;

/**
 * The picture; one that is not drawn yet is not waited for, it takes its place when it comes.
 * @param {Compare} view
 * @param {Option} one
 * @param {string} name
 */
async function picture(view, one, name) {
  const coming = media(view.page, one.option, one.card, name);
  if (one.card.kind !== "pending") return coming;
  const place = el("p", { class: "media drawing quiet" }, "Drawing …");
  const first = await Promise.race([coming, new Promise((done) => setTimeout(() => done(place), PATIENCE))]);
  if (first === place) void coming.then((made) => place.replaceWith(made ?? el("p", { class: "media quiet" }, "No picture.")));
  return /** @type {HTMLElement | null} */ (first);
}

/**
 * What must be scrolled to be read can be reached by keyboard too.
 * @param {HTMLElement} element
 */
export function reachable(element) {
  for (const values of element.querySelectorAll(".inside > .values")) {
    if (!(values instanceof HTMLElement) || values.scrollHeight <= values.clientHeight + 1) continue;
    values.tabIndex = 0;
    values.role = "group";
    values.ariaLabel = "Values";
  }
}

export class Faces {
  /**
   * @param {Compare} view
   * @param {string} kind
   * @param {string[]} marks what stands on each card: A, B or 1, 2, 3 …
   */
  constructor(view, kind, marks) {
    this.view = view;
    this.marks = marks;
    this.face = 0;
    this.all = marks.length > 2 ? "all of them" : "both";
    /** @type {HTMLElement[]} */
    this.cards = [];
    /** @type {HTMLButtonElement[]} */
    this.corners = [];
    this.element = el("div", { class: `board ${kind}`, "data-layout": "all" });
    this.flipButton = button(marks.length > 2 ? "One by one" : "Flip", () => this.flip(), { key: "Space", shortcut: "Space", pressed: false });
    /** @type {Key[]} */
    this.keys = [
      { keys: [" "], label: "Space", words: marks.length > 2 ? "See one after the other in place" : "Flip A and B in place", action: () => this.flip() },
      { keys: ["z"], label: "Z", words: "Enlarge", action: () => this.zoom(this.face) },
      { keys: ["Escape"], label: "Esc", words: `Back to ${this.all}`, action: () => this.back() },
    ];
  }

  /**
   * Draw the cards.
   * @param {Option[]} designs
   * @param {(index: number) => {lines: HTMLElement, badge?: HTMLElement, className?: string, enlarge?: string, choose?: (event: MouseEvent) => void}} look
   */
  async draw(designs, look) {
    const pictures = await Promise.all(designs.map((one, index) => picture(this.view, one, this.name(index))));
    this.cards = pictures.map((made, index) => this.card(made, index, look(index)));
    this.element.prepend(...this.cards);
    this.layout("all", 0);
  }

  /** @param {number} index */
  name(index) {
    return `Option ${this.marks[index]}`;
  }

  /**
   * @param {HTMLElement | null} made
   * @param {number} index
   * @param {{lines: HTMLElement, badge?: HTMLElement, className?: string, enlarge?: string, choose?: (event: MouseEvent) => void}} look
   */
  card(made, index, look) {
    const corner = button("Enlarge", () => this.zoom(index), { kind: "corner", key: look.enlarge, name: `Enlarge ${this.marks[index]}` });
    this.corners.push(corner);
    const choose = look.choose;
    const click = (/** @type {MouseEvent} */ event) => {
      const target = /** @type {Element} */ (event.target);
      if (choose !== undefined && !target.closest("button, audio, video, a")) choose(event);
    };
    return el(
      "article",
      { class: `card ${look.className ?? ""}${made === null ? " bare" : ""}${choose ? " choosable" : ""}`, "data-index": index, "aria-label": this.name(index), onclick: click },
      el("header", {}, look.badge ?? el("h2", {}, this.marks[index]), made === null ? null : corner),
      el("div", { class: "inside" },
        made === null ? null : el("div", { class: "stage" }, made),
        el("div", { class: "values", hidden: this.view.blind && made !== null }, look.lines)),
    );
  }

  /**
   * @param {"all" | "flip" | "zoom"} layout
   * @param {number} face
   */
  layout(layout, face) {
    this.face = face;
    this.element.dataset.layout = layout;
    document.body.classList.toggle("zoomed", layout === "zoom");
    this.flipButton.setAttribute("aria-pressed", String(layout !== "all"));
    for (const [index, card] of this.cards.entries()) {
      card.classList.toggle("face", index === face);
      card.toggleAttribute("inert", layout !== "all" && index !== face);
      this.corners[index].children[0].textContent = layout === "zoom" ? `Show ${this.all}` : "Enlarge";
      this.corners[index].ariaLabel = layout === "zoom" ? `Show ${this.all}` : `Enlarge ${this.marks[index]}`;
    }
  }

  flip() {
    const { layout } = this.element.dataset;
    if (layout === "all") this.layout("flip", 0);
    else this.layout(layout === "zoom" ? "zoom" : "flip", (this.face + 1) % this.cards.length);
    this.tell();
  }

  /** @param {number} index */
  zoom(index) {
    if (this.element.dataset.layout === "zoom" && this.face === index) return this.back();
    this.layout("zoom", index);
    this.tell();
  }

  tell() {
    this.view.page.say(`${this.marks[this.face]} alone.${byKey(` Space shows the next, Esc ${this.all}.`)}`);
  }

  back() {
    if (this.element.dataset.layout !== "all") this.view.page.say("");
    this.layout("all", 0);
  }
}
