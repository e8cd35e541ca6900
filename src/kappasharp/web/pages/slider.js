/** A line through some designs: the card follows the place until it looks best. */

/** @import { Compare } from "./compare.js" */
/** @import { Board, Card, Design, Pair, Parameter, Stop, Told } from "./types.js" */
import { media, play, tellUnplayable } from "./cards.js";
import { apart, button, el, folded, foremost, parameterLines, percent, room, valueSentence } from "./elements.js";
import { byKey } from "./keys.js";
import { outcomeHint, outcomeLines } from "./outcomes.js";
import { at, get, langOf, sentence } from "./talk.js";
import { text } from "./texts.js";

/** A renderer that takes longer than this, in milliseconds, is said to be drawing. */
const FOLLOWS = 100;
/** Who sends a place whose picture is not there yet waits for it so long, in milliseconds. */
const PATIENCE = 1500;
/** Pictures drawn ahead: every so many stops, and so many at a time. */
const EVERY = 2;
const AT_ONCE = 2;
/** Designs of a line that does not bend. */
const STRAIGHT = 2;
/** The golden ratio: multiples of it, without their whole part, spread evenly. */
const GOLDEN = 0.6180339887498949;
/** @type {Told} */
const COMPUTING = { state: "computing", values: [], sentence: "" };

/** @typedef {{params: Design, card: Card, made: HTMLElement | null}} Drawn */

/**
 * @param {Compare} view
 * @param {Pair} pair
 * @returns {Promise<Board>}
 */
export async function board(view, pair) {
  const slider = new Slider(view, pair);
  await slider.begin();
  return slider.board();
}

class Slider {
  /**
   * @param {Compare} view
   * @param {Pair} pair
   */
  constructor(view, pair) {
    this.view = view;
    this.pair = pair;
    const { stops, finest } = /** @type {NonNullable<Pair["line"]>} */ (pair.line);
    this.stops = stops;
    this.hasPictures = view.study.has_pictures;
    /** Places are counted in whole steps, from 0 to `finest`; a stop is every so many of them. */
    this.finest = finest;
    this.stride = finest / (stops.length - 1);
    /** Where the line is first left says nothing of what is good: by the question's number, the same after a reload. */
    this.place = this.stride * Math.round(((pair.number * GOLDEN) % 1) * (stops.length - 1));
    /** What is drawn, by place. @type {Map<number, Drawn>} */
    this.drawn = new Map();
    /** Outcomes, by place. @type {Map<number, Told>} */
    this.told = new Map();
    this.outcomes = view.study.outcomes;
    /** What is being drawn. @type {Map<number, Promise<void>>} */
    this.drawing = new Map();
    /** The place whose picture is on the card. @type {number | null} */
    this.onCard = null;
    this.gone = false;
    this.clock = 0;
    /** The designs that the line goes through, and their places. */
    this.designs = pair.designs.map((one) => one.params);
    this.corners = this.designs.map((_, index) => (index * finest) / (this.designs.length - 1));
    this.bends = this.designs.length > STRAIGHT;
    this.moving = apart(view.study.parameters, stops.map((one) => one.params)).differing;
    this.stage = el("div", { class: "stage" });
    this.note = el("p", { class: "following quiet", hidden: true });
    this.values = el("div", { class: "values", hidden: view.blind && this.hasPictures });
    this.range = el("input", {
      type: "range", min: 0, max: finest, step: this.hasPictures ? 1 : this.stride, value: this.place, id: "place", "aria-label": text("slider.place"),
      oninput: () => this.go(Number(this.range.value)),
    });
    const small = (/** @type {string} */ which) => (this.hasPictures && !this.bends ? el("span", { class: `end ${which}` }) : null);
    const words = (/** @type {number} */ index) => [text("slider.corner", { mark: index + 1 }), valueSentence(this.moving, this.designs[index], this.designs)].join(": ");
    this.marks = this.corners.map((place, index) => button(String(index + 1), () => this.go(place), { kind: "corner-mark", name: words(index), shortcut: String(index + 1) }));
    this.element = el("div", { class: "board slider" },
      el("article", { class: `card${this.hasPictures ? "" : " bare"}`, "aria-label": text("slider.here") },
        el("div", { class: "inside" }, this.hasPictures ? this.stage : null, this.values), this.note),
      el("div", { class: `line${this.bends ? " bent" : ""}` }, small("first"), this.range, small("second"), this.bends ? el("div", { class: "corner-marks" }, ...this.marks) : null));
    this.element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  async begin() {
    for (const [index, stop] of this.stops.entries()) this.keep(index * this.stride, stop);
    this.go(this.place);
    if (!this.hasPictures && this.outcomes === null) return;
    // The first picture comes with the question, if it comes soon.
    await Promise.race([this.fetch(this.place), new Promise((done) => setTimeout(done, 2 * FOLLOWS))]);
    for (let each = 0; each < AT_ONCE; each += 1) void this.drawAhead();
  }

  /** @returns {Board} */
  board() {
    const far = 4 * this.stride;
    const by = (/** @type {number} */ step) => this.go(this.place + step);
    return {
      title: text("slider.title"),
      hint: [byKey(text("slider.hintKeys")) || text("slider.hint"), " ", ...outcomeHint(this.outcomes)],
      element: this.element,
      choices: [button(text("slider.send"), (event) => void this.answer(event), { kind: "choice a", key: "↵", shortcut: "Enter" })],
      extras: [],
      home: this.range,
      keys: [
        { keys: ["ArrowLeft", "ArrowDown"], label: "← ↓", words: text("slider.keyBack"), repeats: true, action: (_, fine) => by(-this.step(fine)) },
        { keys: ["ArrowRight", "ArrowUp"], label: "→ ↑", words: text("slider.keyOn"), repeats: true, action: (_, fine) => by(this.step(fine)) },
        { keys: ["PageDown", "PageUp"], label: text("keys.pages"), words: text("slider.keyFar"), repeats: true, action: (key) => by(key === "PageUp" ? far : -far) },
        ...(this.bends ? [{ keys: this.corners.map((_, index) => String(index + 1)), label: `1 – ${this.corners.length}`, words: text("slider.keyCorner"), action: (/** @type {string} */ key) => this.go(this.corners[Number(key) - 1]) }] : []),
        { keys: ["Home", "End"], label: text("keys.ends"), words: text("slider.keyEnds"), action: (key) => this.go(key === "Home" ? 0 : this.finest) },
        { keys: ["Enter"], label: "↵", words: text("slider.keySend"), action: () => void this.answer() },
        { keys: ["a"], label: "A", words: text("slider.keyPlay"), action: () => this.play() },
      ],
      leave: () => {
        this.gone = true;
        clearTimeout(this.clock);
      },
    };
  }

  play() {
    const found = this.stage.querySelector("audio, video");
    if (found instanceof HTMLMediaElement) play(found);
  }

  /** @param {boolean} fine */
  step(fine) {
    return fine && this.hasPictures ? 1 : this.stride;
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    if (event.ctrlKey || (event.target instanceof Element && event.target.closest(".values") && this.values.scrollHeight > this.values.clientHeight)) return;
    event.preventDefault();
    this.go(this.place - Math.sign(event.deltaY || event.deltaX) * this.stride);
  }

  /**
   * Move to a place, and show what is there.
   * @param {number} place
   */
  go(place) {
    if (this.view.busy && this.onCard !== null) return this.hold();
    this.place = Math.min(Math.max(Math.round(place), 0), this.finest);
    this.hold();
    this.showValues();
    if (!this.hasPictures && this.outcomes === null) return;
    this.showNearest();
    clearTimeout(this.clock);
    if (this.onCard === this.place && !this.lacksOutcomes(this.place)) return;
    void this.fetch(this.place);
    if (this.hasPictures) this.clock = setTimeout(() => this.tellDrawing(), FOLLOWS);
  }

  /** The thumb stands where the card is, and says it. */
  hold() {
    this.range.value = String(this.place);
    const values = valueSentence(this.moving, this.params(), this.designs);
    this.range.setAttribute("aria-valuetext", text("slider.at", { share: percent(this.place / this.finest), values }));
    this.element.dataset.place = String(this.place / this.finest);
    for (const [index, mark] of this.marks.entries()) {
      const here = this.corners[index] === this.place;
      mark.classList.toggle("here", here);
      mark.setAttribute("aria-pressed", String(here));
    }
  }

  /** The design here; of a place between two stops that is not fetched yet, that of the nearer one. */
  params() {
    return (this.drawn.get(this.place) ?? this.stops[Math.round(this.place / this.stride)]).params;
  }

  showValues() {
    const [tuned, here] = [this.view.study.parameters, this.params()];
    const { first, rest } = foremost(tuned, this.designs, room(tuned, this.hasPictures));
    const lines = (/** @type {Parameter[]} */ some) => {
      const made = parameterLines(some, here);
      for (const [index, dd] of [...made.querySelectorAll("dd")].entries()) dd.classList.toggle("differs", this.moving.includes(some[index]));
      return made;
    };
    const told = this.outcomes === null ? null : outcomeLines(this.outcomes, this.pair.ranges ?? {}, this.told.get(this.place) ?? COMPUTING, []);
    this.values.replaceChildren(...(told === null ? [] : [el("div", { class: "outcomes" }, told)]), folded(lines(first), rest, this.moving, this.view.unfolded, lines));
  }

  /** @param {number} place */
  lacksOutcomes(place) {
    return this.outcomes !== null && !this.told.has(place);
  }

  /**
   * Note what the server said of a place.
   * @param {number} place
   * @param {Stop} stop
   */
  keep(place, stop) {
    if (stop.outcomes !== undefined) this.told.set(place, stop.outcomes);
    if (stop.card === null || stop.card.kind === "pending") return;
    this.drawn.set(place, { params: stop.params, card: stop.card, made: null });
  }

  /**
   * Have a place drawn and its picture decoded.
   * @param {number} place
   * @returns {Promise<void>}
   */
  fetch(place) {
    const known = this.drawing.get(place);
    if (known !== undefined) return known;
    const coming = this.bring(place).finally(() => this.drawing.delete(place));
    this.drawing.set(place, coming);
    return coming;
  }

  /** @param {number} place */
  async bring(place) {
    const { page, study } = this.view;
    let found = this.drawn.get(place);
    try {
      if (found === undefined || this.lacksOutcomes(place)) {
        this.keep(place, await get(at(study.id, `line/${this.pair.number}?place=${place / this.finest}`)));
        found = this.drawn.get(place);
        if (place === this.place && !this.gone) this.showValues();
      }
    } catch (error) {
      if (place === this.place) this.tell(sentence(error), langOf(error));
    }
    if (found === undefined) return;
    const values = valueSentence(study.parameters, found.params, this.designs);
    found.made ??= (await media(page, null, found.card, text("slider.here"), values, this.view.blind)) ?? el("p", { class: "media quiet" }, text("card.noPicture"));
    if (this.gone) return;
    if (place === this.place) this.showValues();
    this.showNearest();
    this.showEnds();
  }

  /** The picture of the nearest place that is drawn; what moves or plays by itself only at its own place. */
  showNearest() {
    let nearest = null;
    for (const [place, { card, made }] of this.drawn) {
      if (made === null || (card.kind !== "image" && place !== this.place)) continue;
      if (nearest === null || Math.abs(place - this.place) < Math.abs(nearest - this.place)) nearest = place;
    }
    if (nearest !== null && nearest !== this.onCard) {
      this.onCard = nearest;
      const { made } = /** @type {Drawn} */ (this.drawn.get(nearest));
      this.stage.replaceChildren(/** @type {HTMLElement} */ (made));
      tellUnplayable(this.stage);
    }
    this.element.dataset.shown = this.onCard === null ? "" : String(this.onCard / this.finest);
    if (this.onCard === this.place) {
      this.note.hidden = true;
      this.view.appease();
    } else if (!this.note.hidden) this.tellDrawing();
  }

  tellDrawing() {
    if (this.onCard === this.place || this.gone) return;
    this.tell(text(this.onCard === null ? "card.drawing" : "slider.drawingPlace"));
  }

  /**
   * @param {string} words
   * @param {string | null} [lang]
   */
  tell(words, lang) {
    this.note.replaceChildren(el("span", { lang }, words));
    this.note.hidden = false;
  }

  /** Small pictures of the designs that the line goes through. */
  showEnds() {
    const shown = this.bends ? this.marks : [...this.element.querySelectorAll(".end")];
    for (const [index, end] of shown.entries()) {
      const found = this.drawn.get(this.corners[index]);
      if (end.querySelector("img") !== null || !found?.made) continue;
      if (found.made instanceof HTMLImageElement) end.append(el("img", { src: found.made.src, alt: "", draggable: "false" }));
      else if (!this.bends) end.remove();
    }
  }

  /** Draw the designs of the line, then its steps, those nearest to the place first, while the person looks. */
  async drawAhead() {
    while (!this.gone) {
      const waits = (/** @type {number} */ place) => !this.drawn.get(place)?.made && !this.drawing.has(place);
      const steps = Array.from({ length: Math.floor(this.finest / (EVERY * this.stride)) + 1 }, (_, number) => number * EVERY * this.stride);
      const far = (/** @type {number} */ place) => Math.abs(place - this.place);
      const next = (this.bends ? this.corners.find(waits) : undefined) ?? steps.filter(waits).sort((one, other) => far(one) - far(other))[0];
      if (next === undefined) return;
      await this.fetch(next);
      // What failed once is not asked for again and again.
      if (!this.drawn.get(next)?.made) return;
    }
  }

  /** @param {MouseEvent} [event] */
  async answer(event) {
    const place = this.place;
    if (this.hasPictures && this.onCard !== place) {
      await Promise.race([this.fetch(place), new Promise((done) => setTimeout(done, PATIENCE))]);
      if (this.gone || place !== this.place) return;
      if (this.onCard !== place) {
        this.view.complain(text("slider.notDrawn"));
        return;
      }
    }
    this.view.answer(place / this.finest, event);
  }
}
