/** Charts: the server sends their marks, the page places them. All geometry is in charts.py. */

/** @import { Chart } from "./types.js" */
import { el, svg } from "./elements.js";

/**
 * A chart with its caption above it.
 * @param {Chart} chart
 */
export function figure(chart) {
  const marks = chart.marks.map((one) =>
    svg(one.tag, { ...one.at, class: one.kind }, one.title ? svg("title", {}, one.title) : null, one.words),
  );
  const caption = chart.caption.map((one) => el("span", { class: one.kind || null }, one.words));
  return el(
    "figure",
    { class: "chart" },
    caption.length ? el("figcaption", {}, ...caption) : null,
    svg("svg", { viewBox: `0 0 ${chart.width} ${chart.height}`, role: "img", "aria-label": chart.label }, ...marks),
  );
}
