/** Small charts as SVG: a slice with its band, curves over the number of answers. */

/** @import { Slice } from "./types.js" */
import { el, shown, svg } from "./elements.js";

/** @typedef {{label: string, kind: string, points: [number, number][]}} Curve */
/** @typedef {{width: number, height: number, x: (value: number) => number, y: (value: number) => number}} Frame */

/**
 * @param {[number, number]} across
 * @param {[number, number]} up
 * @param {{width?: number, height?: number, left?: number, right?: number, top?: number, bottom?: number}} [size]
 * @returns {Frame}
 */
export function frame(across, up, size = {}) {
  const { width = 560, height = 220, left = 48, right = 14, top = 14, bottom = 30 } = size;
  const place = (/** @type {number} */ value, /** @type {[number, number]} */ [low, high]) =>
    high > low ? (value - low) / (high - low) : 0.5;
  return {
    width,
    height,
    x: (value) => left + place(value, across) * (width - left - right),
    y: (value) => height - bottom - place(value, up) * (height - top - bottom),
  };
}

/**
 * @param {Frame} box
 * @param {[number, number][]} points
 */
function path(box, points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${box.x(x).toFixed(1)},${box.y(y).toFixed(1)}`).join(" ");
}

/**
 * Round numbers between two ends.
 * @param {number} low
 * @param {number} high
 * @param {number} count
 */
export function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? power;
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step) {
    found.push(Number(value.toPrecision(12)));
  }
  return found;
}

/**
 * Curves over the number of answers.
 * @param {Curve[]} curves
 * @param {{label: string, across: string, shown?: (value: number) => string, up?: [number, number], marks?: {at: number, words: string}[]}} more
 */
export function curves(curves, more) {
  const all = curves.flatMap((one) => one.points);
  const xs = all.map(([x]) => x);
  const ys = all.map(([, y]) => y);
  const low = Math.min(...ys);
  const high = Math.max(...ys);
  const pad = (high - low || 1) * 0.12;
  const up = more.up ?? [low - pad, high + pad];
  const box = frame([Math.min(...xs), Math.max(...xs)], up);
  const name = more.shown ?? shown;
  const grid = ticks(up[0], up[1], 5).map((value) => [
    svg("line", { x1: 48, x2: box.width - 14, y1: box.y(value), y2: box.y(value), class: "grid" }),
    svg("text", { x: 42, y: box.y(value) + 4, "text-anchor": "end", class: "axis" }, name(value)),
  ]);
  const across = ticks(Math.min(...xs), Math.max(...xs), 6)
    .filter(Number.isInteger)
    .map((value) => svg("text", { x: box.x(value), y: box.height - 10, "text-anchor": "middle", class: "axis" }, value));
  const marks = (more.marks ?? []).map((one) =>
    svg("g", {}, svg("title", {}, one.words), svg("rect", { x: box.x(one.at) - 4, y: 14, width: 8, height: box.height - 44, class: "active-step" })),
  );
  const lines = curves.map((one) => svg("path", { d: path(box, one.points), class: `line ${one.kind}` }));
  const ends = curves.map((one) => {
    const [x, y] = one.points[one.points.length - 1];
    return svg("circle", { cx: box.x(x), cy: box.y(y), r: 4, class: `end ${one.kind}` });
  });
  return el(
    "figure",
    { class: "chart" },
    svg(
      "svg",
      { viewBox: `0 0 ${box.width} ${box.height}`, role: "img", "aria-label": more.label },
      ...marks, ...grid.flat(), ...across,
      svg("text", { x: box.width - 14, y: box.height + 1, "text-anchor": "end", class: "axis" }, more.across),
      ...lines, ...ends,
    ),
    curves.length > 1
      ? el("figcaption", {}, ...curves.map((one) => el("span", { class: `key ${one.kind}` }, one.label)))
      : null,
  );
}

/**
 * What the model believes along one parameter.
 * @param {Slice} slice
 * @param {boolean} log
 * @param {[number, number]} up the same for all slices, so that they compare
 */
export function sliceChart(slice, log, up) {
  const numeric = slice.values.every((one) => typeof one === "number");
  const place = (/** @type {number} */ i) => {
    if (!numeric) return i;
    const value = Number(slice.values[i]);
    return log ? Math.log(value) : value;
  };
  const count = slice.values.length;
  const box = frame([place(0), place(count - 1)], up, { width: 280, height: 150, left: 12, right: 12, top: 10, bottom: 24 });
  const points = (/** @type {number[]} */ ys) => ys.map((y, i) => /** @type {[number, number]} */ ([place(i), y]));
  const band = `${path(box, points(slice.high))} ${path(box, points(slice.low).reverse()).replace("M", "L")}Z`;
  const here = nearest(slice);
  const name = `${slice.name}: from ${shown(slice.values[0])} to ${shown(slice.values[count - 1])}, best at ${shown(slice.here)}`;
  const body = numeric
    ? [svg("path", { d: band, class: "band" }), svg("path", { d: path(box, points(slice.mean)), class: "line first" })]
    : slice.mean.map((mean, i) =>
        svg("g", {},
          svg("line", { x1: box.x(i), x2: box.x(i), y1: box.y(slice.low[i]), y2: box.y(slice.high[i]), class: "whisker" }),
          svg("circle", { cx: box.x(i), cy: box.y(mean), r: 4, class: "end first" })),
      );
  const ends = numeric ? [0, count - 1] : slice.values.map((_, i) => i);
  const labels = ends.map((i) => {
    const anchor = i === 0 ? "start" : i === count - 1 ? "end" : "middle";
    return svg("text", { x: box.x(place(i)), y: 146, "text-anchor": anchor, class: "axis" }, shown(slice.values[i]));
  });
  return el(
    "figure",
    { class: "chart slice" },
    el("figcaption", {}, el("b", {}, slice.name), ` ${shown(slice.here)}`),
    svg(
      "svg",
      { viewBox: "0 0 280 150", role: "img", "aria-label": name },
      svg("line", { x1: 12, x2: 268, y1: box.y(0), y2: box.y(0), class: "grid" }),
      ...body,
      svg("circle", { cx: box.x(place(here)), cy: box.y(slice.mean[here]), r: 5.5, class: "ring" }),
      ...labels,
    ),
  );
}

/** @param {Slice} slice */
function nearest(slice) {
  const found = slice.values.indexOf(slice.here);
  if (found >= 0) return found;
  const distances = slice.values.map((one) => Math.abs(Number(one) - Number(slice.here)));
  return distances.indexOf(Math.min(...distances));
}
