/** Start: name a study, say what may vary, rehearse it with a simulated person, begin; or go on with another. */

/** @import { Counted, Page, Rehearsal, View } from "./types.js" */
/** @import { Fault } from "./fields.js" */
import { figure } from "./charts.js";
import { button, el, percent } from "./elements.js";
import { Field, sure, tell } from "./fields.js";
import { FavouriteCard, ParameterRow } from "./space.js";
import { at, get, post, sentence } from "./talk.js";
import { AUTO, AUTO_WORDS, KINDS } from "./wording.js";

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
/** What is offered here, in words; the text form takes every method. @type {Record<string, {name: string, sentence: string}>} */
const METHODS = {
  baseline: { name: "The usual", sentence: "Nothing tried so far beats it safely." },
  incumbent: { name: "Against the best", sentence: "Every question shows the best design again: half as many designs have to be made. For designs that are dear to make." },
  bridging: { name: "The best again, where it pays", sentence: "Shows the best design again where that promises more than a new one." },
  connected: { name: "One design stays", sentence: "Every question keeps one design of the question before." },
  adaptive: { name: "With the paper’s correction", sentence: "The correction acts while your answers are clear. A method under study: no gain over the usual was found so far." },
};
/** @type {Record<string, {name: string, sentence: string}>} */
const PERSONS = {
  paper: { name: "Somebody a little unsure", sentence: "What they feel about a design varies a little each time." },
  exact: { name: "Somebody exact", sentence: "Never errs, not even where two designs are nearly alike." },
  human: { name: "Somebody like you", sentence: "Errs now and then, and leans a little towards the first design." },
  careless: { name: "Somebody careless", sentence: "One answer in ten has nothing to do with the designs." },
  hesitant: { name: "Somebody hesitant", sentence: "Says “no difference” where it is small." },
};

/**
 * @param {Page} page
 * @param {HTMLElement} root
 * @returns {Promise<View>}
 */
export async function open(page, root) {
  page.listing = await get("/api/studies");
  const form = new Form(page);
  root.append(el("h1", {}, "Start a study"), form.element, form.rehearsal);
  if (page.listing.studies.length) root.append(await others(page));
  return {};
}

/** @param {Page} page */
async function others(page) {
  /** @type {{studies: Counted[]}} */
  const { studies } = await get("/api/counts");
  const list = el("ul", { class: "studies" });
  for (const one of studies) {
    const row = el("li", {}, el("b", {}, one.name), el("span", { class: "quiet" }, counts(one)),
      el("span", { class: "row" },
        button(one.id === page.study?.id ? "Go on" : "Open", () => void enter(page, one, "compare"), { name: `Open ${one.name}` }),
        button("Rename …", () => void enter(page, one, "study"), { name: `Rename ${one.name}` }),
        button("Delete …", () => void remove(page, one, row), { name: `Delete ${one.name}` })));
    list.append(row);
  }
  return el("section", { class: "panel", "aria-label": "Studies" }, el("h2", {}, "Go on with one"), list);
}

/** @param {Counted} one */
function counts(one) {
  if (one.trouble !== null) return one.trouble;
  const when = (/** @type {string} */ time) => new Date(time).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
  if (one.last_answer === null) return `No answers yet · made ${when(one.created)}`;
  const answers = one.answers === 1 ? "1 answer" : `${one.answers} answers`;
  const voters = one.voters === 1 ? "1 voter" : `${one.voters} voters`;
  return `${answers} · ${voters} · last ${when(one.last_answer)}`;
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
    page.say(sentence(error), "bad");
  }
}

/**
 * @param {Page} page
 * @param {Counted} one
 * @param {HTMLElement} row
 */
async function remove(page, one, row) {
  if (!(await sure(`Delete “${one.name}” with all its answers, for good? Nothing brings it back but a copy.`, "Delete for good", "Keep it"))) return;
  try {
    await post(at(one.id, "delete"), { name: one.name });
    row.remove();
    if (one.id === page.study?.id) page.leave();
    page.say(`“${one.name}” was deleted.`, "good");
  } catch (error) {
    page.say(sentence(error), "bad");
  }
}

/**
 * A choice with a sentence about what is chosen.
 * @param {string} label
 * @param {Record<string, {name: string, sentence: string}>} words
 * @param {string[]} offered
 * @param {string} id
 */
function explained(label, words, offered, id) {
  const known = Object.entries(words).filter(([name]) => offered.includes(name));
  const select = el("select", { id }, ...known.map(([name, one]) => el("option", { value: name }, one.name)));
  const field = new Field(label, select, { class: "long", hint: known[0][1].sentence });
  select.addEventListener("change", () => field.hint?.replaceChildren(words[select.value].sentence));
  return field;
}

class Form {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    this.name = new Field("Name", el("input", { type: "text", id: "name", maxlength: 200, value: this.freeName(), autocomplete: "off" }), { class: "long" });
    this.renderer = new Field("Pictures", el("select", { id: "renderer" }, el("option", { value: "" }, "None: show the values only"),
      ...page.listing.renderers.map((one) => el("option", { value: one }, one))), { class: "long" });
    this.method = explained("Method", METHODS, page.listing.methods, "method");
    this.person = explained("Person", PERSONS, page.listing.persons, "person");
    this.questions = new Field("Answers", el("input", { type: "number", id: "questions", min: 1, max: 60, value: 20 }));
    this.toml = new Field("The study as TOML", el("textarea", { rows: 14, spellcheck: "false", id: "toml", class: "code" }, TOML), { class: "long" });
    this.rehearsal = el("div", { "aria-live": "polite" });
    this.count = el("select", { "aria-label": "How many designs at once", disabled: true }, ...COUNTS.map((one) => el("option", { value: one, selected: one === 4 }, one)));
    this.asking = this.makeKinds();
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
    const choose = el("div", { class: "switch", role: "group", "aria-label": "How to describe it" });
    const turn = (/** @type {boolean} */ text) => {
      this.asText = text;
      // The text has its own.
      for (const one of [this.table, this.asking, this.name.element, this.method.element]) one.hidden = text;
      this.toml.element.hidden = !text;
      this.forget();
      choose.replaceChildren(
        button("As a table", () => turn(false), { pressed: !text }),
        button("As TOML", () => turn(true), { pressed: text }));
    };
    turn(false);
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      void this.create();
    };
    return el("form", { class: "panel start-form", onsubmit: submit, oninput: () => this.forget(), novalidate: true },
      el("div", { class: "form-head" }, this.name.element, this.renderer.element, this.method.element),
      el("div", { class: "head" }, el("h2", {}, "What may vary"), choose), this.table, this.toml.element, this.asking,
      this.problem,
      el("div", { class: "row" }, el("button", { class: "choice a" }, "Begin")),
      el("fieldset", {}, el("legend", {}, "Rehearse first, with a simulated person"),
        el("div", { class: "form-head" }, this.person.element, this.questions.element),
        el("div", { class: "row" }, button("Rehearse", () => void this.rehearse()), el("span", { class: "quiet" }, "In memory only; nothing is stored."))));
  }

  /** What is asked, usually: one sentence each. */
  makeKinds() {
    const several = () => (this.count.disabled = !["choice", "order"].includes(this.kind()));
    const offered = [...this.page.listing.kinds.map((kind) => ({ kind: String(kind), words: KINDS[kind] })), { kind: AUTO, words: AUTO_WORDS }];
    const rows = offered.map(({ kind, words }) =>
      el("label", { class: "kind-row" }, el("input", { type: "radio", name: "kind", value: kind, checked: kind === "pair" }),
        el("span", {}, el("b", {}, words.name), ` ${words.sentence}`)));
    return el("fieldset", { onchange: several }, el("legend", {}, "How you want to be asked"), ...rows,
      el("label", { class: "row" }, "Designs at once, in a gallery or an order", this.count));
  }

  kind() {
    return /** @type {HTMLInputElement | null} */ (this.asking.querySelector(":checked"))?.value ?? "pair";
  }

  makeTable() {
    return el("div", {}, this.rowList, button("Add a parameter", () => this.add("").name.input.focus()),
      el("p", { class: "quiet" }, "A step keeps a number on a grid. What is just noticeable is the smallest difference that you would see, in the parameter’s own units; on a log scale as a share, such as 0.05 for five per cent."),
      el("details", {}, el("summary", {}, "Start from a design you like"),
        el("p", { class: "quiet" }, "What you use today, or several. The first questions ask about them, and they may well turn out best."),
        this.cardList, button("Add a favourite", () => this.prefer())));
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
    const named = this.name.value === "" ? [{ field: this.name, words: "Give the study a name." }]
      : taken.includes(this.name.value) ? [{ field: this.name, words: "Another study has this name." }] : [];
    const rows = this.rows.flatMap((row, index) => row.faults(this.rows.slice(0, index).map((one) => one.name.value)));
    if (this.rows.length && this.rows.every((one) => one.kind.value === "fixed")) rows.push({ field: this.rows[0].kind, words: "One parameter at least must vary." });
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
    if (!this.asText && !this.rows.length) this.fail("A study needs a parameter that may vary: add one.");
    else faults[0]?.field.input.focus();
    return !faults.length && (this.asText || this.rows.length > 0);
  }

  /** @param {string} words */
  fail(words) {
    if (this.asText) this.toml.say(words);
    else {
      this.problem.textContent = words;
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
    return { name: this.name.value, parameters, renderer, method: this.method.value, question, favourites };
  }

  async create() {
    if (!this.right()) return;
    try {
      const made = await post("/api/studies", this.described());
      await this.page.open(made.id);
      this.page.go("compare");
    } catch (error) {
      this.fail(inWords(sentence(error)));
    }
  }

  async rehearse() {
    if (!this.right()) return;
    const questions = this.questions.number;
    if (questions === null || !Number.isInteger(questions) || questions < 1 || questions > 60) return this.questions.say("This must be a whole number from 1 to 60.");
    this.rehearsal.replaceChildren(el("p", { class: "quiet panel" }, "The simulated person is comparing …"));
    try {
      this.rehearsal.replaceChildren(outcome(await post("/api/rehearsal", { ...this.described(), person: this.person.value, questions })));
    } catch (error) {
      this.rehearsal.replaceChildren();
      this.fail(inWords(sentence(error)));
    }
  }
}

/**
 * A sentence of the server without the words that only a program has.
 * @param {string} said
 */
export function inWords(said) {
  return said
    .replace(/`space\['(.+?)'\]`: /, "“$1”: ")
    .replace(/`favourites\[(\d+)\]`/g, (_, index) => `favourite ${Number(index) + 1}`)
    .replace(/`(?:Float|Int|Categorical|Fixed)\((\w+)=(?:\.\.\.|\w+)\)`/g, "“$1”")
    .replace(/; (?:a value that never changes|one value) is `Fixed(?:\(value\))?`/, "")
    .replace(/`(?:Float|Int)`/g, "a number")
    .replace(/`Categorical`/g, "a choice")
    .replace(/`([^`]+)`/g, "“$1”");
}

/** @param {Rehearsal} found */
function outcome(found) {
  const last = found.rows[found.rows.length - 1];
  return el("section", { class: "panel", "aria-label": "Rehearsal" },
    el("h2", {}, `After ${last.answers} answers the best design beats ${percent(last.truly_preferred)} of designs in the person’s hidden taste`),
    el("p", { class: "quiet" }, `The model itself would have said ${percent(last.preferred)}. Of the way from an ordinary design to the ideal one, ${percent(last.true_room_left)} was left; the model would have said ${percent(last.room_left)}.`),
    found.chart === null ? null : figure(found.chart));
}
