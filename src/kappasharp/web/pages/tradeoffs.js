/** Outcomes in the model view: the taste along each, what was traded for what, and the front of the designs seen. */

/** @import { Study, TradeOffs } from "./types.js" */
import { figure } from "./charts.js";
import { el } from "./elements.js";
import { at, get } from "./talk.js";
import { listed, numeral, sentences, text } from "./texts.js";
import { saidLine, saidList } from "./wording.js";

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
  const notes = found.notes.map((one) => saidLine(one, "note"));
  return [...notes, taste(found), front(found)];
}

/** @param {TradeOffs} found */
function taste(found) {
  return el("section", { class: "panel", "aria-label": text("outcomes.taste") },
    el("h2", {}, text("outcomes.taste")),
    el("p", { class: "quiet" }, text(found.taste.length ? "outcomes.tasteMeans" : "outcomes.noTaste")),
    el("div", { class: "slices" }, ...found.taste.map(figure)));
}

/** @param {TradeOffs} found */
function front(found) {
  const { rows, fronts, trades } = found;
  const section = el("section", { class: "panel", "aria-label": text("outcomes.front") }, el("h2", {}, text("outcomes.trades")));
  if (!rows.length) {
    section.append(el("p", { class: "quiet" }, text("outcomes.noDesign")));
    return section;
  }
  if (trades.length) section.append(saidList(trades));
  section.append(el("p", { class: "quiet" }, explained(found)), fronts.length > ALL_AT_ONCE ? chosen(found) : el("div", { class: "fronts" }, ...fronts.map(figure)), asTable(found));
  return section;
}

/** @param {TradeOffs} found */
function explained(found) {
  const open = found.names.filter((name) => !found.better[name]);
  const undrawn = found.names.length - found.drawn.length;
  return sentences(
    text("outcomes.dots"),
    open.length ? text("outcomes.openWays", { names: listed(open), count: open.length }) : "",
    undrawn ? text("outcomes.undrawn", { count: undrawn }) : "",
  );
}

/**
 * One chart, by the two outcomes that are chosen.
 * @param {TradeOffs} found
 */
function chosen(found) {
  const pairs = found.drawn.flatMap((one, i) => found.drawn.slice(i + 1).map((other) => [one, other]));
  const place = el("div", { class: "fronts one" });
  const select = el("select", { id: "axes", onchange: () => show(Number(select.value)) }, ...pairs.map(([one, other], index) => el("option", { value: index }, text("outcomes.two", { first: one, second: other }))));
  const show = (/** @type {number} */ index) => place.replaceChildren(figure(found.fronts[index]));
  show(0);
  return el("div", {}, el("p", { class: "row" }, el("label", { for: "axes" }, text("outcomes.axes")), select), place);
}

/** @param {TradeOffs} found */
function asTable(found) {
  const heads = [text("model.design"), ...found.names, text("outcomes.frontHead"), text("outcomes.from")].map((one) => el("th", { scope: "col" }, one));
  const rows = found.rows.map((row) =>
    el("tr", { class: row.best ? "on" : null },
      el("th", { scope: "row" }, row.best ? text("outcomes.best", { number: String(row.option ?? "–") }) : (row.option ?? "–")),
      ...found.names.map((name) => el("td", {}, numeral(row.outcomes[name] ?? "–"))),
      el("td", {}, row.front ? text("outcomes.onFront") : ""), saidLine(row.source, null, "td")));
  return el("details", {}, el("summary", {}, text("model.table")),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": text("outcomes.allDesigns") },
      el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows))));
}
