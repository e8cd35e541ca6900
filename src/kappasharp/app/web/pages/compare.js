/** Compare: two cards, one question. */

/** @import { Answer, Option, Page, Pair, Side, Standing, View } from "./types.js" */
import { media, prefetch } from "./cards.js";
import { button, el, parameterLines } from "./elements.js";
import { showProgress } from "./progress.js";
import { Refusal, at, get, post, sentence } from "./talk.js";

const SAVED = { a: "A preferred", b: "B preferred", tie: "no difference", skip: "skipped" };
const BLIND = "kappasharp blind";
/** Both pictures are waited for this long, in milliseconds, to come together. */
const PATIENCE = 500;
/** @type {Side[]} */
const SIDES = ["a", "b"];

/**
 * @param {Page} page
 * @param {HTMLElement} root
 * @returns {Promise<View>}
 */
export async function compare(page, root) {
  const view = new Compare(page, root);
  await view.begin();
  return view;
}

class Compare {
  /**
   * @param {Page} page
   * @param {HTMLElement} root
   */
  constructor(page, root) {
    this.page = page;
    this.study = /** @type {NonNullable<Page["study"]>} */ (page.study);
    /** @type {Pair | null} */
    this.pair = null;
    this.busy = true;
    this.gone = false;
    this.seen = 0;
    this.since = 0;
    /** @type {number | null} */
    this.lastEvent = null;
    this.blind = localStorage.getItem(BLIND) === "yes";
    this.table = el("div", { class: "pair", "data-layout": "pair", "data-face": "a" });
    this.progress = el("div", { class: "progress" });
    this.waiting = el("p", { class: "waiting quiet", hidden: true }, "Preparing the next pair …");
    this.buttons = this.makeButtons();
    root.append(
      el("div", { class: "head" }, el("h1", { id: "question" }, "Which do you prefer?"), this.progress),
      this.table,
      this.waiting,
      this.controls(),
    );
    this.watch = () => this.lookAway();
    document.addEventListener("visibilitychange", this.watch);
  }

  makeButtons() {
    return {
      a: button("A is better", () => this.answer("a"), { kind: "choice a", key: "←", shortcut: "ArrowLeft" }),
      tie: button("Can’t tell", () => this.answer("tie"), { kind: "choice", key: "↓", shortcut: "ArrowDown" }),
      b: button("B is better", () => this.answer("b"), { kind: "choice b", key: "→", shortcut: "ArrowRight" }),
      skip: button("Skip", () => this.answer("skip"), { key: "S", shortcut: "S" }),
      undo: button("Undo", () => this.undo(), { key: "⌫", shortcut: "Backspace" }),
      flip: button("Flip", () => this.flip(), { key: "Space", shortcut: "Space", pressed: false }),
      blind: button("Hide values", () => this.hide(), { key: "P", shortcut: "P", pressed: this.blind }),
      keys: button("Keys", () => showKeys(), { key: "?", shortcut: "?" }),
    };
  }

  controls() {
    const { a, tie, b, skip, undo, flip, blind, keys } = this.buttons;
    return el(
      "div",
      { class: "controls" },
      el("div", { class: "choices", role: "group", "aria-labelledby": "question" }, a, tie, b),
      el("div", { class: "extras", role: "group", "aria-label": "More" }, skip, undo, flip, blind, keys),
    );
  }

  async begin() {
    await this.attempt(async () => {
      const found = await get(at(this.study.id, `pair?voter=${encodeURIComponent(this.page.voter)}`));
      await this.show(found.pair);
    }, "No pair.");
  }

  /** @param {Pair} pair */
  async show(pair) {
    const cards = await Promise.all(SIDES.map((side) => this.card(pair, side)));
    if (this.gone) return;
    this.pair = pair;
    this.table.replaceChildren(...cards);
    this.table.dataset.pair = String(pair.number);
    this.layout("pair", "a");
    this.buttons.undo.disabled = !pair.can_undo;
    this.busy = false;
    this.seen = 0;
    this.since = performance.now();
    showProgress(this.progress, this.study, pair, null);
    // Pictures of what may come, then the figures: both while the person looks.
    void prefetch(this.page).finally(() => this.showStanding(pair));
  }

  /**
   * @param {Pair} pair
   * @param {Side} side
   */
  async card(pair, side) {
    const one = pair[side];
    const letter = side.toUpperCase();
    const picture = await this.picture(one, `Option ${letter}`);
    const lines = parameterLines(this.study.parameters, one.params, pair[side === "a" ? "b" : "a"].params);
    const zoom = button(`Enlarge ${letter}`, () => this.zoom(side), { kind: "corner", key: side === "a" ? "1" : "2" });
    return el(
      "article",
      { class: `card ${side}${picture === null ? " bare" : ""}`, "data-side": side, "aria-label": `Option ${letter}` },
      el("header", {}, el("h2", {}, letter), zoom),
      picture === null ? null : el("div", { class: "stage" }, picture),
      el("div", { class: "values", hidden: this.blind && picture !== null }, lines),
    );
  }

  /**
   * The picture; one that is not drawn yet is not waited for, it takes its place when it comes.
   * @param {Option} one
   * @param {string} name
   */
  async picture(one, name) {
    const coming = media(this.page, one.option, one.card, name);
    if (one.card.kind !== "pending") return coming;
    const place = el("p", { class: "media drawing quiet" }, "Drawing …");
    const first = await Promise.race([coming, new Promise((done) => setTimeout(() => done(place), PATIENCE))]);
    if (first === place) void coming.then((made) => place.replaceWith(made ?? el("p", { class: "media quiet" }, "No picture.")));
    return /** @type {HTMLElement | null} */ (first);
  }

  /** @param {Pair} pair */
  async showStanding(pair) {
    try {
      /** @type {Standing} */
      const standing = await get(at(this.study.id, "standing"));
      if (this.gone || this.pair?.number !== pair.number) return;
      showProgress(this.progress, this.study, pair, standing);
      if (this.lastEvent !== null && standing.surprises.includes(this.lastEvent)) {
        this.page.say("Saved. That answer surprised the model. Backspace undoes it.", "good");
      }
      this.lastEvent = null;
    } catch {
      // The line stays as it was: the pair and the answers do not hang on it.
      this.progress.classList.add("stale");
    }
  }

  /** Seconds that the pair was looked at. */
  looked() {
    return (this.seen + (document.hidden ? 0 : performance.now() - this.since)) / 1000;
  }

  lookAway() {
    if (document.hidden) this.seen += performance.now() - this.since;
    this.since = performance.now();
  }

  /** @param {Answer} answer */
  async answer(answer) {
    const pair = this.pair;
    if (this.busy || pair === null) return;
    const seconds = Math.round(this.looked() * 1000) / 1000;
    this.busy = true;
    this.table.dataset.chosen = answer;
    const { voter } = this.page;
    await this.attempt(async () => {
      const found = await post(at(this.study.id, "answer"), { pair: pair.number, answer, seconds, voter });
      this.lastEvent = found.saved.event;
      await this.show(found.pair);
      this.page.say(`Saved: ${SAVED[answer]}. Backspace undoes it.`, "good");
    }, "Not saved.");
  }

  async undo() {
    if (this.busy || !this.pair?.can_undo) return;
    this.busy = true;
    await this.attempt(async () => {
      const found = await post(at(this.study.id, "undo"), { voter: this.page.voter });
      await this.show(found.pair);
      this.page.say("Taken back. The same pair is open again.", "good");
    }, "Not undone.");
  }

  /**
   * @param {() => Promise<void>} action
   * @param {string} failure
   */
  async attempt(action, failure) {
    const slow = setTimeout(() => (this.waiting.hidden = false), 400);
    try {
      await action();
    } catch (error) {
      if (error instanceof Refusal && error.pair !== null) {
        await this.show(error.pair);
        this.page.say(`Not saved: this pair was already answered. Here is the one that is open now.`, "bad");
      } else {
        this.page.say(`${failure} ${sentence(error)}`, "bad");
      }
    } finally {
      clearTimeout(slow);
      this.waiting.hidden = true;
      this.busy = false;
      delete this.table.dataset.chosen;
    }
  }

  /**
   * @param {"pair" | "flip" | "zoom"} layout
   * @param {Side} face
   */
  layout(layout, face) {
    this.table.dataset.layout = layout;
    this.table.dataset.face = face;
    document.body.classList.toggle("zoomed", layout === "zoom");
    this.buttons.flip.setAttribute("aria-pressed", String(layout !== "pair"));
    for (const card of this.table.querySelectorAll(".card")) {
      const hidden = layout !== "pair" && card.getAttribute("data-side") !== face;
      card.toggleAttribute("inert", hidden);
    }
  }

  flip() {
    const { layout, face } = this.table.dataset;
    if (layout === "pair") {
      this.layout("flip", "a");
      this.page.say("A alone. Space flips, Esc shows both.");
    } else {
      this.layout(layout === "zoom" ? "zoom" : "flip", face === "a" ? "b" : "a");
      this.page.say(face === "a" ? "B" : "A");
    }
  }

  /** @param {Side} side */
  zoom(side) {
    const { layout, face } = this.table.dataset;
    const back = layout === "zoom" && face === side;
    this.layout(back ? "pair" : "zoom", side);
    this.page.say(back ? "" : `${side.toUpperCase()} alone. Space flips, Esc shows both.`);
  }

  both() {
    if (this.table.dataset.layout !== "pair") this.page.say("");
    this.layout("pair", "a");
  }

  hide() {
    this.blind = !this.blind;
    localStorage.setItem(BLIND, this.blind ? "yes" : "no");
    this.buttons.blind.setAttribute("aria-pressed", String(this.blind));
    for (const values of this.table.querySelectorAll(".card:not(.bare) .values")) values.toggleAttribute("hidden", this.blind);
    this.page.say(this.blind ? "Values hidden." : "Values shown.");
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    /** @type {Record<string, () => void>} */
    const actions = {
      ArrowLeft: () => this.answer("a"),
      ArrowRight: () => this.answer("b"),
      ArrowDown: () => this.answer("tie"),
      s: () => this.answer("skip"),
      Backspace: () => this.undo(),
      " ": () => this.flip(),
      1: () => this.zoom("a"),
      2: () => this.zoom("b"),
      p: () => this.hide(),
      Escape: () => this.both(),
      "?": () => showKeys(),
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    // A button under the focus keeps its own Space; players keep their arrows.
    const target = event.target instanceof HTMLElement ? event.target : null;
    if (action === undefined || event.repeat || target?.closest("audio, video, input, select, textarea")) return false;
    if (event.key === " " && target?.closest("button, a")) return false;
    action();
    return true;
  }

  leave() {
    this.gone = true;
    document.body.classList.remove("zoomed");
    document.removeEventListener("visibilitychange", this.watch);
  }
}

function showKeys() {
  const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("keys"));
  dialog.showModal();
}
