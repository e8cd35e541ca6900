/** Start: name a study, say what may vary, rehearse it with a simulated person, begin. */

/** @import { Page, Rehearsal, Value, View } from "./types.js" */
import { figure } from "./charts.js";
import { button, el, percent } from "./elements.js";
import { get, post, sentence } from "./talk.js";
import { AUTO, AUTO_WORDS, KINDS } from "./wording.js";

/** How many designs a gallery or an order may show; four unless somebody says otherwise. */
const COUNTS = [3, 4, 5, 6, 7, 8, 9];
const TYPES = { float: "number", int: "whole number", categorical: "choice", fixed: "fixed" };
const TOML = `name = "my study"
question = "pair"   # or "choice:4", "order:4", "slider", "rating"
[parameters]
kp = {low = 0.2, high = 3.0}
ki = {low = 1e-3, high = 2.0, log = true}
n = {type = "int", low = 1, high = 8}
mode = ["soft", "hard"]
`;

/**
 * @param {Page} page
 * @param {HTMLElement} root
 * @returns {Promise<View>}
 */
export async function open(page, root) {
  page.listing = await get("/api/studies");
  const form = new Form(page);
  root.append(el("h1", {}, "Start a study"), form.element, form.rehearsal);
  const others = existing(page);
  if (others !== null) root.append(others);
  return {};
}

/** @param {Page} page */
function existing(page) {
  const rows = page.listing.studies.map((one) =>
    el("li", {}, el("b", {}, one.name), el("span", { class: "quiet" }, new Date(one.created).toLocaleString("en-GB")),
      button(one.id === page.study?.id ? "Go on" : "Open", async () => {
        await page.open(one.id);
        page.go("compare");
      }, { name: `Open ${one.name}` })));
  if (!rows.length) return null;
  return el("section", { class: "panel", "aria-label": "Studies" }, el("h2", {}, "Go on with one"), el("ul", { class: "studies" }, ...rows));
}

class Form {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    this.name = el("input", { type: "text", id: "name", maxlength: 200, required: true, value: this.freeName() });
    this.rows = el("tbody", {});
    this.toml = el("textarea", { rows: 10, spellcheck: "false", id: "toml", class: "code" }, TOML);
    this.renderer = el("select", { id: "renderer" }, el("option", { value: "" }, "None: show the values only"),
      ...page.listing.renderers.map((one) => el("option", { value: one }, one)));
    this.method = el("select", { id: "method" }, ...page.listing.methods.map((one) => el("option", { value: one }, one)));
    this.person = el("select", { id: "person" }, ...page.listing.persons.map((one) => el("option", { value: one }, one)));
    this.questions = el("input", { type: "number", id: "questions", min: 1, max: 60, value: 20 });
    this.rehearsal = el("div", { "aria-live": "polite" });
    this.count = el("select", { "aria-label": "How many designs at once", disabled: true }, ...COUNTS.map((one) => el("option", { value: one, selected: one === 4 }, one)));
    this.asking = this.makeKinds();
    this.asText = false;
    this.table = this.makeTable();
    this.text = el("div", { hidden: true }, el("label", { for: "toml" }, "The study as TOML"), this.toml);
    this.add("x", "float", "0", "1");
    this.add("y", "float", "0", "1");
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
      this.table.hidden = text;
      this.text.hidden = !text;
      // The text has its own.
      this.asking.hidden = text;
      for (const one of [this.name, this.method]) {
        one.hidden = text;
        for (const label of one.labels ?? []) label.hidden = text;
      }
      choose.replaceChildren(
        button("As a table", () => turn(false), { pressed: !text }),
        button("As TOML", () => turn(true), { pressed: text }));
    };
    turn(false);
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      void this.create();
    };
    return el("form", { class: "panel start-form", onsubmit: submit },
      el("p", { class: "fields" },
        el("label", { for: "name" }, "Name"), this.name,
        el("label", { for: "renderer" }, "Pictures"), this.renderer,
        el("label", { for: "method" }, "Method"), this.method),
      el("div", { class: "head" }, el("h2", {}, "What may vary"), choose), this.table, this.text, this.asking,
      el("div", { class: "row" }, el("button", { class: "choice a" }, "Begin")),
      el("fieldset", { class: "row" }, el("legend", {}, "Rehearse first, with a simulated person"),
        el("label", { for: "person" }, "Person"), this.person, el("label", { for: "questions" }, "Answers"), this.questions,
        button("Rehearse", () => void this.rehearse()),
        el("span", { class: "quiet" }, "In memory only; nothing is stored.")));
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
    const heads = ["Name", "Kind", "From", "To", "Log", "Choices or value", ""].map((one) =>
      el("th", { scope: "col" }, one || el("span", { class: "unseen" }, "Remove")));
    return el("div", {},
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Parameters" },
        el("table", { class: "space" }, el("thead", {}, el("tr", {}, ...heads)), this.rows)),
      button("Add a parameter", () => this.add("", "float", "0", "1").focus()));
  }

  /**
   * @param {string} name
   * @param {string} kind
   * @param {string} low
   * @param {string} high
   */
  add(name, kind, low, high) {
    const title = el("input", { type: "text", "aria-label": "Name of the parameter", value: name, class: "name" });
    const chosen = el("select", { "aria-label": "Kind", class: "kind" },
      ...Object.entries(TYPES).map(([value, words]) => el("option", { value, selected: value === kind }, words)));
    const from = el("input", { type: "number", step: "any", "aria-label": "From", value: low, class: "low" });
    const to = el("input", { type: "number", step: "any", "aria-label": "To", value: high, class: "high" });
    const log = el("input", { type: "checkbox", "aria-label": "Logarithmic", class: "log" });
    const choices = el("input", { type: "text", "aria-label": "Choices, separated by commas, or the fixed value", class: "choices", placeholder: "soft, hard" });
    const adapt = () => {
      const ranged = chosen.value === "float" || chosen.value === "int";
      for (const one of [from, to, log]) one.disabled = !ranged;
      choices.disabled = ranged;
    };
    chosen.addEventListener("change", adapt);
    adapt();
    const row = el("tr", {}, ...[title, chosen, from, to, log, choices].map((one) => el("td", {}, one)),
      el("td", {}, button("Remove", () => row.remove(), { name: "Remove this parameter" })));
    this.rows.append(row);
    return title;
  }

  /** What the form says, for the server to check. */
  described() {
    const renderer = this.renderer.value;
    if (this.asText) return { toml: this.toml.value, renderer };
    /** @type {Record<string, unknown>} */
    const parameters = {};
    for (const row of this.rows.rows) {
      const value = (/** @type {string} */ one) => /** @type {HTMLInputElement} */ (row.querySelector(`.${one}`)).value;
      const kind = value("kind");
      if (value("name") in parameters) throw new Error(`Two parameters are called “${value("name")}”; give one of them another name.`);
      const words = value("choices").split(",").map((one) => plain(one.trim())).filter((one) => one !== "");
      if (kind === "categorical") parameters[value("name")] = { choices: words };
      else if (kind === "fixed") parameters[value("name")] = { value: words[0] ?? "" };
      else {
        if (value("low") === "" || value("high") === "") throw new Error(`“${value("name")}” needs a number in From and in To.`);
        const log = /** @type {HTMLInputElement} */ (row.querySelector(".log")).checked;
        parameters[value("name")] = { type: kind, low: Number(value("low")), high: Number(value("high")), log };
      }
    }
    const question = this.count.disabled ? this.kind() : `${this.kind()}:${this.count.value}`;
    return { name: this.name.value, parameters, renderer, method: this.method.value, question };
  }

  async create() {
    try {
      const made = await post("/api/studies", this.described());
      await this.page.open(made.id);
      this.page.go("compare");
    } catch (error) {
      this.page.say(sentence(error), "bad");
    }
  }

  async rehearse() {
    this.rehearsal.replaceChildren(el("p", { class: "quiet panel" }, "The simulated person is comparing …"));
    try {
      const asked = { ...this.described(), person: this.person.value, questions: Number(this.questions.value) };
      this.rehearsal.replaceChildren(outcome(await post("/api/rehearsal", asked)));
    } catch (error) {
      this.rehearsal.replaceChildren();
      this.page.say(sentence(error), "bad");
    }
  }
}

/**
 * A number where it reads as one.
 * @param {string} word
 * @returns {Value}
 */
function plain(word) {
  return word !== "" && Number.isFinite(Number(word)) ? Number(word) : word;
}

/** @param {Rehearsal} found */
function outcome(found) {
  const last = found.rows[found.rows.length - 1];
  return el("section", { class: "panel", "aria-label": "Rehearsal" },
    el("h2", {}, `After ${last.answers} answers the best design beats ${percent(last.truly_preferred)} of designs in the person’s hidden taste`),
    el("p", { class: "quiet" }, `The model itself would have said ${percent(last.preferred)}. Of the way from an ordinary design to the ideal one, ${percent(last.true_room_left)} was left; the model would have said ${percent(last.room_left)}.`),
    found.chart === null ? null : figure(found.chart));
}
