/** Outcomes in the model view: the taste along each, what was traded for what, and the front of the designs seen. */

/** @import { Study, TradeOffs } from "./types.js" */
import { figure } from "./charts.js";
import { el } from "./elements.js";
import { at, get } from "./talk.js";

/** Up to so many charts, every two of four outcomes, are shown at once. */
const ALL_AT_ONCE = 6;

/**
 * The panels of a study with outcomes.
 * @param {Study} study
 * @returns {Promise<HTMLElement[]>}
 */
export async function panels(study) {
  if (study.outcomes === null) return [];
  /** @type {TradeOffs} */
  const found = await get(at(study.id, "outcomes"));
  const notes = found.notes.map((one) => el("p", { class: "note" }, one));
  return [...notes, taste(found), front(found)];
}

/** @param {TradeOffs} found */
function taste(found) {
  return el("section", { class: "panel", "aria-label": "Taste along each outcome" },
    el("h2", {}, "Taste along each outcome"),
    found.taste.length
      ? el("p", { class: "quiet" }, "How much better or worse the model thinks the best design would be if one outcome changed and everything else stayed. The band is one standard deviation, the ring is the best design.")
      : el("p", { class: "quiet" }, "There is none to show yet: the model learns on the parameters alone, or has no answers."),
    el("div", { class: "slices" }, ...found.taste.map(figure)));
}

/** @param {TradeOffs} found */
function front(found) {
  const { rows, fronts, trades } = found;
  const section = el("section", { class: "panel", "aria-label": "The front" }, el("h2", {}, "What was traded for what"));
  if (!rows.length) {
    section.append(el("p", { class: "quiet" }, "No design has outcomes yet."));
    return section;
  }
  if (trades.length) section.append(el("ul", { class: "sentences" }, ...trades.map((one) => el("li", {}, one))));
  section.append(el("p", { class: "quiet" }, explained(found)), fronts.length > ALL_AT_ONCE ? chosen(found) : el("div", { class: "fronts" }, ...fronts.map(figure)), asTable(found));
  return section;
}

/** @param {TradeOffs} found */
function explained(found) {
  const open = found.names.filter((name) => !found.better[name]);
  const undrawn = found.names.length - found.drawn.length;
  return [
    "Each dot is a design whose outcomes are known. On the front, coloured and numbered: no other design is as good in every outcome and better in one. The large dot is the best design by your answers. What lies far out is drawn at the edge.",
    open.length ? `Which way ${open.join(", ")} ${open.length > 1 ? "are" : "is"} better is not known yet, so ${open.length > 1 ? "they do" : "it does"} not count for the front.` : "",
    undrawn ? `${undrawn} outcomes are not drawn; the table has them.` : "",
  ].filter(Boolean).join(" ");
}

/**
 * One chart, by the two outcomes that are chosen.
 * @param {TradeOffs} found
 */
function chosen(found) {
  const pairs = found.drawn.flatMap((one, i) => found.drawn.slice(i + 1).map((other) => [one, other]));
  const place = el("div", { class: "fronts one" });
  const select = el("select", { id: "axes", onchange: () => show(Number(select.value)) }, ...pairs.map(([one, other], index) => el("option", { value: index }, `${one} and ${other}`)));
  const show = (/** @type {number} */ index) => place.replaceChildren(figure(found.fronts[index]));
  show(0);
  return el("div", {}, el("p", { class: "row" }, el("label", { for: "axes" }, "Across and up"), select), place);
}

/** @param {TradeOffs} found */
function asTable(found) {
  const heads = ["Design", ...found.names, "Front", "From"].map((one) => el("th", { scope: "col" }, one));
  const rows = found.rows.map((row) =>
    el("tr", { class: row.best ? "on" : null },
      el("th", { scope: "row" }, row.option === null ? "–" : row.option, row.best ? " (the best)" : null),
      ...found.names.map((name) => el("td", {}, row.outcomes[name] ?? "–")),
      el("td", {}, row.front ? "on it" : ""), el("td", {}, row.source)));
  return el("details", {}, el("summary", {}, "The same as a table"),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Outcomes of all designs" },
      el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows))));
}
