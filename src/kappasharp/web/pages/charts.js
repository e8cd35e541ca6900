/** Charts: the server sends their marks, the page places them. All geometry is in charts.py. */

/** @import { Chart } from "./types.js" */
import { el, svg } from "./elements.js";
import { spoken } from "./texts.js";

/**
 * A chart with its caption above it; where it has readings, below it the values at the pointer, a finger or by arrow keys.
 * @param {Chart} chart
 */
export function figure(chart) {
  const marks = chart.marks.map((one) =>
    svg(one.tag, { ...one.at, class: one.kind }, one.title ? svg("title", {}, spoken(one.title).words) : null, spoken(one.words).words),
  );
  const caption = chart.caption.map((one) => el("span", { class: one.kind || null }, spoken(one.words).words));
  const label = spoken(chart.label);
  const picture = svg("svg", { viewBox: `0 0 ${chart.width} ${chart.height}`, role: "img", "aria-label": label.words }, ...marks);
  const made = el("figure", { class: "chart", lang: label.lang }, caption.length ? el("figcaption", {}, ...caption) : null, picture);
  if (chart.readings.length > 1) made.append(reader(chart, picture));
  return made;
}

/**
 * The values at one place, said below the chart.
 * @param {Chart} chart
 * @param {SVGSVGElement} picture
 */
function reader(chart, picture) {
  const readings = chart.readings.map((one) => ({ ...one, words: spoken(one.words).words }));
  const words = el("p", { class: "reading-words", "aria-hidden": "true" });
  const cursor = svg("g", { class: "cursor" });
  picture.append(cursor);
  let at = -1;

  /** @param {number} index */
  function show(index) {
    at = Math.min(Math.max(index, 0), readings.length - 1);
    const { x, ys, words: said } = readings[at];
    cursor.replaceChildren(svg("line", { x1: x, x2: x, y1: 6, y2: chart.height - 24 }), ...ys.map((y) => svg("circle", { cx: x, cy: y, r: 4 })));
    words.textContent = said;
    picture.setAttribute("aria-valuenow", String(at));
    picture.setAttribute("aria-valuetext", said);
  }

  function hide() {
    cursor.replaceChildren();
    words.textContent = "";
  }

  /** @param {PointerEvent} event */
  function follow(event) {
    const box = picture.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * chart.width;
    const far = readings.map((one) => Math.abs(one.x - x));
    show(far.indexOf(Math.min(...far)));
  }

  const steps = /** @type {Record<string, (now: number) => number>} */ ({
    ArrowRight: (now) => now + 1, ArrowUp: (now) => now + 1, ArrowLeft: (now) => now - 1, ArrowDown: (now) => now - 1,
    Home: () => 0, End: () => readings.length - 1,
  });
  const whole = { role: "slider", tabindex: "0", "aria-label": spoken(chart.label).words, "aria-valuemin": "0", "aria-valuemax": String(readings.length - 1), "aria-valuenow": "0", "aria-valuetext": readings[0].words };
  for (const [name, value] of Object.entries(whole)) picture.setAttribute(name, value);
  picture.addEventListener("pointermove", follow);
  picture.addEventListener("pointerdown", follow);
  picture.addEventListener("pointerleave", (event) => {
    // A finger that is lifted leaves what it showed.
    if (event.pointerType === "mouse" && document.activeElement !== picture) hide();
  });
  picture.addEventListener("focus", () => at < 0 && show(0));
  picture.addEventListener("blur", hide);
  picture.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    show(step(at));
  });
  return words;
}
