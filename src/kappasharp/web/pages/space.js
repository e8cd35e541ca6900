/** The parameters of a new study, and designs to start from: rows of fields that check themselves. */

/** @import { Value } from "./types.js" */
/** @import { Fault } from "./fields.js" */
import { button, el } from "./elements.js";
import { Field, plain } from "./fields.js";
import { numeral, text } from "./texts.js";

const TYPES = /** @type {const} */ (["float", "int", "categorical", "fixed"]);
/** More steps than this nobody tells apart, and the server refuses. */
const MOST_STEPS = 100_000;
const LONGEST = 200;

/** @param {Record<string, any>} attributes */
const number = (attributes) => el("input", { type: "text", inputmode: "decimal", autocomplete: "off", ...attributes });

/** One parameter. */
export class ParameterRow {
  /**
   * @param {{name: string, low: string, high: string}} start
   * @param {(row: ParameterRow) => void} remove
   */
  constructor(start, remove) {
    const kinds = TYPES.map((value) => el("option", { value }, text(`field.type.${value}`)));
    this.name = new Field(text("field.name"), el("input", { type: "text", value: start.name, autocomplete: "off" }), { name: text("field.parameterName"), class: "name" });
    this.kind = new Field(text("field.kind"), el("select", {}, ...kinds));
    this.low = new Field(text("field.from"), number({ value: start.low }));
    this.high = new Field(text("field.to"), number({ value: start.high }));
    this.step = new Field(text("field.step"), number({ placeholder: text("field.any") }));
    this.jnd = new Field(text("field.jnd"), number({ placeholder: text("field.usual") }), { name: text("field.jndLong") });
    this.log = el("input", { type: "checkbox" });
    this.scale = el("label", { class: "check" }, this.log, text("field.log"));
    this.choices = new Field(text("field.choices"), el("input", { type: "text", placeholder: text("field.choicesSuch"), autocomplete: "off" }), { name: text("field.choicesLong"), class: "long" });
    this.fixed = new Field(text("field.value"), el("input", { type: "text", autocomplete: "off" }), { class: "long" });
    this.fields = [this.name, this.kind, this.low, this.high, this.step, this.jnd, this.choices, this.fixed];
    this.element = el("li", { class: "parameter" }, ...this.fields.slice(0, 6).map((one) => one.element), this.scale,
      this.choices.element, this.fixed.element, button(text("field.remove"), () => remove(this), { name: text("field.removeParameter") }));
    this.kind.input.addEventListener("change", () => this.adapt());
    this.adapt();
  }

  get isNumber() {
    return ["float", "int"].includes(this.kind.value);
  }

  /** Show the fields that this kind has. */
  adapt() {
    for (const one of [this.low, this.high, this.step, this.jnd]) one.element.hidden = !this.isNumber;
    this.scale.hidden = !this.isNumber;
    this.choices.element.hidden = this.kind.value !== "categorical";
    this.fixed.element.hidden = this.kind.value !== "fixed";
  }

  /** @returns {Value[]} */
  get words() {
    return this.choices.value.split(",").map((one) => plain(one.trim())).filter((one) => one !== "");
  }

  /** What the server is told. */
  described() {
    const kind = this.kind.value;
    if (kind === "categorical") return { choices: this.words };
    if (kind === "fixed") return { value: plain(this.fixed.value) };
    const more = { ...(this.step.number === null ? {} : { step: this.step.number }), ...(this.jnd.number === null ? {} : { jnd: this.jnd.number }) };
    return { type: kind, low: this.low.number, high: this.high.number, log: this.log.checked, ...more };
  }

  /**
   * What is wrong with it.
   * @param {string[]} taken names of the parameters before it
   * @returns {Fault[]}
   */
  faults(taken) {
    const name = this.name.value;
    /** @type {Fault[]} */
    const found = [];
    const add = (/** @type {Field} */ field, /** @type {string} */ words) => found.push({ field, words });
    if (name === "") add(this.name, text("field.needsName"));
    else if (taken.includes(name)) add(this.name, text("field.nameTaken"));
    else if (name.length > LONGEST) add(this.name, text("field.nameLong", { count: LONGEST }));
    if (this.isNumber) return [...found, ...this.rangeFaults()];
    if (this.kind.value === "fixed" && this.fixed.value === "") add(this.fixed, text("field.needsValue"));
    if (this.kind.value !== "categorical") return found;
    const twice = this.words.find((one, at) => this.words.indexOf(one) !== at);
    if (this.words.length < 2) add(this.choices, text("field.needsChoices"));
    else if (twice !== undefined) add(this.choices, text("field.twice", { value: String(twice) }));
    return found;
  }

  /** @returns {Fault[]} */
  rangeFaults() {
    const whole = this.kind.value === "int";
    for (const field of [this.low, this.high, this.step, this.jnd]) {
      const needed = field === this.low || field === this.high;
      if (field.number === null && (needed || field.value !== "")) return [{ field, words: text("field.needsNumber") }];
      if (whole && field !== this.jnd && field.number !== null && !Number.isInteger(field.number)) return [{ field, words: text("field.needsWhole") }];
    }
    const low = Number(this.low.number);
    const high = Number(this.high.number);
    const { number: step } = this.step;
    const { number: jnd } = this.jnd;
    if (low >= high) return [{ field: this.high, words: text("field.toLarger") }];
    if (this.log.checked && low <= 0) return [{ field: this.low, words: text("field.logAbove") }];
    if (step !== null && step <= 0) return [{ field: this.step, words: text("field.stepAbove") }];
    if (step !== null && step > high - low) return [{ field: this.step, words: text("field.stepFits") }];
    if ((high - low) / (step ?? (whole ? 1 : Infinity)) > MOST_STEPS) return [{ field: this.step, words: text("field.tooMany") }];
    if (jnd !== null && jnd < 0) return [{ field: this.jnd, words: text("field.jndAbove") }];
    const range = this.log.checked ? high / low - 1 : high - low;
    if (jnd !== null && jnd >= range) return [{ field: this.jnd, words: text("field.jndSmaller") }];
    return [];
  }
}

/** A design to start from: a field for each parameter that varies. */
export class FavouriteCard {
  /** @param {(card: FavouriteCard) => void} remove */
  constructor(remove) {
    /** @type {Map<ParameterRow, Field>} */
    this.fields = new Map();
    this.place = el("div", { class: "favourite-fields" });
    this.element = el("li", { class: "parameter" }, this.place, button(text("field.remove"), () => remove(this), { name: text("field.removeFavourite") }));
  }

  /**
   * Have a field for each of these, with what was typed before.
   * @param {ParameterRow[]} rows
   */
  draw(rows) {
    const varying = rows.filter((one) => one.kind.value !== "fixed");
    const before = this.fields;
    this.fields = new Map(varying.map((row) => [row, fieldFor(row, before.get(row)?.value ?? "")]));
    this.place.replaceChildren(...[...this.fields.values()].map((one) => one.element));
  }

  /** @returns {Record<string, Value>} */
  described() {
    return Object.fromEntries([...this.fields].map(([row, field]) => [row.name.value, row.isNumber ? Number(field.number) : row.words[Number(field.value)]]));
  }

  /** @returns {Fault[]} */
  faults() {
    return [...this.fields].filter(([row]) => row.isNumber && row.rangeFaults().length === 0).flatMap(([row, field]) => {
      const { number: value } = field;
      const [low, high] = [Number(row.low.number), Number(row.high.number)];
      if (value === null) return [{ field, words: text("field.needsNumber") }];
      if (value < low || value > high) return [{ field, words: text("field.within", { low: numeral(String(low)), high: numeral(String(high)) }) }];
      const step = row.step.number ?? (row.kind.value === "int" ? 1 : null);
      const steps = step === null ? 0 : (value - low) / step;
      return Math.abs(steps - Math.round(steps)) > 1e-6 ? [{ field, words: text("field.onGrid", { low: numeral(String(low)), step: numeral(String(step)) }) }] : [];
    });
  }
}

/**
 * @param {ParameterRow} row
 * @param {string} value
 */
function fieldFor(row, value) {
  const label = row.name.value || text("field.unnamed");
  if (row.isNumber) return new Field(label, number({ value }));
  const options = row.words.map((one, at) => el("option", { value: at, selected: String(at) === value }, String(one)));
  return new Field(label, el("select", {}, ...options));
}
