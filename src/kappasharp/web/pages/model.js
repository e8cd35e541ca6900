/** Model: what the answers say and what they link, in plain words; behind a fold what they determine, how well conditioned that is, and what the correction does. */

/** @import { ModelView, Page, View } from "./types.js" */
import { figure } from "./charts.js";
import { button, el, renew, shown } from "./elements.js";
import { at, following, get } from "./talk.js";
import { pieces, spoken, text } from "./texts.js";
import { panels } from "./tradeoffs.js";
import { saidList } from "./wording.js";

/**
 * @param {Page} page
 * @param {HTMLElement} root
 * @returns {Promise<View>}
 */
export async function open(page, root) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  root.append(el("h1", {}, text("model.title")), el("p", { class: "quiet" }, text("model.fitting")));
  /** Which graph somebody chose to see. @type {{corrected: boolean | null}} */
  const chosen = { corrected: null };
  /** @type {Element[]} */
  let parts = [];
  let since = -1;
  const draw = async () => {
    /** @type {[ModelView, HTMLElement[]]} */
    const [found, seen] = await Promise.all([get(at(study.id, "model")), panels(study)]);
    const fresh = sections(found, seen, chosen);
    since = found.since;
    const same = parts.length === fresh.length;
    if (!same) root.replaceChildren(root.children[0], ...fresh);
    parts = same ? fresh.map((one, index) => renew(parts[index], one)) : fresh;
  };
  await draw();
  return following(draw, () => since);
}

/**
 * @param {ModelView} found
 * @param {HTMLElement[]} seen
 * @param {{corrected: boolean | null}} chosen
 * @returns {Element[]}
 */
function sections(found, seen, chosen) {
  if (!found.nodes.length) return [...seen, el("p", { class: "empty" }, text("model.empty"))];
  const picture = el("div", {});
  const toggle = el("div", { class: "switch", role: "group", "aria-label": text("model.correction") });

  function draw() {
    const corrected = chosen.corrected ?? found.diagnosis.gate_open === true;
    picture.replaceChildren(figure(found.graphs[corrected ? "corrected" : "plain"]));
    toggle.replaceChildren(
      button(text("model.without"), () => choose(false), { pressed: !corrected }),
      button(text("model.with"), () => choose(true), { pressed: corrected }),
    );
  }

  /** @param {boolean} wanted */
  function choose(wanted) {
    chosen.corrected = wanted;
    draw();
    toggle.querySelectorAll("button")[wanted ? 1 : 0].focus();
  }

  draw();
  // What is to be noted stands among what the answers say already.
  return [
    el("section", { class: "panel", "aria-label": text("model.say") },
      el("h2", {}, text("model.say")),
      saidList(found.sentences)),
    // Designs are judged by their outcomes: where a study has some, they come before what is inside the model.
    ...seen.filter((one) => !one.matches(".note")),
    el("section", { class: "panel", "aria-label": text("model.graph") },
      el("div", { class: "head" }, el("h2", {}, heading(found)), found.has_correction ? toggle : null), picture,
      el("p", { class: "quiet" }, text("model.graphMeans")),
      asTable(found)),
    el("details", { class: "panel inside-model" },
      el("summary", {}, text("model.inside")),
      found.has_correction ? null : el("p", {}, toggle),
      information(found), conditions(found), activity(found)),
  ];
}

/** @param {ModelView} found */
function heading(found) {
  const groups = found.diagnosis.groups.length;
  const answers = found.diagnosis.n_comparisons;
  const counted = { designs: text("model.designs", { count: found.nodes.length }), answers: text("history.count", { count: answers }) };
  return groups === 1 ? text("model.linked", counted) : text("model.groups", { ...counted, count: groups });
}

/** @param {ModelView} found */
function asTable(found) {
  const rows = [...found.nodes].sort((one, other) => other.plain - one.plain).map((one) =>
    el("tr", {}, el("th", { scope: "row" }, one.option), el("td", {}, one.group + 1), el("td", {}, shown(one.plain)), el("td", {}, shown(one.corrected))));
  const heads = [text("model.design"), text("model.group"), text("model.utilityWithout"), text("model.utilityWith")].map((one) => el("th", { scope: "col" }, one));
  return el("details", {}, el("summary", {}, text("model.table")),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": text("model.utilities") },
      el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows))));
}

/** @param {ModelView} found */
function information(found) {
  const { rank, n_options: options } = found.diagnosis;
  return el("section", { "aria-label": text("model.determine") },
    el("h2", {}, text("model.determine")),
    el("p", { class: "figure" }, el("b", {}, text("model.rankOf", { rank, all: options })), " ", el("span", {}, text("model.directions"))),
    saidList(found.technical));
}

/** @param {ModelView} found */
function conditions(found) {
  const now = found.moments[found.moments.length - 1];
  return el("section", { "aria-label": text("model.conditionTime") },
    el("h2", {}, text("model.conditionTitle")),
    found.conditions === null ? null : figure(found.conditions),
    el("p", { class: "quiet" }, now.condition === null ? text("model.noCondition") : text("model.conditionNow", { plain: shown(now.condition), corrected: shown(now.corrected), strength: shown(now.strength) })));
}

/** @param {ModelView} found */
function activity(found) {
  const { gate_reason: reason, gate_open: open } = found.diagnosis;
  const why = spoken(reason);
  const steps = found.noted.filter((one) => one.active);
  const words = !found.has_correction
    ? [text("model.noCorrection")]
    : pieces(open ? "model.isOn" : "model.isOff", { reason: el("span", { lang: why.lang }, why.words) });
  const rows = found.noted.map((one) =>
    el("tr", { class: one.active ? "on" : null }, el("th", { scope: "row" }, one.answers), el("td", {}, text(one.active ? "model.on" : "model.off")),
      el("td", {}, shown(one.mean_decisiveness)), el("td", {}, one.active ? shown(one.strength) : "–")));
  return el("section", { "aria-label": text("model.active") },
    el("h2", {}, text("model.activeWhy")),
    el("p", {}, ...words),
    found.has_correction && found.noted.length
      ? el("div", {},
          el("p", { class: "quiet" }, text("model.acted", { some: steps.length, count: found.noted.length })),
          el("details", {}, el("summary", {}, text("model.stepByStep")),
            el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": text("model.steps") },
              el("table", {}, el("thead", {}, el("tr", {}, ...[text("model.answers"), text("model.correction"), text("model.decisiveness"), text("model.strength")].map((one) => el("th", { scope: "col" }, one)))), el("tbody", {}, ...rows)))))
      : null);
}
