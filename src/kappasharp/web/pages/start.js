/** Start: name a study, say what may vary, rehearse it with a simulated person, begin; or go on with another. */

/** @import { Counted, Page, Rehearsal, View } from "./types.js" */
/** @import { Fault } from "./fields.js" */
import { figure } from "./charts.js";
import { button, el, percent } from "./elements.js";
import { Field, inWords, sure, tell } from "./fields.js";
import { FavouriteCard, ParameterRow } from "./space.js";
import { at, get, langOf, post, sentence } from "./talk.js";
import { english, moment, text } from "./texts.js";
import { AUTO } from "./wording.js";

/** How many designs a gallery or an order may show; four unless somebody says otherwise. */
const COUNTS = [3, 4, 5, 6, 7, 8, 9];
const TOML = `name = "my study"
question = "pair"   # or "choice:4", "order:4", "slider", "rating"
[parameters]
kp = {low = 0.2, high = 3.0}
ki = {low = 1e-3, high = 2.0, log = true}
n = {type = "int", low = 1, high = 8}
mode = ["soft", "hard"]
[[favourites]]
kp = 1.0
ki = 0.1
n = 2
mode = "soft"
`;
/** What is offered here, in words; the text form takes every method. */
const METHODS = /** @type {const} */ (["method.baseline", "method.incumbent", "method.bridging", "method.connected", "method.adaptive"]);
const PERSONS = /** @type {const} */ (["person.paper", "person.exact", "person.human", "person.careless", "person.hesitant"]);

/**
 * @param {Page} page
 * @param {HTMLElement} root
 * @returns {Promise<View>}
 */
export async function open(page, root) {
  page.listing = await get("/api/studies");
  const form = new Form(page);
  root.append(el("h1", {}, text("start.title")), form.element, form.rehearsal);
  if (page.listing.studies.length) root.append(await others(page));
  return {};
}

/** @param {Page} page */
async function others(page) {
  /** @type {{studies: Counted[]}} */
  const { studies } = await get("/api/counts");
  const list = el("ul", { class: "studies" });
  for (const one of studies) {
    const row = el("li", {}, el("b", {}, one.name), el("span", { class: "quiet", lang: one.trouble === null ? null : english() }, counts(one)),
      el("span", { class: "row" },
        button(text(one.id === page.study?.id ? "start.goOn" : "start.open"), () => void enter(page, one, "compare"), { name: text("start.openName", { name: one.name }) }),
        button(text("start.rename"), () => void enter(page, one, "study"), { name: text("start.renameName", { name: one.name }) }),
        button(text("start.delete"), () => void remove(page, one, row), { name: text("start.deleteName", { name: one.name }) })));
    list.append(row);
  }
  return el("section", { class: "panel", "aria-label": text("start.studies") }, el("h2", {}, text("start.goOnWith")), list);
}

/** @param {Counted} one */
function counts(one) {
  if (one.trouble !== null) return one.trouble;
  const when = (/** @type {string} */ time) => moment(time, { dateStyle: "medium", timeStyle: "short" });
  if (one.last_answer === null) return text("start.noAnswers", { time: when(one.created) });
  return text("start.counts", {
    answers: text("history.count", { count: Number(one.answers) }), voters: text("start.voters", { count: Number(one.voters) }), time: when(one.last_answer),
  });
}

/**
 * @param {Page} page
 * @param {Counted} one
 * @param {string} view
 */
async function enter(page, one, view) {
  try {
    await page.open(one.id);
    page.go(view);
  } catch (error) {
    page.fail(error);
  }
}

/**
 * @param {Page} page
 * @param {Counted} one
 * @param {HTMLElement} row
 */
async function remove(page, one, row) {
  if (!(await sure(text("start.deleteAsk", { name: one.name }), text("start.deleteYes"), text("start.deleteNo")))) return;
  try {
    await post(at(one.id, "delete"), { name: one.name });
    row.remove();
    if (one.id === page.study?.id) page.leave();
    page.say(text("start.deleted", { name: one.name }), "good");
  } catch (error) {
    page.fail(error);
  }
}

/**
 * A choice with a sentence about what is chosen.
 * @param {string} label
 * @param {readonly ((typeof METHODS)[number] | (typeof PERSONS)[number])[]} all
 * @param {string[]} offered
 * @param {string} id
 */
function explained(label, all, offered, id) {
  const known = all.filter((one) => offered.includes(one.split(".")[1]));
  const select = el("select", { id }, ...known.map((one) => el("option", { value: one.split(".")[1] }, text(`${one}.name`))));
  const field = new Field(label, select, { class: "long", hint: text(`${known[0]}.sentence`) });
  select.addEventListener("change", () => field.hint?.replaceChildren(text(`${known[select.selectedIndex]}.sentence`)));
  return field;
}

class Form {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    this.name = new Field(text("start.name"), el("input", { type: "text", id: "name", maxlength: 200, value: this.freeName(), autocomplete: "off" }), { class: "long" });
    this.renderer = new Field(text("start.pictures"), el("select", { id: "renderer" }, el("option", { value: "" }, text("start.noPictures")),
      ...page.listing.renderers.map((one) => el("option", { value: one }, one))), { class: "long" });
    this.method = explained(text("start.method"), METHODS, page.listing.methods, "method");
    this.person = explained(text("start.person"), PERSONS, page.listing.persons, "person");
    this.questions = new Field(text("start.answers"), el("input", { type: "number", id: "questions", min: 1, max: 60, value: 20 }));
    this.toml = new Field(text("start.asToml"), el("textarea", { rows: 14, spellcheck: "false", id: "toml", class: "code" }, TOML), { class: "long" });
    this.rehearsal = el("div", { "aria-live": "polite" });
    this.count = el("select", { "aria-label": text("start.howMany"), disabled: true }, ...COUNTS.map((one) => el("option", { value: one, selected: one === 4 }, one)));
    this.asking = this.makeKinds();
    this.apart = el("input", { type: "checkbox", id: "apart" });
    this.each = el("label", { class: "kind-row", hidden: true }, this.apart, el("span", {}, el("b", {}, text("start.each")), " ", text("start.eachSentence")));
    this.problem = el("p", { class: "problem", role: "alert", hidden: true });
    this.asText = false;
    this.tried = false;
    /** @type {ParameterRow[]} */
    this.rows = [];
    /** @type {FavouriteCard[]} */
    this.favourites = [];
    this.rowList = el("ul", { class: "space" });
    this.cardList = el("ul", { class: "space" });
    this.table = this.makeTable();
    this.add("x");
    this.add("y");
    this.element = this.makeElement();
  }

  freeName() {
    const taken = new Set(this.page.listing.studies.map((one) => one.name));
    let count = 1;
    while (taken.has(count === 1 ? "study" : `study-${count}`)) count += 1;
    return count === 1 ? "study" : `study-${count}`;
  }

  makeElement() {
    const choose = el("div", { class: "switch", role: "group", "aria-label": text("start.howDescribed") });
    const turn = (/** @type {boolean} */ asText) => {
      this.asText = asText;
      // The text has its own.
      for (const one of [this.table, this.asking, this.each, this.name.element, this.method.element]) one.hidden = asText;
      this.toml.element.hidden = !asText;
      this.forget();
      choose.replaceChildren(
        button(text("start.byTable"), () => turn(false), { pressed: !asText }),
        button(text("start.byToml"), () => turn(true), { pressed: asText }));
    };
    turn(false);
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      void this.create();
    };
    return el("form", { class: "panel start-form", onsubmit: submit, oninput: () => this.forget(), novalidate: true },
      el("div", { class: "form-head" }, this.name.element, this.renderer.element, this.method.element),
      el("div", { class: "head" }, el("h2", {}, text("start.mayVary")), choose), this.table, this.toml.element, this.asking, this.each,
      this.problem,
      el("div", { class: "row" }, el("button", { class: "choice a" }, text("start.begin"))),
      el("fieldset", {}, el("legend", {}, text("start.rehearseFirst")),
        el("div", { class: "form-head" }, this.person.element, this.questions.element),
        el("div", { class: "row" }, button(text("start.rehearse"), () => void this.rehearse()), el("span", { class: "quiet" }, text("start.inMemory")))));
  }

  /** What is asked, usually: one sentence each. */
  makeKinds() {
    const several = () => (this.count.disabled = !["choice", "order"].includes(this.kind()));
    const rows = [...this.page.listing.kinds, AUTO].map((kind) =>
      el("label", { class: "kind-row" }, el("input", { type: "radio", name: "kind", value: kind, checked: kind === "pair" }),
        el("span", {}, el("b", {}, text(`kind.${kind}.name`)), " ", text(`kind.${kind}.sentence`))));
    return el("fieldset", { onchange: several }, el("legend", {}, text("start.howAsked")), ...rows,
      el("label", { class: "row" }, text("start.atOnce"), this.count));
  }

  kind() {
    return /** @type {HTMLInputElement | null} */ (this.asking.querySelector(":checked"))?.value ?? "pair";
  }

  makeTable() {
    return el("div", {}, this.rowList, button(text("start.add"), () => this.add("").name.input.focus()),
      el("p", { class: "quiet" }, text("start.stepMeans")),
      el("details", {}, el("summary", {}, text("start.startFrom")),
        el("p", { class: "quiet" }, text("start.startMeans")),
        this.cardList, button(text("start.addFavourite"), () => this.prefer())));
  }

  /** @param {string} name */
  add(name) {
    const row = new ParameterRow({ name, low: "0", high: "1" }, (gone) => {
      this.rows = this.rows.filter((one) => one !== gone);
      gone.element.remove();
      this.redraw();
      this.forget();
    });
    this.rows.push(row);
    this.rowList.append(row.element);
    row.element.addEventListener("change", () => this.redraw());
    this.redraw();
    return row;
  }

  prefer() {
    const card = new FavouriteCard((gone) => {
      this.favourites = this.favourites.filter((one) => one !== gone);
      gone.element.remove();
      this.forget();
    });
    this.favourites.push(card);
    this.cardList.append(card.element);
    card.draw(this.rows);
    card.fields.values().next().value?.input.focus();
  }

  /** Favourites have a field for each parameter. */
  redraw() {
    for (const one of this.favourites) one.draw(this.rows);
  }

  fields() {
    return [this.name, this.questions, this.toml, ...this.rows.flatMap((one) => one.fields), ...this.favourites.flatMap((one) => [...one.fields.values()])];
  }

  /** @returns {Fault[]} */
  faults() {
    if (this.asText) return [];
    const taken = this.page.listing.studies.map((one) => one.name);
    /** @type {Fault[]} */
    const named = this.name.value === "" ? [{ field: this.name, words: text("start.needsName") }]
      : taken.includes(this.name.value) ? [{ field: this.name, words: text("start.nameTaken") }] : [];
    const rows = this.rows.flatMap((row, index) => row.faults(this.rows.slice(0, index).map((one) => one.name.value)));
    if (this.rows.length && this.rows.every((one) => one.kind.value === "fixed")) rows.push({ field: this.rows[0].kind, words: text("start.oneVaries") });
    return [...named, ...rows, ...this.favourites.flatMap((one) => one.faults())];
  }

  /** Say what is still wrong, once somebody has tried; what the server said is over. */
  forget() {
    this.problem.hidden = true;
    this.toml.say("");
    this.questions.say("");
    if (this.tried) tell(this.fields(), this.faults());
  }

  /** Whether nothing is wrong; else the first field that is gets the focus. */
  right() {
    this.tried = true;
    const faults = this.faults();
    tell(this.fields(), faults);
    if (!this.asText && !this.rows.length) this.fail(text("start.needsParameter"));
    else faults[0]?.field.input.focus();
    return !faults.length && (this.asText || this.rows.length > 0);
  }

  /**
   * @param {string} words
   * @param {string | null} [lang]
   */
  fail(words, lang) {
    if (this.asText) this.toml.say(words, lang);
    else {
      this.problem.replaceChildren(el("span", { lang }, words));
      this.problem.hidden = false;
    }
  }

  /** What the form says, for the server to check. */
  described() {
    const renderer = this.renderer.value;
    if (this.asText) return { toml: this.toml.input.value, renderer };
    const parameters = Object.fromEntries(this.rows.map((one) => [one.name.value, one.described()]));
    const question = this.count.disabled ? this.kind() : `${this.kind()}:${this.count.value}`;
    const favourites = this.favourites.map((one) => one.described());
    return { name: this.name.value, parameters, renderer, method: this.method.value, question, favourites, tell_apart: this.apart.checked };
  }

  async create() {
    if (!this.right()) return;
    try {
      const made = await post("/api/studies", this.described());
      await this.page.open(made.id);
      this.page.go("compare");
    } catch (error) {
      this.fail(inWords(sentence(error)), langOf(error));
    }
  }

  async rehearse() {
    if (!this.right()) return;
    const questions = this.questions.number;
    if (questions === null || !Number.isInteger(questions) || questions < 1 || questions > 60) return this.questions.say(text("start.needsCount"));
    this.rehearsal.replaceChildren(el("p", { class: "quiet panel" }, text("start.comparing")));
    try {
      this.rehearsal.replaceChildren(outcome(await post("/api/rehearsal", { ...this.described(), person: this.person.value, questions })));
    } catch (error) {
      this.rehearsal.replaceChildren();
      this.fail(inWords(sentence(error)), langOf(error));
    }
  }
}

/** @param {Rehearsal} found */
function outcome(found) {
  const last = found.rows[found.rows.length - 1];
  return el("section", { class: "panel", "aria-label": text("start.rehearsal") },
    el("h2", {}, text("start.rehearsed", { count: last.answers, share: percent(last.truly_preferred) })),
    el("p", { class: "quiet" }, text("start.rehearsedMeans", { said: percent(last.preferred), left: percent(last.true_room_left), room: percent(last.room_left) })),
    found.chart === null ? null : figure(found.chart));
}
