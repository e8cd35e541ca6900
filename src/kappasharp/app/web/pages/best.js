/** Best so far: the design, how sure the model is of it, what it believes around it, and a duel against it. */

/** @import { Best, Chart, Design, Meeting, Page, Parameter, Ranges, Standing, Told, View, Why } from "./types.js" */
import { media, thumbnail } from "./cards.js";
import { figure } from "./charts.js";
import { copy } from "./clipboard.js";
import { button, duration, el, parameterLines, percent, shown } from "./elements.js";
import { outcomeLines } from "./outcomes.js";
import { at, get, post, sentence } from "./talk.js";

/**
 * @param {Page} page
 * @param {HTMLElement} root
 * @returns {Promise<View>}
 */
export async function open(page, root) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  root.append(el("h1", {}, "Best so far"));
  const waiting = el("p", { class: "quiet" }, "Asking the model …");
  root.append(waiting);
  /** @type {{best: Best | null, slices: Chart[], outcomes?: Told & {ranges: Ranges}}} */
  const found = await get(at(study.id, "best"));
  waiting.remove();
  if (found.best === null) {
    root.append(el("p", { class: "empty" }, "No answers yet. Compare a few pairs, then look here again."));
    return {};
  }
  const { best, slices } = found;
  root.append(
    el("div", { class: "columns" }, await design(page, best, found.outcomes), certainty(page, best)),
    why(page),
    around(slices),
    duel(page, best),
  );
  const voters = await agreement(study.id);
  if (voters !== null) root.append(voters);
  return {};
}

/**
 * @param {Page} page
 * @param {Best} best
 * @param {Told & {ranges: Ranges}} [told]
 */
async function design(page, best, told) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const card = study.has_pictures ? await get(at(study.id, `card/${best.option}`)) : { kind: "none", sentence: "", key: "" };
  const picture = await media(page, best.option, card, "The best design so far");
  const json = JSON.stringify(best.params);
  return el(
    "section",
    { class: "panel", "aria-label": "The best design" },
    picture === null ? null : el("div", { class: "stage" }, picture),
    told === undefined || study.outcomes === null ? null : el("div", { class: "outcomes" }, outcomeLines(study.outcomes, told.ranges, told, [])),
    parameterLines(study.parameters, best.params),
    el(
      "p",
      { class: "row" },
      button("Copy as JSON", () => void copy(page, json)),
      button("Copy as Python", () => void copy(page, python(best.params))),
    ),
  );
}

/**
 * A Python literal of a design.
 * @param {Design} design
 */
export function python(design) {
  const literal = (/** @type {unknown} */ value) =>
    value === null ? "None" : value === true ? "True" : value === false ? "False" : JSON.stringify(value);
  return `{${Object.entries(design).map(([name, value]) => `${JSON.stringify(name)}: ${literal(value)}`).join(", ")}}`;
}

/**
 * @param {Page} page
 * @param {Best} best
 */
function certainty(page, best) {
  const link = best.advice.link;
  return el(
    "section",
    { class: "panel certainty", "aria-label": "How sure is the model?" },
    el("h2", {}, "How sure is the model?"),
    el(
      "div",
      { class: "figures" },
      number(percent(best.beats_random), "of all designs you would like less than this one"),
      number(percent(best.room_left), "of the way up to the best there is may still be left"),
    ),
    el("p", { class: `advice ${best.advice.what}` }, best.advice.sentence),
    link === null ? null : button("Compare these two next", () => challenge(page, `option ${link[1]}`, null, link[1])),
    el(
      "p",
      {},
      button("Settle it", () => void settle(page)),
      " ",
      el("span", { class: "quiet" }, "Five duels between designs that you have seen; nothing new is made."),
    ),
    best.status === "ok" ? null : el("p", { class: "problem" }, `A solve lacks its certificate: ${best.status}.`),
    el("p", { class: "quiet" }, `Both figures are what the model expects after ${best.n_comparisons} answers, not a promise.`),
  );
}

/**
 * @param {string} value
 * @param {string} words
 */
function number(value, words) {
  return el("p", { class: "figure" }, el("b", {}, value), " ", el("span", {}, words));
}

/**
 * Why this one: what the answers say of it, and how the certainty went. It takes a fit for each point of the past, so it comes when it is there.
 * @param {Page} page
 */
function why(page) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const place = el("div", {}, el("p", { class: "quiet" }, "Looking back …"));
  void (async () => {
    try {
      /** @type {Why} */
      const found = await get(at(study.id, "why"));
      place.replaceChildren(
        el("ul", { class: "sentences" }, ...found.sentences.map((one) => el("li", {}, one))),
        rivals(page, "Won against", found.meetings, "beat"), rivals(page, "Lost to", found.meetings, "lost_to"), rivals(page, "No difference from", found.meetings, "equalled"),
        ...(found.course === null ? [] : [el("h3", {}, "How sure, answer by answer"), figure(found.course), el("p", { class: "quiet" }, "What the model expected then: how many designs the best one of that time beats, and how much of the way up was left.")]),
      );
    } catch (error) {
      place.replaceChildren(el("p", { class: "problem" }, sentence(error)));
    }
  })();
  return el("section", { class: "panel why", "aria-label": "Why is this the best?" }, el("h2", {}, "Why is this the best?"), place);
}

/** So many rivals are shown at once. */
const RIVALS = 10;

/**
 * The designs that it met in that way, each with the answers that say so.
 * @param {Page} page
 * @param {string} title
 * @param {Meeting[]} meetings
 * @param {"beat" | "lost_to" | "equalled"} how
 */
function rivals(page, title, meetings, how) {
  /** @type {Map<number, number[]>} */
  const met = new Map();
  for (const one of meetings) for (const other of one[how]) met.set(other, [...(met.get(other) ?? []), one.number]);
  if (!met.size) return el("span", { hidden: true });
  const tiles = [...met].map(([option, answers]) =>
    el("li", {}, thumbnail(page, option), el("span", { class: "quiet" }, answers.length === 1 ? `answer ${answers[0]}` : `answers ${answers.join(", ")}`)));
  const list = (/** @type {HTMLElement[]} */ some) => el("ul", { class: "rivals" }, ...some);
  const more = tiles.slice(RIVALS);
  return el("div", { class: how }, el("h3", {}, title), list(tiles.slice(0, RIVALS)),
    more.length ? el("details", {}, el("summary", {}, `${more.length} more`), list(more)) : null);
}

/** @param {Chart[]} slices */
function around(slices) {
  return el(
    "section",
    { class: "panel", "aria-label": "One parameter at a time" },
    el("h2", {}, "One parameter at a time"),
    el("p", { class: "quiet" }, "How much better or worse the model thinks the design would be if one parameter moved and the rest stayed. The band is one standard deviation, the ring is the best design. Point at a curve, touch it, or move along it with the arrow keys to read its values."),
    el("div", { class: "slices" }, ...slices.map(figure)),
  );
}

/**
 * @param {Page} page
 * @param {Best} best
 */
function duel(page, best) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const tuned = study.parameters.filter((one) => one.type !== "fixed");
  const inputs = tuned.map((one) => ({ one, input: field(one, best.params[one.name]) }));
  const form = el(
    "form",
    {
      class: "duel",
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        /** @type {Design} */
        const params = {};
        for (const { one, input } of inputs) params[one.name] = read(one, input.value);
        void challenge(page, "your settings", params, null);
      },
    },
    ...inputs.map(({ one, input }) => el("label", {}, el("span", {}, one.name), input)),
    el("button", { class: "choice a" }, "Challenge the best design"),
  );
  return el(
    "section",
    { class: "panel", "aria-label": "Your own settings" },
    el("h2", {}, "Does it beat your own settings?"),
    el("p", { class: "quiet" }, "Type what you use today. The duel is asked next, sides by lot, and its answer counts like any other."),
    form,
  );
}

/**
 * @param {Parameter} parameter
 * @param {Design[string]} value
 */
function field(parameter, value) {
  if (parameter.choices) {
    const options = parameter.choices.map((one, i) => el("option", { value: i, selected: one === value }, shown(one)));
    return el("select", {}, ...options);
  }
  const step = parameter.step ?? "any";
  return el("input", {
    type: "number", min: parameter.low, max: parameter.high, step, required: true,
    value: typeof value === "number" ? Number(value.toPrecision(6)) : "",
  });
}

/**
 * @param {Parameter} parameter
 * @param {string} text
 */
function read(parameter, text) {
  return parameter.choices ? parameter.choices[Number(text)] : Number(text);
}

/**
 * @param {Page} page
 * @param {string} whom
 * @param {Design | null} params
 * @param {number | null} option
 */
async function challenge(page, whom, params, option) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  try {
    await post(at(study.id, "challenge"), { params, option, voter: page.voter });
    page.go("compare");
    setTimeout(() => page.say(`The duel with ${whom} comes after the pair that is open now, for whoever is asked next.`, "good"), 300);
  } catch (error) {
    page.say(sentence(error), "bad");
  }
}

/** @param {Page} page */
async function settle(page) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  try {
    await post(at(study.id, "settle"), { voter: page.voter });
    page.go("compare");
    setTimeout(() => page.say("Five duels come after the pair that is open now.", "good"), 300);
  } catch (error) {
    page.say(sentence(error), "bad");
  }
}

/** @param {string} study */
async function agreement(study) {
  /** @type {Standing} */
  const { voters, couples } = await get(at(study, "standing"));
  if (voters.length < 2) return null;
  const rows = voters.map((one) =>
    el("tr", {}, el("th", { scope: "row" }, one.name), el("td", {}, one.answers), el("td", {}, duration(one.seconds)),
      el("td", {}, one.decided ? `${one.shared} of ${one.decided}` : "–")),
  );
  const pairs = couples.map((one) =>
    el("li", {}, `${one.first} and ${one.second} said the same about ${one.agreed} of ${one.met} pairs that both answered.`),
  );
  return el(
    "section",
    { class: "panel", "aria-label": "Agreement" },
    el("h2", {}, "Do the voters agree?"),
    el("div", { class: "scroll" }, el(
      "table",
      {},
      el("thead", {}, el("tr", {}, ...["Voter", "Answers", "Median time", "Answers the shared model agrees with"].map((one) => el("th", { scope: "col" }, one)))),
      el("tbody", {}, ...rows),
    )),
    pairs.length ? el("ul", {}, ...pairs) : el("p", { class: "quiet" }, "No pair was answered by two voters yet. “Ask again” in the history puts one before the next voter."),
  );
}
