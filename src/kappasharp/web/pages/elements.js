/** Elements without markup in strings: what a person or a study wrote is always text, never HTML. */

/** @import { Design, Parameter, Value } from "./types.js" */
import { langOf, sentence } from "./talk.js";
import { listed, numeral, text } from "./texts.js";

/** So many values are told in a sentence. */
const NAMED = 8;
const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Attributes */

/**
 * @param {Element} made
 * @param {Attributes} attributes
 * @param {Child[]} children
 */
function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name.replace(/^on/, ""), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    made.append(child instanceof Node ? child : String(child));
  }
}

/**
 * An HTML element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  fill(made, attributes, children);
  return made;
}

/**
 * An SVG element.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  fill(made, attributes, children);
  return made;
}

/**
 * A button with its key beside it.
 * @param {string} label
 * @param {(event: MouseEvent) => void} action
 * @param {{kind?: string, key?: string, id?: string, pressed?: boolean, disabled?: boolean, name?: string, shortcut?: string}} [more]
 */
export function button(label, action, more = {}) {
  return el(
    "button",
    {
      type: "button", class: more.kind ?? "plain", id: more.id, "aria-label": more.name, disabled: more.disabled,
      "aria-pressed": more.pressed === undefined ? null : String(more.pressed), "aria-keyshortcuts": more.shortcut,
      onclick: action,
    },
    el("span", {}, label),
    more.key ? el("kbd", { "aria-hidden": "true" }, more.key) : null,
  );
}

/**
 * Put what is new in the place of what is there: the focus, folds that are open and what was scrolled stay as they are.
 * @param {Element} old
 * @param {Element} fresh
 * @returns {Element} the one that is there now
 */
export function renew(old, fresh) {
  const folds = fresh.querySelectorAll("details");
  old.querySelectorAll("details").forEach((one, index) => {
    if (folds[index]) folds[index].open = one.open;
  });
  if (old.isEqualNode(fresh)) return old;
  const focused = path(old, document.activeElement);
  const scrolled = [...old.querySelectorAll(".scroll")].map(({ scrollLeft: left, scrollTop: top }) => ({ left, top }));
  old.replaceWith(fresh);
  fresh.querySelectorAll(".scroll").forEach((one, index) => one.scrollTo(scrolled[index] ?? { left: 0, top: 0 }));
  const now = focused?.reduce((/** @type {Element | undefined} */ at, index) => at?.children[index], fresh);
  if (now instanceof HTMLElement || now instanceof SVGElement) now.focus({ preventScroll: true });
  return fresh;
}

/**
 * The way from an element down to one in it, as numbers of children; null where it is not in it.
 * @param {Element} from
 * @param {Element | null} to
 * @returns {number[] | null}
 */
function path(from, to) {
  if (to === null || !from.contains(to)) return null;
  const found = [];
  for (let at = to; at !== from && at.parentElement !== null; at = at.parentElement) found.unshift([...at.parentElement.children].indexOf(at));
  return found;
}

/**
 * What went wrong.
 * @param {unknown} error
 */
export function problem(error) {
  return el("p", { class: "problem", role: "alert", lang: langOf(error) }, sentence(error));
}

/**
 * A value as people read it.
 * @param {Value} value
 */
export function shown(value) {
  if (typeof value !== "number") return value === null ? text("value.none") : String(value);
  if (Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return numeral(size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(2) : String(Number(value.toPrecision(4))));
}

/**
 * A share in whole per cent.
 * @param {number} share
 */
export function percent(share) {
  return text("unit.percent", { count: Math.round(100 * share) });
}

/**
 * Seconds as people say them.
 * @param {number | null} seconds
 */
export function duration(seconds) {
  if (seconds === null) return "–";
  return seconds < 90 ? text("unit.seconds", { count: numeral(seconds.toFixed(1)) }) : text("unit.minutes", { count: Math.round(seconds / 60) });
}

/**
 * Where a value lies in its parameter's range, from 0 to 1; null for choices.
 * @param {Parameter} parameter
 * @param {Value} value
 */
export function share(parameter, value) {
  const { low, high, log } = parameter;
  if (typeof value !== "number" || low === undefined || high === undefined) return null;
  const place = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  return Math.min(Math.max(place, 0), 1);
}

/**
 * The parameters that are tuned: those in which designs differ, and the others.
 * @param {Parameter[]} parameters
 * @param {Design[]} designs
 */
export function apart(parameters, designs) {
  const tuned = parameters.filter((one) => one.type !== "fixed");
  const differs = (/** @type {Parameter} */ one) => designs.some((design) => design[one.name] !== designs[0][one.name]);
  return { differing: tuned.filter(differs), same: tuned.filter((one) => !differs(one)) };
}

/** What differs by less than this share of its range comes after what differs by more. */
const SLIGHT = 0.02;

/**
 * What is shown of many parameters at once, and what behind a fold: where the designs differ most comes first.
 * @param {Parameter[]} parameters
 * @param {Design[]} designs
 * @param {number} room how many can be shown
 */
export function foremost(parameters, designs, room) {
  const { differing, same } = apart(parameters, designs);
  const slight = differing.filter((one) => spread(one, designs) < SLIGHT);
  const plain = [...differing.filter((one) => !slight.includes(one)), ...slight];
  const all = [...plain, ...same];
  // A fold that hides one or two is not worth a click.
  if (all.length <= room + 2) return { first: all, rest: [], differing };
  const sorted = differing.length <= room ? plain : [...differing].sort((one, other) => spread(other, designs) - spread(one, designs));
  const first = sorted.slice(0, room);
  return { first, rest: all.filter((one) => !first.includes(one)), differing };
}

/**
 * How far designs are apart in a parameter, from 0 to 1.
 * @param {Parameter} parameter
 * @param {Design[]} designs
 */
function spread(parameter, designs) {
  const places = designs.map((one) => share(parameter, one[parameter.name]) ?? -1);
  return places.includes(-1) ? 1 : Math.max(...places) - Math.min(...places);
}

/** Longer names than this, in letters, take two lines, unless the window is very wide. */
const LONG = 22;

/**
 * How many parameters a card has room for: beside a picture, or alone.
 * @param {Parameter[]} parameters
 * @param {boolean} pictured
 */
export function room(parameters, pictured) {
  const small = matchMedia("(max-width: 40rem), (max-height: 30rem)").matches;
  const long = parameters.some((one) => one.name.length > LONG) && !matchMedia("(min-width: 110rem)").matches;
  return (small ? 4 : 8) * (pictured ? 1 : 2) - (long && pictured ? (small ? 2 : 3) : 0);
}

/**
 * What did not find room, behind a fold.
 * @param {HTMLElement} shown
 * @param {Parameter[]} rest
 * @param {Parameter[]} differing
 * @param {boolean} open
 * @param {(rest: Parameter[]) => HTMLElement} lines
 */
export function folded(shown, rest, differing, open, lines) {
  if (!rest.length) return shown;
  const more = rest.filter((one) => differing.includes(one)).length;
  return el("div", {}, shown, el("details", { class: "fold", open }, el("summary", {}, foldWords(rest.length, more)), lines(rest)));
}

/**
 * @param {number} all how many values a fold hides
 * @param {number} more how many of them differ
 */
export function foldWords(all, more) {
  return more === all ? text("value.allDiffer", { count: more }) : more ? text("value.someDiffer", { all, count: more }) : text("value.noneDiffer", { count: all });
}

/**
 * The parameters of a design, one line each; where other designs are given, what differs comes first and is marked.
 * @param {Parameter[]} parameters
 * @param {Design} design
 * @param {Design[]} [others]
 * @param {{room: number, open: boolean}} [fold]
 */
export function parameterLines(parameters, design, others = [], fold = { room: Infinity, open: false }) {
  const { first, rest, differing } = foremost(parameters, [design, ...others], fold.room);
  const lines = (/** @type {Parameter[]} */ some) => el("dl", { class: "parameters" }, ...some.map((one) => line(one, design, others, differing.includes(one))));
  return folded(lines(first), rest, differing, fold.open, lines);
}

/**
 * The values in which a design differs from others, in few words.
 * @param {Parameter[]} differing
 * @param {Design} design
 */
export function valueWords(differing, design) {
  return el("dl", { class: "words" }, ...differing.map((one) => el("div", {}, el("dt", {}, one.name), el("dd", {}, shown(design[one.name])))));
}

/**
 * The same in a sentence, the foremost alone.
 * @param {Parameter[]} parameters
 * @param {Design} design
 * @param {Design[]} designs
 */
export function valueSentence(parameters, design, designs) {
  return listed(foremost(parameters, designs, NAMED).first.map((one) => `${one.name} ${shown(design[one.name])}`));
}

/**
 * @param {Parameter} parameter
 * @param {Design} design
 * @param {Design[]} others
 * @param {boolean} differs
 */
function line(parameter, design, others, differs) {
  const value = design[parameter.name];
  return el(
    "div",
    {},
    el("dt", { title: parameter.name }, parameter.name),
    el(
      "dd",
      { class: differs ? "differs" : null },
      track(parameter, value, others.length === 1 ? others[0][parameter.name] : undefined),
      el("span", { class: "number" }, shown(value), differs && others.length === 1 ? el("span", { class: "unseen" }, " ", text("value.differs")) : null),
    ),
  );
}

/**
 * @param {Parameter} parameter
 * @param {Value} value
 * @param {Value} [other]
 */
function track(parameter, value, other) {
  const here = share(parameter, value);
  if (here === null) return el("span", { class: "track", "aria-hidden": "true" });
  return rail(here, other === undefined ? here : (share(parameter, other) ?? here));
}

/**
 * A rail with a dot here and the way to there, both from 0 to 1.
 * @param {number} here
 * @param {number} there
 */
export function rail(here, there) {
  const [from, to] = here < there ? [here, there] : [there, here];
  return svg(
    "svg",
    { class: "track", viewBox: "0 0 200 16", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("line", { x1: 6, x2: 194, y1: 8, y2: 8, class: "rail" }),
    to > from ? svg("line", { x1: 6 + 188 * from, x2: 6 + 188 * to, y1: 8, y2: 8, class: "gap" }) : null,
    svg("line", { x1: 6 + 188 * here, x2: 6 + 188 * here, y1: 8, y2: 8, class: "dot" }),
  );
}
