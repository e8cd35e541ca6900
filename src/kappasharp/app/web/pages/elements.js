/** Elements without markup in strings: what a person or a study wrote is always text, never HTML. */

/** @import { Design, Parameter, Value } from "./types.js" */

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
 * A value as people read it.
 * @param {Value} value
 */
export function shown(value) {
  if (typeof value !== "number") return value === null ? "none" : String(value);
  if (Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

/**
 * A share in whole per cent.
 * @param {number} share
 */
export function percent(share) {
  return `${Math.round(100 * share)} %`;
}

/**
 * Seconds as people say them.
 * @param {number | null} seconds
 */
export function duration(seconds) {
  if (seconds === null) return "–";
  return seconds < 90 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds / 60)} min`;
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

/**
 * The parameters of a design, one line each; where other designs are given, what differs comes first and is marked.
 * @param {Parameter[]} parameters
 * @param {Design} design
 * @param {Design[]} [others]
 */
export function parameterLines(parameters, design, others = []) {
  const { differing, same } = apart(parameters, [design, ...others]);
  const lines = [...differing, ...same].map((one) => line(one, design, others, differing.includes(one)));
  return el("dl", { class: "parameters" }, ...lines.flat());
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
 * @param {Parameter} parameter
 * @param {Design} design
 * @param {Design[]} others
 * @param {boolean} differs
 */
function line(parameter, design, others, differs) {
  const value = design[parameter.name];
  return [
    el("dt", { title: parameter.name }, parameter.name),
    el(
      "dd",
      { class: differs ? "differs" : null },
      track(parameter, value, others.length === 1 ? others[0][parameter.name] : undefined),
      el("span", { class: "number" }, shown(value), differs && others.length === 1 ? el("span", { class: "unseen" }, " (differs)") : null),
    ),
  ];
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
