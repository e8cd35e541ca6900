/** Best so far: the design, how sure the model is of it, what it believes around it, and a duel against it. */

/** @import { Best, Chart, Design, Meeting, Page, Parameter, Ranges, Said, Told, View, Why } from "./types.js" */
import { media, thumbnail } from "./cards.js";
import { figure } from "./charts.js";
import { copy } from "./clipboard.js";
import { button, el, parameterLines, percent, problem, renew, room, shown } from "./elements.js";
import { outcomeLines } from "./outcomes.js";
import { at, following, get, post } from "./talk.js";
import { listed, numeral, plainNumeral, spoken, text } from "./texts.js";
import { saidLine, saidList } from "./wording.js";

/**
 * @param {Page} page
 * @param {HTMLElement} root
 * @returns {Promise<View>}
 */
export async function open(page, root) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  root.append(el("h1", {}, text("best.title")));
  const waiting = el("p", { class: "quiet" }, text("best.asking"));
  root.append(waiting);
  /** @type {Element[]} */
  let parts = [];
  let since = -1;
  const draw = async () => {
    /** @type {Found} */
    const found = await get(at(study.id, "best"));
    const fresh = await sections(page, found, parts);
    since = found.since;
    // What is drawn again is drawn in place.
    const kept = parts.length === fresh.length ? fresh.map((one, index) => (one === parts[index] ? one : renew(parts[index], one))) : fresh;
    if (kept === fresh) root.replaceChildren(root.children[0], ...fresh);
    parts = kept;
  };
  await draw();
  return following(draw, () => since);
}

/** @typedef {{since: number, best: Best | null, notes: Said[], slices: Chart[], order: string[], outcomes?: Told & {ranges: Ranges}}} Found */

/**
 * @param {Page} page
 * @param {Found} found
 * @param {Element[]} before what is there already, if anything is
 * @returns {Promise<Element[]>}
 */
async function sections(page, { best, notes, slices: drawn, order, outcomes }, before) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  if (best === null) return [el("p", { class: "empty" }, text(page.may("voter") ? "best.empty" : "best.emptyViewer"))];
  const is = (/** @type {string} */ name) => before.find((one) => one.classList.contains(name));
  const tuned = study.parameters.filter((one) => one.type !== "fixed");
  const { first, rest } = foremost(tuned, order);
  const slices = (/** @type {Parameter[]} */ some) => some.map((one) => drawn[tuned.indexOf(one)]);
  // A rival that somebody is describing stays, against whatever is best by then.
  const rival = is("rival")?.querySelector("form[data-touched]") ? is("rival") : null;
  const reasons = why(page);
  if (is("why")) await reasons.come;
  return [
    el("div", { class: "columns" }, await design(page, best, notes, first, rest, outcomes), certainty(page, best)),
    reasons.element,
    around(slices(first), slices(rest)),
    ...(page.may("voter") ? [rival ?? duel(page, best, first, rest)] : []),
  ];
}

/**
 * Of many parameters those that matter most to the model, and the rest for a fold; of few all, as they were named.
 * @param {Parameter[]} tuned
 * @param {string[]} order
 */
function foremost(tuned, order) {
  const most = room(tuned, true);
  // A fold that hides one or two is not worth a click.
  if (tuned.length <= most + 2) return { first: tuned, rest: [] };
  const sorted = [...tuned].sort((one, other) => order.indexOf(one.name) - order.indexOf(other.name));
  return { first: sorted.slice(0, most), rest: sorted.slice(most) };
}

/**
 * What matters less, behind a fold; nothing where there is nothing.
 * @param {number} count
 * @param {() => HTMLElement} content
 */
function folded(count, content) {
  return count ? el("details", { class: "fold" }, el("summary", {}, text("best.moreParameters", { count })), content()) : null;
}

/**
 * @param {Page} page
 * @param {Best} best
 * @param {Said[]} notes what of it is not open or breaks a limit, or which one that does seems better
 * @param {Parameter[]} first
 * @param {Parameter[]} rest
 * @param {Told & {ranges: Ranges}} [told]
 */
async function design(page, best, notes, first, rest, told) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const card = study.has_pictures ? await get(at(study.id, `card/${best.option}`)) : { kind: "none", sentence: "", key: "" };
  const picture = await media(page, best.option, card, text("best.picture"));
  const json = JSON.stringify(best.params);
  return el(
    "section",
    { class: "panel", "aria-label": text("best.design") },
    picture === null ? null : el("div", { class: "stage" }, picture),
    told === undefined || study.outcomes === null ? null : el("div", { class: "outcomes" }, outcomeLines(study.outcomes, told.ranges, told, [])),
    parameterLines(first, best.params),
    folded(rest.length, () => parameterLines(rest, best.params)),
    ...notes.map((one) => saidLine(one, "note")),
    el(
      "p",
      { class: "row" },
      button(text("best.copyJson"), () => void copy(page, json)),
      button(text("best.copyPython"), () => void copy(page, python(best.params))),
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
  const advice = spoken(best.advice.sentence);
  return el(
    "section",
    { class: "panel certainty", "aria-label": text("best.sure") },
    el("h2", {}, text("best.sure")),
    el(
      "div",
      { class: "figures" },
      number(percent(best.beats_random), text(page.may("voter") ? "best.beats" : "best.beatsViewer")),
      number(percent(best.room_left), text("best.room")),
    ),
    page.may("voter") ? el("p", { class: `advice ${best.advice.what}`, lang: advice.lang }, advice.words) : el("p", { class: "advice" }, text("best.viewer")),
    best.weighed === null ? null : el("p", {}, spoken(best.weighed).words),
    link === null || !page.may("voter") ? null : button(text("best.compareTwo"), () => challenge(page, text("best.duelOption", { number: String(link[1]) }), null, link[1])),
    !page.may("owner") ? null : el(
      "p",
      {},
      button(text("best.settle"), () => void settle(page, { voter: page.voter }, text("best.duels"))),
      " ",
      el("span", { class: "quiet" }, text("best.settleMeans")),
    ),
    !page.may("owner") || !page.study?.kinds.includes("choice") ? null : el(
      "p",
      {},
      button(text("best.galleries"), () => void settle(page, { voter: page.voter, ...GALLERIES }, text("best.galleriesCome"))),
      " ",
      el("span", { class: "quiet" }, text("best.galleriesMean")),
    ),
    !page.may("owner") ? null : el("p", {}, el("a", { href: "#study" }, text(best.edges.length ? "best.atEdge" : "best.change"))),
    (page.study?.voters ?? 0) > 1 ? el("p", {}, el("a", { href: "#team" }, text("best.team"))) : null,
    best.status === "ok" ? null : el("p", { class: "problem" }, text("best.uncertified", { status: best.status })),
    el("p", { class: "quiet" }, text("best.noPromise", { count: best.n_comparisons })),
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
  const place = el("div", {}, el("p", { class: "quiet" }, text("best.lookingBack")));
  const come = (async () => {
    try {
      /** @type {Why} */
      const found = await get(at(study.id, "why"));
      place.replaceChildren(
        saidList(found.sentences),
        rivals(page, text("best.wonAgainst"), found.meetings, "beat"), rivals(page, text("best.lostTo"), found.meetings, "lost_to"), rivals(page, text("best.equalled"), found.meetings, "equalled"),
        ...(found.course === null ? [] : [el("h3", {}, text("best.course")), figure(found.course), el("p", { class: "quiet" }, text("best.courseMeans"))]),
      );
    } catch (error) {
      place.replaceChildren(problem(error));
    }
  })();
  return { element: el("section", { class: "panel why", "aria-label": text("best.why") }, el("h2", {}, text("best.why")), place), come };
}

/** So many rivals are shown at once. */
const RIVALS = 10;

/** As many of these as there would be duels find the best of the designs seen more surely. */
const GALLERIES = { question: "choice:9" };

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
    el("li", {}, thumbnail(page, option), el("span", { class: "quiet" }, text("best.inAnswers", { numbers: listed(answers.map(String)), count: answers.length }))));
  const list = (/** @type {HTMLElement[]} */ some) => el("ul", { class: "rivals" }, ...some);
  const more = tiles.slice(RIVALS);
  return el("div", { class: how }, el("h3", {}, title), list(tiles.slice(0, RIVALS)),
    more.length ? el("details", {}, el("summary", {}, text("best.more", { count: more.length })), list(more)) : null);
}

/**
 * @param {Chart[]} slices
 * @param {Chart[]} more
 */
function around(slices, more) {
  const drawn = (/** @type {Chart[]} */ some) => el("div", { class: "slices" }, ...some.map(figure));
  return el(
    "section",
    { class: "panel", "aria-label": text("best.slices") },
    el("h2", {}, text("best.slices")),
    el("p", { class: "quiet" }, text("best.slicesMean")),
    drawn(slices),
    folded(more.length, () => drawn(more)),
  );
}

/**
 * @param {Page} page
 * @param {Best} best
 * @param {Parameter[]} first
 * @param {Parameter[]} rest
 */
function duel(page, best, first, rest) {
  const inputs = [...first, ...rest].map((one) => ({ one, input: field(one, best.params[one.name]) }));
  const labels = inputs.map(({ one, input }) => el("label", {}, el("span", {}, one.name), input));
  const form = el(
    "form",
    {
      class: "duel",
      oninput: () => {
        form.dataset.touched = "yes";
        for (const { input } of inputs) input.setCustomValidity("");
      },
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        /** @type {Design} */
        const params = {};
        for (const { one, input } of inputs) {
          const value = read(one, input.value);
          input.setCustomValidity(value === null ? text("field.needsNumber") : "");
          if (value === null) return void input.reportValidity();
          params[one.name] = value;
        }
        void challenge(page, text("best.duelOwn"), params, null);
      },
    },
    ...labels.slice(0, first.length),
    folded(rest.length, () => el("div", { class: "duel" }, ...labels.slice(first.length))),
    el("button", { class: "choice a" }, text("best.challenge")),
  );
  return el(
    "section",
    { class: "panel rival", "aria-label": text("best.own") },
    el("h2", {}, text("best.ownBeaten")),
    el("p", { class: "quiet" }, text("best.ownMeans")),
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
  // Not of the type number: that reads a decimal comma by the language of the browser, and drops it in others.
  return el("input", {
    type: "text", inputmode: "decimal", autocomplete: "off", required: true,
    value: typeof value === "number" ? numeral(String(Number(value.toPrecision(6)))) : "",
  });
}

/**
 * What somebody chose or typed; null where it is no number.
 * @param {Parameter} parameter
 * @param {string} typed
 */
function read(parameter, typed) {
  if (parameter.choices) return parameter.choices[Number(typed)];
  const number = typed.trim() ? Number(plainNumeral(typed.trim())) : NaN;
  return Number.isFinite(number) ? number : null;
}

/**
 * @param {Page} page
 * @param {string} done
 * @param {Design | null} params
 * @param {number | null} option
 */
async function challenge(page, done, params, option) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  try {
    await post(at(study.id, "challenge"), { params, option, voter: page.voter });
    page.go("compare");
    setTimeout(() => page.say(done, "good"), 300);
  } catch (error) {
    page.fail(error);
  }
}

/**
 * Have the next questions be about designs already seen.
 * @param {Page} page
 * @param {Record<string, unknown>} wish
 * @param {string} done what is said of it
 */
async function settle(page, wish, done) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  try {
    await post(at(study.id, "settle"), wish);
    page.go("compare");
    setTimeout(() => page.say(done, "good"), 300);
  } catch (error) {
    page.fail(error);
  }
}
