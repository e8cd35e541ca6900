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
 * @param {() => void} action
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
 * The parameters of a design, one line each; where another design is given, the difference is marked.
 * @param {Parameter[]} parameters
 * @param {Design} design
 * @param {Design} [other]
 */
export function parameterLines(parameters, design, other) {
  const tuned = parameters.filter((one) => one.type !== "fixed");
  return el("dl", { class: "parameters" }, ...tuned.flatMap((one) => line(one, design[one.name], other?.[one.name])));
}

/**
 * @param {Parameter} parameter
 * @param {Value} value
 * @param {Value} [other]
 */
function line(parameter, value, other) {
  const differs = other !== undefined && other !== value;
  return [
    el("dt", { title: parameter.name }, parameter.name),
    el(
      "dd",
      { class: differs ? "differs" : null },
      track(parameter, value, other),
      el("span", { class: "number" }, shown(value), differs ? el("span", { class: "unseen" }, " (differs)") : null),
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
  const there = other === undefined ? here : (share(parameter, other) ?? here);
  const [from, to] = here < there ? [here, there] : [there, here];
  return svg(
    "svg",
    { class: "track", viewBox: "0 0 200 16", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("line", { x1: 6, x2: 194, y1: 8, y2: 8, class: "rail" }),
    to > from ? svg("line", { x1: 6 + 188 * from, x2: 6 + 188 * to, y1: 8, y2: 8, class: "gap" }) : null,
    svg("line", { x1: 6 + 188 * here, x2: 6 + 188 * here, y1: 8, y2: 8, class: "dot" }),
  );
}
