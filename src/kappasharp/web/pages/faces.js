/** The designs of a question as cards: all together, one after the other in place, or one alone and large. */

/** @import { Compare } from "./compare.js" */
/** @import { Design, Key, Option, Parameter } from "./types.js" */
import { media, play, tellUnplayable } from "./cards.js";
import { apart, button, el, foldWords, folded, foremost, room, valueSentence, valueWords } from "./elements.js";
import { byKey } from "./keys.js";
import { text } from "./texts.js";

/** By design, in order: a key that looks at it, or plays it. None of them means anything else. */
const LETTERS = [..."abcdefghi"];
/** Where a click is not about the card. */
const NOT_THE_CARD = "button, audio, video, a, details";
/** Pictures are waited for this long, in milliseconds, to come together. */
const PATIENCE = 500;

/** @typedef {{made: HTMLElement | null, coming: Promise<HTMLElement | null> | null}} Shown what is shown first; and what comes for it, if it only says that it is drawn */

/**
 * The picture; one that is not drawn yet is not waited for.
 * @param {Compare} view
 * @param {Option} one
 * @param {string} name
 * @param {string} values
 * @returns {Promise<Shown>}
 */
async function picture(view, one, name, values) {
  const coming = media(view.page, one.option, one.card, name, values, view.blind);
  if (one.card.kind !== "pending") return { made: await coming, coming: null };
  const soon = await Promise.race([coming, new Promise((done) => setTimeout(() => done(undefined), PATIENCE))]);
  if (soon !== undefined) return { made: soon, coming: null };
  return { made: el("p", { class: "media drawing quiet" }, text("card.drawing")), coming };
}

/** Whether some of what stands there is out of sight. @param {Element} values */
function isOver(values) {
  return values.scrollHeight > values.clientHeight + 1;
}

/**
 * The last of the values that are shown goes behind the fold.
 * @param {HTMLDetailsElement} fold
 * @param {Element} shown
 */
function foldLast(fold, shown) {
  const hidden = /** @type {Element} */ (fold.lastElementChild);
  hidden.prepend(/** @type {Element} */ (shown.lastElementChild));
  const rows = hidden.querySelectorAll("dd");
  const differing = hidden.matches(".words") ? rows : hidden.querySelectorAll(".differs");
  /** @type {Element} */ (fold.firstElementChild).textContent = foldWords(rows.length, differing.length);
}

/**
 * As many values are shown as all cards have room for, the others are behind the fold.
 * @param {HTMLElement} element
 */
function fit(element) {
  const places = [...element.querySelectorAll(".inside > .values")];
  for (const one of places.some(isOver) ? places : []) {
    // Outcomes stay: what folds are the parameters below them.
    const [list, ...more] = [...one.querySelectorAll("dl")].filter((each) => !each.closest(".outcomes"));
    if (list?.children.length && !more.length) list.after(el("details", { class: "fold" }, el("summary"), el("dl", { class: list.className })));
  }
  const folds = places.flatMap((one) => [...one.querySelectorAll("details")]);
  const open = folds.some((one) => one.open);
  for (const one of folds) one.open = false;
  while (folds.length && places.some(isOver) && folds.every((one) => (one.previousElementSibling?.querySelectorAll("dd").length ?? 0) > 1)) {
    for (const one of folds) foldLast(one, /** @type {Element} */ (one.previousElementSibling));
  }
  for (const one of folds) one.open = open;
}

/**
 * What finds no room on a card is behind a fold; what must be scrolled to be read even so can be reached by keyboard too.
 * @param {HTMLElement} element
 */
export function reachable(element) {
  // A slider's values are drawn anew with every step.
  if (!element.matches(".slider")) fit(element);
  for (const values of element.querySelectorAll(".inside > .values")) {
    if (!(values instanceof HTMLElement) || !isOver(values)) continue;
    values.tabIndex = 0;
    values.role = "group";
    values.ariaLabel = text("card.values");
  }
}

/**
 * Where a design, the first of these, differs from the others, in few words; what finds no room is behind a fold.
 * @param {Compare} view
 * @param {Design[]} designs
 */
export function differences(view, designs) {
  const { differing } = apart(view.study.parameters, designs);
  const { first, rest } = foremost(differing, designs, room(differing, true));
  const words = (/** @type {Parameter[]} */ some) => valueWords(some, designs[0]);
  return folded(words(first), rest, differing, view.unfolded, words);
}

/** @typedef {{lines: HTMLElement, badge?: HTMLElement, className?: string, choose?: (event: MouseEvent) => void}} Look what stands on a card */

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
    /** Whether there are more than two. */
    this.several = marks.length > 2;
    /** @type {HTMLElement[]} */
    this.cards = [];
    /** @type {HTMLButtonElement[]} */
    this.corners = [];
    const letters = LETTERS.slice(0, marks.length);
    this.element = el("div", { class: `board ${kind}`, "data-layout": "all" });
    // A frame may come late, or once more.
    this.element.addEventListener("load", () => this.shield(), true);
    this.flipButton = button(text(this.several ? "card.oneByOne" : "card.flip"), () => this.flip(), { key: text("keys.space"), shortcut: "Space", pressed: false });
    /** @type {Key[]} */
    this.keys = [
      { keys: [" "], label: text("keys.space"), words: text(this.several ? "card.keyOneByOne" : "card.keyFlip"), action: () => this.flip() },
      { keys: letters, label: this.several ? `A – ${letters[letters.length - 1].toUpperCase()}` : "A B", words: this.several ? text("card.keyLookMore", { first: marks[0], last: marks[marks.length - 1] }) : text("card.keyLookTwo"), action: (key) => this.look(letters.indexOf(key)) },
      { keys: ["z"], label: "Z", words: text("card.keyEnlarge"), action: () => this.zoom(this.face) },
      { keys: ["Escape"], label: text("keys.escape"), words: text(this.several ? "card.keyBackAll" : "card.keyBackBoth"), action: () => this.back() },
    ];
  }

  /**
   * Draw the cards.
   * @param {Option[]} designs
   * @param {(index: number) => Look} look
   */
  async draw(designs, look) {
    const all = designs.map((one) => one.params);
    const { parameters } = this.view.study;
    const pictures = await Promise.all(designs.map((one, index) => picture(this.view, one, this.name(index), valueSentence(parameters, one.params, all))));
    this.cards = pictures.map(({ made }, index) => this.card(made, index, look(index)));
    // Only now have they a place to take: one may have come while another was waited for.
    for (const [index, shown] of pictures.entries()) void this.follow(index, shown);
    for (const index of this.cards.keys()) this.equip(index);
    this.element.prepend(...this.cards);
    this.layout("all", 0);
  }

  /**
   * What comes late takes its place.
   * @param {number} index
   * @param {Shown} shown
   */
  async follow(index, { made, coming }) {
    if (made === null || coming === null) return;
    made.replaceWith((await coming) ?? el("p", { class: "media quiet" }, text("card.noPicture")));
    this.equip(index);
  }

  /** @param {number} index */
  name(index) {
    return text("card.option", { mark: this.marks[index] });
  }

  /**
   * @param {HTMLElement | null} made
   * @param {number} index
   * @param {Look} look
   */
  card(made, index, look) {
    const corner = this.corner(index);
    const choose = look.choose;
    const click = (/** @type {MouseEvent} */ event) => {
      const target = /** @type {Element} */ (event.target);
      // Who marks a value to copy it does not choose.
      if (choose !== undefined && !target.closest(NOT_THE_CARD) && (getSelection()?.isCollapsed ?? true)) choose(event);
    };
    return el(
      "article",
      { class: `card ${look.className ?? ""}${made === null ? " bare" : ""}${choose ? " choosable" : ""}`, "data-index": index, "aria-label": this.name(index), onclick: click },
      el("header", {}, look.badge ?? el("h2", {}, this.marks[index]), corner),
      el("div", { class: "inside" },
        made === null ? null : el("div", { class: "stage" }, made),
        el("div", { class: "values", hidden: this.view.blind && made !== null }, look.lines)),
    );
  }

  /** @param {number} index */
  corner(index) {
    const made = button(text("card.enlarge"), () => this.enlarge(index), { kind: "corner", key: LETTERS[index].toUpperCase(), name: text("card.enlargeMark", { mark: this.marks[index] }), shortcut: LETTERS[index] });
    this.corners.push(made);
    return made;
  }

  /**
   * What can be heard or watched of a design.
   * @param {number} index
   */
  player(index) {
    const found = this.cards[index].querySelector("audio, video");
    return found instanceof HTMLMediaElement ? found : null;
  }

  /**
   * Give what can be played its button; the letter is its key then.
   * @param {number} index
   */
  equip(index) {
    tellUnplayable(this.cards[index]);
    const [player, corner, mark] = [this.player(index), this.corners[index], this.marks[index]];
    if (player === null) return;
    const made = button(text("card.play"), () => play(player), { kind: "corner playing", key: LETTERS[index].toUpperCase(), name: text("card.playMark", { mark }), shortcut: LETTERS[index] });
    const tell = () => {
      made.children[0].textContent = text(player.paused ? "card.play" : "card.stop");
      made.ariaLabel = text(player.paused ? "card.playMark" : "card.stopMark", { mark });
    };
    player.addEventListener("play", tell);
    player.addEventListener("pause", tell);
    player.addEventListener("error", () => made.remove());
    corner.querySelector("kbd")?.remove();
    corner.removeAttribute("aria-keyshortcuts");
    corner.before(made);
    corner.hidden = this.isSmall(index);
  }

  /**
   * Have a closer look at a design, or a listen.
   * @param {number} index
   */
  look(index) {
    const player = this.player(index);
    if (player !== null) play(player);
    else if (!this.cards[index].classList.contains("bare")) this.zoom(index);
  }

  /** Side by side, a user's page is a picture: clicks go to the card (style.css), and Tab goes past it. Alone it can be used. */
  shield() {
    for (const frame of this.element.querySelectorAll("iframe")) frame.tabIndex = this.element.dataset.layout === "all" ? -1 : 0;
  }

  /** Whether there is nothing to enlarge now, nor to go back from. @param {number} index */
  isSmall(index) {
    return this.element.dataset.layout === "all" && (this.cards[index].classList.contains("bare") || this.player(index) instanceof HTMLAudioElement);
  }

  /** What the corner of a card does. @param {number} index */
  enlarge(index) {
    if (this.element.dataset.layout === "all") this.zoom(index);
    else this.back();
  }

  /**
   * @param {string | undefined} layout all, flip or zoom
   * @param {number} face
   */
  layout(layout, face) {
    this.face = face;
    this.element.dataset.layout = layout;
    document.body.classList.toggle("zoomed", layout === "zoom");
    this.shield();
    this.flipButton.setAttribute("aria-pressed", String(layout !== "all"));
    for (const [index, card] of this.cards.entries()) {
      card.classList.toggle("face", index === face);
      card.toggleAttribute("inert", layout !== "all" && index !== face);
      const corner = this.corners[index];
      const back = text(this.several ? "card.showAll" : "card.showBoth");
      corner.children[0].textContent = layout === "all" ? text("card.enlarge") : back;
      corner.ariaLabel = layout === "all" ? text("card.enlargeMark", { mark: this.marks[index] }) : back;
      corner.hidden = this.isSmall(index);
      const key = corner.querySelector("kbd");
      if (key !== null) key.textContent = layout === "all" ? LETTERS[index].toUpperCase() : text("keys.escape");
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
    const mark = this.marks[this.face];
    this.view.page.say(byKey(text(this.several ? "card.aloneOfMore" : "card.aloneOfTwo", { mark })) || text("card.alone", { mark }));
  }

  back() {
    if (this.element.dataset.layout !== "all") this.view.page.say("");
    this.layout("all", 0);
  }
}
