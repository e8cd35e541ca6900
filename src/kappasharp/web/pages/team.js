/** Team: what several voters have in common, what suits all and each of them, who agrees with whom, and how much each counts. */

/** @import { Agreement, Best, Design, Liked, Page, Parameter, Study, Team, Value, View, VoterCount, VoterTaste } from "./types.js" */
import { media, thumbnail } from "./cards.js";
import { figure } from "./charts.js";
import { button, duration, el, foremost, parameterLines, percent, rail, renew, room, share, shown, svg, valueWords } from "./elements.js";
import { at, get, post, redrawing } from "./talk.js";
import { numeral, spoken, text } from "./texts.js";
import { saidList } from "./wording.js";

/** So many groups have a colour of their own; then colours come again. */
const COLOURS = 8;
/** So many values of a voter's best are shown; the table of all numbers has so many rows at most. */
const VALUES = 3;
const MOST_ROWS = 30;
/** Parameters with less of the difference than this are not where they split. */
const LEAST_SHARE = 0.03;

/**
 * @param {Page} page
 * @param {HTMLElement} root
 * @returns {Promise<View>}
 */
export async function open(page, root) {
  const view = new TeamView(page, root);
  await view.refresh();
  const again = redrawing(async () => view.draw(await get(at(view.study.id, "team"))));
  /** What was heard last; what is drawn is as new as the first. @type {number | null} */
  let heard = null;
  return {
    news: (now) => {
      if (heard !== null && now.since > heard) again.ask();
      heard = now.since;
    },
    leave: () => {
      view.gone = true;
      again.end();
    },
  };
}

class TeamView {
  /**
   * @param {Page} page
   * @param {HTMLElement} root
   */
  constructor(page, root) {
    this.page = page;
    this.study = /** @type {Study} */ (page.study);
    this.gone = false;
    this.age = el("p", { class: "quiet", role: "status" });
    this.body = el("div", {});
    root.append(el("h1", {}, text("team.title")), this.age, this.body);
  }

  /** What was computed last is shown at once, with its age; then what is true now. */
  async refresh() {
    this.age.textContent = text("team.asking");
    let done = false;
    const now = get(at(this.study.id, "team")).finally(() => (done = true));
    now.catch(() => {});
    /** @type {{before: Team | null}} */
    const { before } = await get(at(this.study.id, "team/before"));
    if (before !== null && !done) {
      await this.draw(before);
      if (!done) this.age.textContent = text("team.older", { count: before.answers });
    }
    /** @type {Team} */
    const found = await now;
    await this.draw(found);
    this.age.textContent = "";
  }

  /** @param {Team} team */
  async draw(team) {
    const { found } = team;
    if (found === null) {
      const why = team.refused === null ? el("p", { class: "empty" }, text("team.empty")) : el("p", { class: "note" }, spoken(team.refused).words);
      return this.place([why, counts(team), couples(team)]);
    }
    const parts = [
      words(found),
      await this.designs(found),
      this.map(found),
      this.splits(found),
      this.voters(found, team),
      this.page.may("owner") ? this.weights(found) : null,
      numbers(found),
      couples(team),
    ];
    if (!this.gone) this.place(parts);
  }

  /**
   * Put parts in the place of those that are there; weights that somebody is setting stay.
   * @param {(Element | null)[]} parts
   */
  place(parts) {
    const [fresh, old] = [parts.filter((one) => one !== null), [...this.body.children]];
    const alike = fresh.length === old.length && fresh.every((one, index) => one.className === old[index].className);
    if (!alike) return this.body.replaceChildren(...fresh);
    fresh.forEach((one, index) => old[index].matches(".weights[open]") || renew(old[index], one));
  }

  /**
   * The best for all, and the fairest beside it.
   * @param {Agreement} found
   */
  async designs(found) {
    const same = found.best.option === found.fairest.option;
    const cards = await Promise.all([
      this.design("best", found.best, same ? [] : [found.fairest.params], text(same ? "team.same" : "team.bestMeans")),
      ...(same ? [] : [this.design("fairest", found.fairest, [found.best.params], text("team.fairestMeans"))]),
    ]);
    return el("div", { class: same ? "" : "columns even" }, ...cards);
  }

  /**
   * @param {"best" | "fairest"} which
   * @param {Best} best
   * @param {Design[]} others
   * @param {string} means
   */
  async design(which, best, others, means) {
    const title = text(`team.${which}`);
    const card = this.study.has_pictures ? await get(at(this.study.id, `card/${best.option}`)) : { kind: "none", sentence: "", key: "" };
    const picture = await media(this.page, best.option, card, title);
    return el("section", { class: `panel suits ${which}`, "aria-label": title },
      el("h2", {}, title, " ", el("span", { class: "option-number" }, `#${best.option}`)),
      el("p", { class: "quiet" }, means),
      picture === null ? null : el("div", { class: "stage" }, picture),
      others.length || this.study.parameters.length <= room(this.study.parameters, true) ? parameterLines(this.study.parameters, best.params, others, { room: room(this.study.parameters, true), open: false }) : brief(this.study.parameters, best.params),
      el("p", { class: "figure" }, el("b", {}, percent(best.beats_random)), " ", el("span", {}, text("team.beats"))),
      best.status === "ok" ? null : el("p", { class: "problem" }, text("best.uncertified", { status: best.status })));
  }

  /** @param {Agreement} found */
  map(found) {
    const apart = found.voters.filter((one) => one.group === null);
    const groups = found.groups.map((one, index) =>
      el("li", {}, swatch(index), el("b", {}, text("team.group", { number: index + 1 })), " ",
        el("span", { class: "quiet" }, one.alike === null ? text("team.alone") : text("team.alike", { value: numeral(one.alike.toFixed(2)) })),
        el("p", {}, one.voters.join(", "))));
    for (const careless of [false, true]) {
      const some = apart.filter((one) => one.careless === careless).map((one) => one.voter);
      if (some.length) groups.push(el("li", {}, el("span", { class: "swatch hollow" }), el("b", {}, text(careless ? "team.byLot" : "team.tooFew")), el("p", {}, some.join(", "))));
    }
    return el("section", { class: "panel map", "aria-label": text("team.map") },
      el("h2", {}, text("team.map")),
      el("div", { class: "columns wide" }, figure(found.map), el("ul", { class: "groups" }, ...groups)),
      el("p", { class: "quiet" }, text("team.mapMeans")));
  }

  /** @param {Agreement} found */
  splits(found) {
    const rows = found.splits.filter((one, index) => one.share >= LEAST_SHARE || index === 0).map((one) => {
      const parameter = this.study.parameters.find((other) => other.name === one.parameter);
      const likes = one.likes.map((value, index) => el("span", { class: "like" }, swatch(index), el("span", { class: "unseen" }, text("team.group", { number: index + 1 }), " "), shown(value)));
      return el("li", {}, el("p", {}, el("b", {}, one.parameter), " ", el("span", { class: "quiet" }, text("team.share", { share: percent(one.share) }))),
        parameter === undefined ? null : places(parameter, one.likes),
        el("p", { class: "likes" }, ...likes),
        el("p", { class: "quiet" }, text("team.sure", { share: percent(Math.min(one.sure, 0.99)) })));
    });
    if (!rows.length) return null;
    return el("section", { class: "panel", "aria-label": text("team.splits") },
      el("h2", {}, text("team.splits")), el("p", { class: "quiet" }, text("team.splitsMean")), el("ul", { class: "splits" }, ...rows));
  }

  /**
   * @param {Agreement} found
   * @param {Team} team
   */
  voters(found, team) {
    return el("section", { class: "panel", "aria-label": text("team.voters") },
      el("h2", {}, text("team.voters")),
      el("p", { class: "quiet" }, text("team.votersMean")),
      el("ul", { class: "voters" }, ...found.voters.map((one) => this.voter(one, found, team.counts[one.voter]))));
  }

  /**
   * @param {VoterTaste} one
   * @param {Agreement} found
   * @param {VoterCount} [counted]
   */
  voter(one, found, counted) {
    const flags = [
      one.program ? text("team.program") : "",
      one.predicted ? text("team.predicted") : "",
      one.careless ? text("team.careless") : "",
      one.weight === 1 ? "" : text("team.weight", { value: numeral(String(one.weight)) }),
    ].filter(Boolean);
    const same = one.best.option === found.best.option;
    return el("li", { "data-voter": one.voter },
      el("h3", {}, one.group === null ? el("span", { class: "swatch hollow" }) : swatch(one.group), one.voter),
      flags.length ? el("p", { class: "flags" }, ...flags.map((words) => el("span", { class: "flag" }, words))) : null,
      el("div", { class: "own" }, thumbnail(this.page, one.best.option), same ? el("p", { class: "quiet" }, text("team.ownIsBest")) : this.differing(one.best, found.best.params)),
      rail(one.likes_best, one.best.beats_random),
      el("dl", { class: "words" }, ...[["team.ownBest", one.best.beats_random], ["team.best", one.likes_best], ["team.fairest", one.likes_fairest]].map(([key, value]) =>
        el("div", {}, el("dt", {}, text(/** @type {"team.best"} */ (key))), el("dd", {}, percent(Number(value)))))),
      el("p", { class: "quiet" }, progress(one, counted)));
  }

  /**
   * The values in which a voter's best differs most from the best for all.
   * @param {Liked} own
   * @param {Design} best
   */
  differing(own, best) {
    const { first } = foremost(this.study.parameters, [own.params, best], VALUES);
    return valueWords(first.slice(0, VALUES), own.params);
  }

  /** @param {Agreement} found */
  weights(found) {
    const inputs = found.voters.map((one) => ({ one, input: el("input", { type: "number", min: 0, step: "any", required: true, value: one.weight }) }));
    const form = el("form", { class: "duel", onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      void this.weigh(Object.fromEntries(inputs.map(({ one, input }) => [one.voter, Number(input.value)])));
    } }, ...inputs.map(({ one, input }) => el("label", {}, el("span", {}, one.voter), input)),
      el("p", { class: "row" }, el("button", {}, text("team.saveWeights")), button(text("team.countAlike"), () => void this.weigh(null))));
    return el("details", { class: "panel weights" }, el("summary", {}, text("team.weights")), el("p", { class: "quiet" }, text("team.weightsMean")), form);
  }

  /** @param {Record<string, number> | null} weights */
  async weigh(weights) {
    try {
      await post(at(this.study.id, "weights"), { weights, voter: this.page.voter });
      await this.refresh();
      this.page.say(text("team.weighed"), "good");
    } catch (error) {
      this.page.fail(error);
    }
  }
}

/**
 * Values of a design alone, in few words.
 * @param {Parameter[]} parameters
 * @param {Design} design
 */
function brief(parameters, design) {
  const tuned = parameters.filter((one) => one.type !== "fixed");
  const most = room(parameters, true);
  return el("div", {}, valueWords(tuned.slice(0, most), design), tuned.length > most ? el("details", { class: "fold" }, el("summary", {}, text("best.moreParameters", { count: tuned.length - most })), valueWords(tuned.slice(most), design)) : null);
}

/** @param {Agreement} found */
function words(found) {
  return el("section", { class: "panel", "aria-label": text("team.words") },
    el("h2", {}, text("team.words")),
    saidList(found.sentences));
}

/** @param {number} group */
function swatch(group) {
  return el("span", { class: `swatch group-${group % COLOURS}`, "aria-hidden": "true" });
}

/**
 * Where each group's value lies in the range of a parameter; nothing of choices.
 * @param {Parameter} parameter
 * @param {Value[]} likes
 */
function places(parameter, likes) {
  const found = likes.map((value) => share(parameter, value));
  if (found.includes(null)) return null;
  return el("span", { class: "chart" }, svg("svg", { class: "places", viewBox: "0 0 400 24", "aria-hidden": "true" },
    svg("line", { x1: 12, x2: 388, y1: 12, y2: 12, class: "grid" }),
    ...found.map((place, index) => svg("circle", { cx: 12 + 376 * Number(place), cy: 12, r: 8, class: `node group-${index % COLOURS}` }))));
}

/**
 * How much a voter has done.
 * @param {VoterTaste} one
 * @param {VoterCount} [counted]
 */
function progress(one, counted) {
  const said = [text("history.count", { count: one.answers })];
  if (counted?.skips) said.push(text("team.skips", { count: counted.skips }));
  if (counted?.seconds) said.push(text("team.median", { time: duration(counted.seconds) }));
  if (counted?.decided) said.push(text("team.agreeing", { some: counted.shared, all: counted.decided }));
  return said.join(" · ");
}

/**
 * Who answered how much, where nothing more can be told.
 * @param {Team} team
 */
function counts(team) {
  const rows = Object.values(team.counts).map((one) => el("li", {}, el("b", {}, one.name), " ", text("history.count", { count: one.answers }), one.program ? el("span", { class: "flag" }, text("team.program")) : null));
  return el("ul", { class: "sentences" }, ...rows);
}

/**
 * How alike every two are, as numbers.
 * @param {Agreement} found
 */
function numbers(found) {
  const names = found.voters.map((one) => one.voter);
  if (names.length < 2 || names.length > MOST_ROWS) return null;
  const rows = found.alike.map((row, index) => el("tr", {}, el("th", { scope: "row" }, names[index]), ...row.map((value, other) => el("td", {}, index === other ? "–" : numeral(value.toFixed(2))))));
  return el("details", { class: "panel" }, el("summary", {}, text("team.numbers")), el("p", { class: "quiet" }, text("team.numbersMean")),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": text("team.numbers") },
      el("table", {}, el("thead", {}, el("tr", {}, el("td", {}), ...names.map((one) => el("th", { scope: "col" }, one)))), el("tbody", {}, ...rows))));
}

/**
 * What two voters said of the same pairs.
 * @param {Team} team
 */
function couples(team) {
  const said = team.couples.map((one) => el("li", {}, text("team.couple", { first: one.first, second: one.second, some: one.agreed, all: one.met })));
  return el("details", { class: "panel" }, el("summary", {}, text("team.couples")), said.length ? el("ul", { class: "sentences" }, ...said) : el("p", { class: "quiet" }, text("team.noCouples")));
}
