/** Several designs in order: by number keys, by clicks, by drag and drop; equals, and only the top few, as one likes. */

/** @import { Compare } from "./compare.js" */
/** @import { Answer, Board, Pair } from "./types.js" */
import { button, el } from "./elements.js";
import { Faces } from "./faces.js";
import { galleryLines, sharedLine } from "./gallery.js";
import { byKey } from "./keys.js";
import { Outcomes, outcomeHint } from "./outcomes.js";
import { listed, ordinal, text } from "./texts.js";

/** A pointer that moved less than so many pixels clicks; one that moved more drags. */
const STILL = 6;
/** How far outside the row of places something may be dropped and still be in it. */
const NEAR = 48;

/** @typedef {{number: number, tied: boolean}} Placed tied: equal to the one before */

/**
 * @param {Compare} view
 * @param {Pair} pair
 * @returns {Promise<Board>}
 */
export async function board(view, pair) {
  const order = new Order(view, pair);
  await order.draw();
  return order.board();
}

class Order {
  /**
   * @param {Compare} view
   * @param {Pair} pair
   */
  constructor(view, pair) {
    this.view = view;
    this.pair = pair;
    this.marks = pair.designs.map((_, index) => String(index + 1));
    this.faces = new Faces(view, "gallery order", this.marks);
    this.faces.element.dataset.count = String(this.marks.length);
    this.outcomes = new Outcomes(view, pair, true);
    /** @type {Placed[]} */
    this.placed = [];
    this.row = el("ol", { class: "places", "aria-label": text("order.row") });
    this.told = el("p", { class: "told", role: "status" });
    this.send = button(text("order.send"), (event) => this.answer(event), { kind: "choice a", key: "↵", shortcut: "Enter" });
    this.clear = button(text("order.clear"), () => this.change(() => (this.placed = [])));
    /** @type {(() => void) | null} */
    this.drop = null;
  }

  async draw() {
    const { designs } = this.pair;
    await this.faces.draw(designs, (index) => ({
      lines: galleryLines(this.view, designs, index, this.outcomes),
      badge: button(this.marks[index], () => this.toggle(index), { kind: "badge", name: text("order.putNext", { mark: this.marks[index] }) }),
      choose: () => this.toggle(index),
    }));
    for (const [index, card] of this.faces.cards.entries()) {
      // A finger scrolls the page; in the row of places it drags.
      card.addEventListener("pointerdown", (event) => {
        if (event.pointerType !== "touch") this.grab(event, index, card);
      });
    }
    this.ranking = el("div", { class: "ranking" }, this.row, this.told);
    const shared = sharedLine(this.view, designs.map((one) => one.params));
    if (shared !== null) this.faces.element.append(shared);
    this.faces.element.append(this.ranking);
    this.show();
  }

  /** @returns {Board} */
  board() {
    const count = this.marks.length;
    return {
      title: text("order.title", { count }),
      hint: [byKey(text("order.hintKeys")) || text("order.hint"), " ", ...outcomeHint(this.view.study.outcomes)],
      element: this.faces.element,
      choices: [this.send, this.clear],
      extras: [this.faces.flipButton],
      keys: [
        { keys: this.marks, label: `1 – ${count}`, words: text("order.keyPut"), action: (key) => this.put(Number(key) - 1) },
        { keys: ["="], label: "=", words: text("order.keyEqual"), action: () => this.equal(this.placed.length - 1) },
        { keys: ["Backspace"], label: "⌫", words: text("order.keyTake"), action: () => this.change(() => this.placed.pop()) },
        { keys: ["Enter"], label: "↵", words: text("order.keySend"), action: () => this.answer() },
        ...this.faces.keys,
      ],
      leave: () => {
        this.outcomes.gone = true;
        this.drop?.();
      },
    };
  }

  /** @param {MouseEvent} [event] */
  answer(event) {
    if (!this.placed.length) {
      this.view.complain(text("order.atLeastOne"));
      return;
    }
    this.view.answer(this.said(), event);
  }

  /** @returns {Answer} */
  said() {
    /** @type {number[][]} */
    const groups = [];
    for (const { number, tied } of this.placed) {
      if (tied) groups[groups.length - 1].push(number);
      else groups.push([number]);
    }
    return groups.map((group) => (group.length > 1 ? group : group[0]));
  }

  /** @param {() => void} change */
  change(change) {
    if (this.view.busy) return;
    this.view.appease();
    change();
    if (this.placed.length) this.placed[0].tied = false;
    this.show();
  }

  /** @param {number} number */
  at(number) {
    return this.placed.findIndex((one) => one.number === number);
  }

  /** @param {number} number */
  put(number) {
    if (this.at(number) < 0) this.change(() => this.placed.push({ number, tied: false }));
    else this.view.complain(byKey(text("order.alreadyUndo", { mark: this.marks[number] })) || text("order.already", { mark: this.marks[number] }));
  }

  /** @param {number} number */
  toggle(number) {
    if (this.at(number) < 0) this.put(number);
    else this.change(() => this.take(number));
  }

  /** @param {number} number */
  take(number) {
    const from = this.at(number);
    const [gone] = this.placed.splice(from, 1);
    // Whoever was equal to it is now what it was to the one before.
    if (this.placed[from]?.tied) this.placed[from].tied = gone.tied;
  }

  /**
   * @param {number} number
   * @param {number} to
   */
  move(number, to) {
    this.change(() => {
      if (this.at(number) >= 0) this.take(number);
      // Between two equals it is a third.
      this.placed.splice(to, 0, { number, tied: to > 0 && (this.placed[to]?.tied ?? false) });
    });
  }

  /** @param {number} index */
  equal(index) {
    if (index > 0) this.change(() => (this.placed[index].tied = !this.placed[index].tied));
    else this.view.complain(text("order.noneBefore"));
  }

  show() {
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.act : undefined;
    this.row.replaceChildren(...this.placed.map((one, index) => this.item(one, index)));
    const left = this.marks.filter((_, number) => this.at(number) < 0);
    const order = this.placed.reduce((before, { number, tied }) => {
      const mark = this.marks[number];
      return before ? text(tied ? "order.equal" : "order.then", { before, mark }) : mark;
    }, "");
    this.told.textContent = !this.placed.length ? text("order.none")
      : left.length ? text("order.some", { order, left: listed(left), count: left.length }) : text("order.all", { order });
    this.send.disabled = this.clear.disabled = !this.placed.length;
    for (const [number, card] of this.faces.cards.entries()) {
      const at = this.at(number);
      card.classList.toggle("placed", at >= 0);
      card.dataset.rank = at < 0 ? "" : ordinal(this.rank(at));
      const badge = card.querySelector(".badge");
      if (badge !== null) badge.ariaLabel = text(at < 0 ? "order.putNext" : "order.takeOut", { mark: this.marks[number] });
    }
    // By keyboard, the button that was pressed keeps the focus although it is a new one.
    const kept = focused && (this.row.querySelector(`[data-act="${focused}"]:not(:disabled)`) ?? this.row.querySelector(`[data-act$="-${focused.split("-")[1]}"]:not(:disabled)`));
    if (kept instanceof HTMLElement) kept.focus();
  }

  /**
   * The place that it shares with its equals.
   * @param {number} index
   */
  rank(index) {
    while (this.placed[index].tied) index -= 1;
    return index + 1;
  }

  /**
   * @param {Placed} one
   * @param {number} index
   */
  item({ number, tied }, index) {
    const mark = this.marks[number];
    const picture = this.faces.cards[number].querySelector("img");
    const act = (/** @type {string} */ what, /** @type {HTMLButtonElement} */ made) => {
      made.dataset.act = `${what}-${number}`;
      return made;
    };
    const joint = index === 0 ? null : act("equal", button(tied ? "=" : ">", () => this.equal(index), {
      kind: "joint", pressed: tied, name: text("order.equalTo", { mark, other: this.marks[this.placed[index - 1].number] }),
    }));
    const tile = el("div", { class: "tile" }, picture === null ? null : el("img", { src: picture.src, alt: "", draggable: "false" }), el("span", { class: "mark" }, mark), el("span", { class: "rank" }, ordinal(this.rank(index))));
    const made = el("li", { "data-number": number, "aria-label": text("order.item", { rank: ordinal(this.rank(index)), mark }) }, joint,
      el("div", { class: "slot" }, tile, el("div", { class: "moves" },
        act("up", button("‹", () => this.move(number, index - 1), { kind: "move", name: text("order.up", { mark }), disabled: index === 0 })),
        act("down", button("›", () => this.move(number, index + 1), { kind: "move", name: text("order.down", { mark }), disabled: index === this.placed.length - 1 })))));
    tile.addEventListener("pointerdown", (event) => this.grab(event, number, tile));
    return made;
  }

  /**
   * Drag a card or a tile to a place; out of the row, it has none.
   * @param {PointerEvent} event
   * @param {number} number
   * @param {HTMLElement} source
   */
  grab(event, number, source) {
    if (event.button !== 0 || (event.target instanceof Element && event.target.closest("button, audio, video"))) return;
    const from = { x: event.clientX, y: event.clientY };
    /** @type {HTMLElement | null} */
    let ghost = null;
    const moved = (/** @type {PointerEvent} */ now) => {
      if (now.pointerId !== event.pointerId) return;
      if (ghost === null && Math.hypot(now.clientX - from.x, now.clientY - from.y) < STILL) return;
      ghost ??= this.ghost(number, source);
      ghost.style.translate = `${now.clientX}px ${now.clientY}px`;
      const to = this.target(now, number);
      for (const [index, item] of this.others(number).entries()) item.classList.toggle("before", index === to);
      this.row.classList.toggle("last", to === this.others(number).length);
    };
    const end = (/** @type {PointerEvent | null} */ now) => {
      for (const [name, action] of Object.entries({ pointermove: moved, pointerup: end, pointercancel: cancel })) removeEventListener(name, /** @type {EventListener} */ (action));
      this.drop = null;
      if (ghost === null) return;
      ghost.remove();
      source.classList.remove("dragged");
      this.row.classList.remove("last");
      // The click that ends a drag is none.
      const swallow = (/** @type {Event} */ click) => click.stopPropagation();
      addEventListener("click", swallow, true);
      setTimeout(() => removeEventListener("click", swallow, true), 0);
      const to = now === null ? -1 : this.target(now, number);
      if (to === null && this.at(number) >= 0) this.change(() => this.take(number));
      else if (to !== null && to >= 0) this.move(number, to);
      else this.show();
    };
    const cancel = () => end(null);
    this.drop = cancel;
    addEventListener("pointermove", moved);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", cancel);
  }

  /**
   * What follows the pointer.
   * @param {number} number
   * @param {HTMLElement} source
   */
  ghost(number, source) {
    const picture = this.faces.cards[number].querySelector("img");
    const made = el("div", { class: "ghost tile", "aria-hidden": "true" }, picture === null ? null : el("img", { src: picture.src, alt: "" }), el("span", { class: "mark" }, this.marks[number]));
    source.classList.add("dragged");
    document.body.append(made);
    return made;
  }

  /** @param {number} number */
  others(number) {
    return [...this.row.children].filter((one) => one.getAttribute("data-number") !== String(number));
  }

  /**
   * The place under the pointer, counted without what is dragged; null outside the row.
   * @param {PointerEvent} now
   * @param {number} number
   */
  target(now, number) {
    const box = /** @type {HTMLElement} */ (this.ranking).getBoundingClientRect();
    if (now.clientY < box.top - NEAR || now.clientY > box.bottom + NEAR || now.clientX < box.left - NEAR || now.clientX > box.right + NEAR) return null;
    return this.others(number).filter((one) => {
      const { left, width, top, bottom } = one.getBoundingClientRect();
      return now.clientY > bottom || (now.clientY >= top - NEAR && now.clientX > left + width / 2);
    }).length;
  }
}
