/** Model: what the answers say and what they link, in plain words; behind a fold what they determine, how well conditioned that is, and what the correction does. */

/** @import { ModelView, Page, View } from "./types.js" */
import { figure } from "./charts.js";
import { button, el, shown } from "./elements.js";
import { at, get } from "./talk.js";
import { panels } from "./tradeoffs.js";

/**
 * @param {Page} page
 * @param {HTMLElement} root
 * @returns {Promise<View>}
 */
export async function open(page, root) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  root.append(el("h1", {}, "The model"));
  const waiting = el("p", { class: "quiet" }, "Fitting the past again, step by step …");
  root.append(waiting);
  /** @type {[ModelView, HTMLElement[]]} */
  const [found, seen] = await Promise.all([get(at(study.id, "model")), panels(study)]);
  waiting.remove();
  if (!found.nodes.length) {
    root.append(...seen, el("p", { class: "empty" }, "No answers yet: there is no model to look at."));
    return {};
  }
  let corrected = found.diagnosis.gate_open === true;
  const picture = el("div", {});
  const toggle = el("div", { class: "switch", role: "group", "aria-label": "Correction" });

  function draw() {
    picture.replaceChildren(figure(found.graphs[corrected ? "corrected" : "plain"]));
    toggle.replaceChildren(
      button("Without correction", () => choose(false), { pressed: !corrected }),
      button("With correction", () => choose(true), { pressed: corrected }),
    );
  }

  /** @param {boolean} wanted */
  function choose(wanted) {
    corrected = wanted;
    draw();
    toggle.querySelectorAll("button")[wanted ? 1 : 0].focus();
  }

  draw();
  root.append(
    el("section", { class: "panel", "aria-label": "What the answers say" },
      el("h2", {}, "What the answers say"),
      el("ul", { class: "sentences" }, ...found.sentences.map((one) => el("li", {}, one)))),
    // Designs are judged by their outcomes: where a study has some, they come before what is inside the model.
    ...seen,
    el("section", { class: "panel", "aria-label": "Comparison graph" },
      el("div", { class: "head" }, el("h2", {}, heading(found)), found.has_correction ? toggle : null), picture,
      el("p", { class: "quiet" }, "Higher: the model thinks you like it more. Each line is an answer and points to the loser; a dashed one is a tie. Designs of one colour are linked by answers; between colours only their likeness tells."),
      asTable(found)),
    el("details", { class: "panel inside-model" },
      el("summary", {}, "Inside the model: rank, condition number, correction"),
      found.has_correction ? null : el("p", {}, toggle),
      information(found), conditions(found), activity(found)),
  );
  return {};
}

/** @param {ModelView} found */
function heading(found) {
  const groups = found.diagnosis.groups.length;
  const answers = found.diagnosis.n_comparisons;
  const counted = `${found.nodes.length} designs, ${answers === 1 ? "1 answer" : `${answers} answers`}`;
  return groups === 1 ? `${counted}, all linked` : `${counted}, ${groups} separate groups`;
}

/** @param {ModelView} found */
function asTable(found) {
  const rows = [...found.nodes].sort((one, other) => other.plain - one.plain).map((one) =>
    el("tr", {}, el("th", { scope: "row" }, one.option), el("td", {}, one.group + 1), el("td", {}, shown(one.plain)), el("td", {}, shown(one.corrected))));
  const heads = ["Design", "Group", "Utility without", "Utility with correction"].map((one) => el("th", { scope: "col" }, one));
  return el("details", {}, el("summary", {}, "The same as a table"),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Utilities" },
      el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows))));
}

/** @param {ModelView} found */
function information(found) {
  const { rank, n_options: options } = found.diagnosis;
  return el("section", { "aria-label": "What the answers determine" },
    el("h2", {}, "What the answers determine"),
    el("p", { class: "figure" }, el("b", {}, `${rank} of ${options}`), " ", el("span", {}, "directions of the utilities are informed: the rank of the comparisons")),
    el("ul", { class: "sentences" }, ...found.technical.map((one) => el("li", {}, one))));
}

/** @param {ModelView} found */
function conditions(found) {
  const now = found.moments[found.moments.length - 1];
  return el("section", { "aria-label": "Condition number over time" },
    el("h2", {}, "Condition number κ over time"),
    found.conditions === null ? null : figure(found.conditions),
    el("p", { class: "quiet" }, now.condition === null ? "No κ is computed of this model: it holds more than answers to pairs." : `Now κ = ${shown(now.condition)} without and ${shown(now.corrected)} with the correction, of strength ${shown(now.strength)}. A large κ means that a small change of the answers can move the utilities a lot.`));
}

/** @param {ModelView} found */
function activity(found) {
  const { gate_reason: reason, gate_open: open } = found.diagnosis;
  const steps = found.noted.filter((one) => one.active);
  const words = !found.has_correction
    ? "This study's method has no correction; the switch above shows in the graph what it would do."
    : `The correction is ${open ? "on" : "off"} now: ${reason}.`;
  const rows = found.noted.map((one) =>
    el("tr", { class: one.active ? "on" : null }, el("th", { scope: "row" }, one.answers), el("td", {}, one.active ? "on" : "off"),
      el("td", {}, shown(one.mean_decisiveness)), el("td", {}, one.active ? shown(one.strength) : "–")));
  return el("section", { "aria-label": "Where the correction was active" },
    el("h2", {}, "Where the correction was active, and why"),
    el("p", {}, words),
    found.has_correction && found.noted.length
      ? el("div", {},
          el("p", { class: "quiet" }, `It acted in ${steps.length} of ${found.noted.length} steps; they are shaded in the chart above.`),
          el("details", {}, el("summary", {}, "Step by step"),
            el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Steps" },
              el("table", {}, el("thead", {}, el("tr", {}, ...["Answers", "Correction", "Mean decisiveness", "Strength"].map((one) => el("th", { scope: "col" }, one)))), el("tbody", {}, ...rows)))))
      : null);
}
