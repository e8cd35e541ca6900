/** Compare: one question after the other, of whatever kind. The kind's board shows it; what is around it is here. */

/** @import { Answer, Board, Key, Kind, News, Page, Pair, View } from "./types.js" */
import { nameMedia, prefetch } from "./cards.js";
import { button, el } from "./elements.js";
import { reachable } from "./faces.js";
import { byKey, pressed, showKeys } from "./keys.js";
import { board as pair } from "./pair.js";
import { Progress } from "./progress.js";
import { Refusal, at, get, post } from "./talk.js";
import { sentences, text } from "./texts.js";
import { answerWords, formWords, formsOf } from "./wording.js";

const BLIND = "kappasharp blind";
const KEPT = "kappasharp kept";
/** The second half of a double click comes within so many milliseconds; it is not about the next question. */
const DOUBLE = 500;
/** @type {Record<Kind, () => Promise<(view: Compare, pair: Pair) => Promise<Board>>>} */
const BOARDS = {
  pair: async () => pair,
  rating: async () => pair,
  choice: async () => (await import("./gallery.js")).board,
  order: async () => (await import("./order.js")).board,
  slider: async () => (await import("./slider.js")).board,
};

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

export class Compare {
  /**
   * @param {Page} page
   * @param {HTMLElement} root
   */
  constructor(page, root) {
    this.page = page;
    this.root = root;
    this.study = /** @type {NonNullable<Page["study"]>} */ (page.study);
    /** @type {Pair | null} */
    this.pair = null;
    /** @type {Board | null} */
    this.board = null;
    this.busy = true;
    this.gone = false;
    this.seen = this.since = this.shown = 0;
    this.lastEvent = /** @type {number | null} */ (null);
    this.complaint = "";
    /** Whether the values behind the fold are shown. */
    this.unfolded = false;
    this.blind = localStorage.getItem(BLIND) === "yes";
    /** What is asked until further notice, where that is not the study's usual. */
    this.kept = sessionStorage.getItem(`${KEPT} ${this.study.id}`) || null;
    this.title = el("h1", { id: "question", tabindex: "-1" }, "…");
    this.hint = el("p", { class: "hint quiet" });
    this.progress = new Progress(this.study, (standing) => this.surprised(standing));
    /** Whether somebody pressed a key for a question that was not on the screen yet. */
    this.early = false;
    this.place = el("div", { class: "place" });
    this.waiting = el("p", { class: "waiting quiet", hidden: true }, text("compare.preparing"));
    this.choices = el("div", { class: "choices", role: "group", "aria-labelledby": "question" });
    this.extras = el("div", { class: "extras", role: "group", "aria-label": text("compare.more") });
    this.form = el("select", { id: "form", "aria-label": text("compare.askAs"), onchange: () => void this.ask(this.form.value) });
    this.buttons = this.makeButtons();
    root.append(
      el("div", { class: "head" }, this.title, el("p", { class: "asked" }, this.buttons.keep, this.form), this.hint, this.progress.element),
      this.place,
      this.waiting,
      el("div", { class: "controls" }, this.choices, page.status, this.extras),
    );
    this.watch = this.lookAway.bind(this);
    document.addEventListener("visibilitychange", this.watch);
    // What is folded on one card is folded on all.
    root.addEventListener("toggle", (event) => this.unfold(event), true);
    // A click leaves the focus on no button that a key would press again.
    root.addEventListener("click", (event) => {
      if (event.detail > 0 && event.target instanceof Element && event.target.closest("button, summary")) this.rest();
    });
  }

  /** @param {Event} event */
  unfold(event) {
    if (!(event.target instanceof HTMLDetailsElement)) return;
    this.unfolded = event.target.open;
    for (const one of this.place.querySelectorAll("details")) one.open = this.unfolded;
  }

  makeButtons() {
    return {
      skip: button(text("compare.skip"), (event) => this.answer("skip", event), { kind: "plain answers", key: "S", shortcut: "S" }),
      undo: button(text("compare.undo"), () => void this.undo(), { key: "⌫", shortcut: "Backspace" }),
      blind: button(text("compare.hideValues"), () => this.hide(), { key: "P", shortcut: "P", pressed: this.blind }),
      keys: button(text("keys.title"), () => showKeys(this.keys()), { key: "?", shortcut: "?" }),
      keep: button(text("compare.keep"), () => this.keep(), { kind: "corner", key: "K", shortcut: "K", pressed: this.kept !== null }),
    };
  }

  async begin() {
    await this.attempt(async () => this.show(await this.fetch("")), text("compare.noQuestion"));
  }

  /**
   * The question that waits, of that form if one is given.
   * @param {string} form
   * @returns {Promise<Pair>}
   */
  async fetch(form) {
    const kind = form ? `&kind=${encodeURIComponent(form)}` : "";
    return (await get(at(this.study.id, `pair?voter=${encodeURIComponent(this.page.voter)}${kind}`))).pair;
  }

  /** @param {Pair} pair */
  async show(pair) {
    const made = await (await BOARDS[pair.kind]())(this, pair);
    if (this.gone) return made.leave?.();
    const focused = document.activeElement;
    const inside = focused !== null && focused !== this.form && this.root.contains(focused);
    this.board?.leave?.();
    this.pair = pair;
    this.board = made;
    this.title.textContent = made.title;
    this.hint.replaceChildren(...made.hint);
    document.body.classList.remove("zoomed");
    this.place.replaceChildren(made.element);
    made.element.dataset.pair = String(pair.number);
    made.element.dataset.kind = pair.kind;
    this.showControls(made, pair);
    if (inside) this.rest();
    this.busy = false;
    this.seen = 0;
    this.since = this.shown = performance.now();
    this.progress.show(pair);
    this.fit();
    void prefetch(this.page);
  }

  /** What stands on the cards has changed: as much of it is shown as there is room for. */
  fit() {
    if (this.board !== null) reachable(this.board.element);
  }

  /**
   * @param {Board} made
   * @param {Pair} pair
   */
  showControls(made, pair) {
    const { skip, undo, blind, keys, keep } = this.buttons;
    this.choices.replaceChildren(...made.choices);
    this.choices.hidden = !made.choices.length;
    this.choices.dataset.kind = pair.kind;
    this.extras.replaceChildren(skip, undo, ...made.extras, blind, keys);
    undo.disabled = !pair.can_undo;
    const key = undo.querySelector("kbd");
    if (key !== null) key.textContent = this.undoKey();
    const forms = [...new Set([...formsOf(this.study), pair.form])];
    this.form.replaceChildren(...forms.map((one) => el("option", { value: one, selected: one === pair.form }, formWords(one, true))));
    this.form.hidden = forms.length < 2;
    keep.hidden = pair.form === this.study.question && this.kept === null;
    keep.setAttribute("aria-pressed", String(this.kept === pair.form));
  }

  /** Where the focus is when it is on nothing to press. */
  rest() {
    (this.board?.home ?? this.title).focus({ preventScroll: true });
  }

  /**
   * Another kind of question, this once.
   * @param {string} form
   */
  async ask(form) {
    if (!this.busy) {
      this.busy = true;
      await this.attempt(async () => this.show(await this.fetch(form)), text("compare.notAsked"));
      this.rest();
    }
    if (this.pair !== null) this.form.value = this.pair.form;
  }

  keep() {
    if (this.pair === null || this.buttons.keep.hidden) return;
    this.kept = this.kept === this.pair.form ? null : this.pair.form;
    sessionStorage.setItem(`${KEPT} ${this.study.id}`, this.kept ?? "");
    this.buttons.keep.setAttribute("aria-pressed", String(this.kept !== null));
    this.page.say(text(this.kept === null ? "compare.usual" : "compare.kept", { form: formWords(this.kept ?? this.study.question) }));
  }

  /**
   * Others answered, or there are newer figures: neither question nor focus hears of it.
   * @param {News} now
   */
  news(now) {
    this.progress.hear(now);
  }

  /** @param {NonNullable<News["standing"]>} standing */
  surprised(standing) {
    if (this.lastEvent === null || standing.since < this.lastEvent) return;
    if (standing.surprises.includes(this.lastEvent)) {
      this.page.say(byKey(text("compare.surprisedUndo", { key: this.undoKey() })) || text("compare.surprised"), "good");
    }
    this.lastEvent = null;
  }

  /** Seconds that the question was looked at. */
  looked() {
    return (this.seen + (document.hidden ? 0 : performance.now() - this.since)) / 1000;
  }

  lookAway() {
    if (document.hidden) this.seen += performance.now() - this.since;
    this.since = performance.now();
  }

  /**
   * Send an answer; whether it is on its way.
   * @param {Answer} answer
   * @param {MouseEvent} [event]
   */
  answer(answer, event) {
    const { pair, board } = this;
    if (this.busy && pair !== null && event === undefined) {
      this.early = true;
      this.page.say(text("compare.tooSoon"), "bad");
    }
    if (this.busy || pair === null || board === null) return false;
    if (event !== undefined && event.detail > 1 && performance.now() - this.shown < DOUBLE) return false;
    const seconds = Math.round(this.looked() * 1000) / 1000;
    this.busy = true;
    board.element.dataset.chosen = String(answer);
    const [voter, kind] = [this.page.voter, this.kept ?? undefined];
    void this.attempt(async () => {
      const found = await post(at(this.study.id, "answer"), { pair: pair.number, answer, seconds, voter, kind });
      this.lastEvent = found.saved.event;
      await this.show(found.pair);
      const said = { answer: answerWords(pair.kind, answer) };
      const saved = byKey(text("compare.savedUndo", { ...said, key: this.undoKey() })) || text("compare.saved", said);
      this.page.say(sentences(saved, this.early ? text("compare.tooSoon") : ""), this.early ? "bad" : "good");
      this.early = false;
    }, text("compare.notSaved"));
    return true;
  }

  async undo() {
    if (this.busy || !this.pair?.can_undo) return;
    if (!this.pair.undoes_answer) return this.page.say(text("compare.undoElsewhere"));
    this.busy = true;
    await this.attempt(async () => {
      const found = await post(at(this.study.id, "undo"), { voter: this.page.voter });
      await this.show(found.pair);
      this.page.say(text("compare.undone"), "good");
    }, text("compare.notUndone"));
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
        const why = /** @type {"answered" | "withdrawn" | "changed"} */ (error.why);
        this.page.say(text(`compare.${why}`), "bad");
      } else {
        this.page.fail(error, failure);
      }
    } finally {
      clearTimeout(slow);
      this.waiting.hidden = true;
      this.busy = false;
      delete this.board?.element.dataset.chosen;
      this.board?.element.querySelector(".chosen")?.classList.remove("chosen");
    }
  }

  /**
   * Say what is missing, until it is there.
   * @param {string} words
   */
  complain(words) {
    this.complaint = words;
    this.page.say(words, "bad");
  }

  /** What was missing is there. */
  appease() {
    if (this.complaint && this.page.status.textContent === this.complaint) this.page.say("");
    this.complaint = "";
  }

  hide() {
    this.blind = !this.blind;
    localStorage.setItem(BLIND, this.blind ? "yes" : "no");
    this.buttons.blind.setAttribute("aria-pressed", String(this.blind));
    for (const values of this.root.querySelectorAll(".card:not(.bare) .values, .shared")) values.toggleAttribute("hidden", this.blind);
    for (const one of this.root.querySelectorAll(".media")) nameMedia(one, this.blind);
    this.page.say(text(this.blind ? "compare.valuesHidden" : "compare.valuesShown"));
  }

  undoKey() {
    return this.undoKeys()[0] === "Backspace" ? "⌫" : "U";
  }

  undoKeys() {
    return ["Backspace", "u"].filter((key) => !this.board?.keys.some((one) => one.keys.includes(key)));
  }

  /** Every key and what it does now: one thing each. @returns {Key[]} */
  keys() {
    const undo = this.undoKeys();
    /** @type {Key[]} */
    const always = [
      { keys: ["s"], label: "S", words: text("compare.keySkip"), action: () => this.answer("skip") },
      { keys: undo, label: undo.length > 1 ? "⌫ U" : "U", words: text("compare.keyUndo"), action: () => void this.undo() },
      { keys: ["p"], label: "P", words: text("compare.keyBlind"), action: () => this.hide() },
      { keys: ["k"], label: "K", words: text("compare.keyKeep"), action: () => this.keep() },
      { keys: ["?"], label: "?", words: text("compare.keyKeys"), action: () => showKeys(this.keys()) },
    ];
    return [...(this.board?.keys ?? []), ...always];
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    return pressed(event, this.keys(), this.page.say);
  }

  leave() {
    this.gone = true;
    this.board?.leave?.();
    document.body.classList.remove("zoomed");
    document.removeEventListener("visibilitychange", this.watch);
  }
}
