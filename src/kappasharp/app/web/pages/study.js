/** One study beside its answers: what is open of each parameter, notes on designs, past comparisons, its name. */

/** @import { NoteRow, OpenParameter, Page, Value, View } from "./types.js" */
import { button, el, shown } from "./elements.js";
import { Field, plain, sure } from "./fields.js";
import { inWords } from "./start.js";
import { at, get, post, sentence } from "./talk.js";

/** @typedef {{parameters: OpenParameter[], outside?: string[], better_outside?: number | null}} Opened */

/**
 * @param {Page} page
 * @param {HTMLElement} root
 * @returns {Promise<View>}
 */
export async function open(page, root) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  root.append(el("h1", {}, "This study"));
  const waiting = el("p", { class: "quiet" }, "Asking the model …");
  root.append(waiting);
  /** @type {Opened} */
  const found = await get(at(study.id, "parameters"));
  /** @type {{notes: NoteRow[]}} */
  const { notes } = await get(at(study.id, "notes"));
  waiting.remove();
  root.append(parameters(page, found), remarks(page, notes), past(page), naming(page));
  return {};
}

/**
 * @param {Page} page
 * @param {Opened} found
 */
function parameters(page, found) {
  const list = el("ul", { class: "space" });
  const told = el("div", {});
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const back = async () => {
    await post(at(study.id, "undo"), { voter: page.voter });
    draw(await get(at(study.id, "parameters")), false);
    page.say("The change was taken back.", "good");
  };
  const draw = (/** @type {Opened} */ now, /** @type {boolean} */ changed) => {
    list.replaceChildren(...now.parameters.map((one) => parameter(page, one, draw)));
    const undo = changed ? [el("p", {}, button("Take the change back", () => void back().catch((error) => page.say(sentence(error), "bad"))))] : [];
    told.replaceChildren(...outside(now), ...undo);
  };
  draw(found, false);
  return el("section", { class: "panel", "aria-label": "Parameters" }, el("h2", {}, "What may vary from now on"),
    el("p", { class: "quiet" }, "Narrow, lock or widen a parameter at any time. Every answer stays, the model keeps what it learnt, and a change can be taken back. A question about what is no longer open is replaced."),
    told, list);
}

/** @param {Opened} now */
function outside(now) {
  const lines = [];
  if (now.outside?.length) lines.push(el("p", { class: "problem" }, `No design was compared yet that is open now: the best one’s ${now.outside.join(", ")} is not.`));
  if (typeof now.better_outside === "number") lines.push(el("p", {}, `Design ${now.better_outside} seems better than the best one, but it is not open any more.`));
  return lines;
}

/**
 * @param {Page} page
 * @param {OpenParameter} one
 * @param {(now: Opened, changed: boolean) => void} draw
 */
function parameter(page, one, draw) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const fault = el("p", { class: "fault", role: "alert", hidden: true });
  const change = async (/** @type {Record<string, unknown>[]} */ ...steps) => {
    try {
      /** @type {Opened | null} */
      let now = null;
      for (const step of steps) now = await post(at(study.id, "parameters"), { ...step, name: one.name, voter: page.voter });
      if (now !== null) draw(now, true);
      page.say(`${one.name} was changed. Every answer stays.`, "good");
    } catch (error) {
      fault.textContent = inWords(sentence(error));
      fault.hidden = false;
    }
  };
  const state = el("p", { class: "quiet" }, one.best === null ? openWords(one) : `${openWords(one)} The best design has ${shown(one.best)}.`);
  const controls = one.kind === "number" ? numbers(one, change, fault) : choices(one, change, fault);
  const edge = one.edge;
  const widen = edge === null ? null : el("p", { class: "edge" },
    `The best design sits at the end of what is open. `, button(`Widen to ${shown(edge.further)}`, () => void change({ change: "widen", [edge.side]: edge.further }), { name: `Widen ${one.name} to ${shown(edge.further)}` }));
  return el("li", { class: "parameter opening", "data-name": one.name }, el("h3", {}, one.name), state, widen, controls, fault);
}

/** @param {OpenParameter} one */
function openWords(one) {
  const { open, ever } = one;
  if (one.locked) return `Locked at ${shown(open.choices?.[0] ?? open.low)}.`;
  if (open.choices !== null) return `Open: ${open.choices.map(shown).join(", ")}.`;
  const range = `Open from ${shown(open.low)} to ${shown(open.high)}.`;
  return open.low === ever.low && open.high === ever.high ? range : `Open from ${shown(open.low)} to ${shown(open.high)}; it was open from ${shown(ever.low)} to ${shown(ever.high)}.`;
}

/** @typedef {(...steps: Record<string, unknown>[]) => Promise<void>} Change */

/**
 * @param {OpenParameter} one
 * @param {Change} change
 * @param {HTMLElement} fault
 */
function numbers(one, change, fault) {
  const input = (/** @type {Value} */ value) => el("input", { type: "text", inputmode: "decimal", autocomplete: "off", value: value ?? "" });
  const low = new Field("From", input(one.open.low), { name: `${one.name} from` });
  const high = new Field("To", input(one.open.high), { name: `${one.name} to` });
  const value = new Field("Lock at", input(one.locked ? one.open.low : typeof one.best === "number" ? Number(one.best.toPrecision(6)) : one.best), { name: `Lock ${one.name} at` });
  const fields = [low, high, value];
  const clear = () => {
    fault.hidden = true;
    for (const field of fields) field.say("");
  };
  const number = (/** @type {Field[]} */ ...wanted) => {
    clear();
    for (const field of wanted) if (field.number === null) field.say("This needs a number.");
    return wanted.every((field) => field.number !== null);
  };
  const range = () => {
    if (!number(low, high)) return;
    const from = Number(low.number);
    const to = Number(high.number);
    if (from > to) return high.say("To must be larger than From.");
    const [least, most] = [Number(one.open.low), Number(one.open.high)];
    const steps = [];
    if (from < least || to > most) steps.push({ change: "widen", low: Math.min(from, least), high: Math.max(to, most) });
    if (from > least || to < most) steps.push({ change: "narrow", low: from, high: to });
    if (!steps.length) return high.say("This is what is open now.");
    void change(...steps);
  };
  return el("div", { class: "row", oninput: clear }, low.element, high.element, button("Set", range, { name: `Set the range of ${one.name}` }),
    value.element, button("Lock", () => number(value) && void change({ change: "lock", value: value.number }), { name: `Lock ${one.name}` }), all(one, change));
}

/**
 * @param {OpenParameter} one
 * @param {Change} change
 * @param {HTMLElement} fault
 */
function choices(one, change, fault) {
  const ever = one.ever.choices ?? [];
  const now = one.open.choices ?? [];
  const boxes = ever.map((value) => ({ value, box: el("input", { type: "checkbox", checked: now.includes(value) }) }));
  const more = new Field("New choice", el("input", { type: "text", autocomplete: "off" }), { name: `New choice of ${one.name}` });
  const set = () => {
    const kept = boxes.filter(({ box }) => box.checked).map(({ value }) => value);
    const fresh = more.value === "" ? [] : [plain(more.value)];
    const opened = [...kept.filter((value) => !now.includes(value)), ...fresh];
    const closed = now.some((value) => !kept.includes(value));
    if (!kept.length && !fresh.length) return more.say("Leave one choice at least.");
    if (!opened.length && !closed) return more.say("This is what is open now.");
    void change(...(opened.length ? [{ change: "widen", choices: opened }] : []), ...(closed ? [{ change: "narrow", choices: [...kept, ...fresh] }] : []));
  };
  const clear = () => {
    fault.hidden = true;
    more.say("");
  };
  return el("div", { class: "row", oninput: clear }, ...boxes.map(({ value, box }) => el("label", { class: "check" }, box, shown(value))), more.element,
    button("Set", set, { name: `Set the choices of ${one.name}` }), all(one, change));
}

/**
 * @param {OpenParameter} one
 * @param {Change} change
 */
function all(one, change) {
  return one.open.words === one.ever.words ? null : button("Open all", () => void change({ change: "widen" }), { name: `Open all of ${one.name}` });
}

/**
 * @param {Page} page
 * @param {NoteRow[]} notes
 */
function remarks(page, notes) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const option = new Field("Design", el("input", { type: "number", min: 0, required: true }), { hint: "Its number, as the history shows it." });
  const text = new Field("Note", el("input", { type: "text", maxlength: 500, autocomplete: "off" }), { class: "long" });
  const list = el("ul", { class: "studies" });
  const send = async (/** @type {number} */ of, /** @type {string | null} */ words, /** @type {string} */ voter) => {
    try {
      draw((await post(at(study.id, "note"), { option: of, text: words, voter })).notes);
      text.input.value = "";
    } catch (error) {
      option.say(inWords(sentence(error)));
    }
  };
  const draw = (/** @type {NoteRow[]} */ now) => list.replaceChildren(...now.map((one) =>
    el("li", {}, el("b", {}, `Design ${one.option}`), el("span", {}, one.text), el("span", { class: "quiet" }, one.voter),
      one.voter === page.voter ? button("Take back", () => void send(one.option, null, one.voter), { name: `Take back the note on design ${one.option}` }) : null)));
  draw(notes);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (option.number === null) return option.say("Give the number of a design.");
    if (text.value === "") return text.say("Write a few words.");
    void send(option.number, text.value, page.voter);
  };
  const clear = () => [option, text].forEach((one) => one.say(""));
  return el("section", { class: "panel", "aria-label": "Notes" }, el("h2", {}, "Notes on designs"),
    el("p", { class: "quiet" }, "For people to read; the model does not hear of them. They are exported with the designs."), list,
    el("form", { class: "row", onsubmit: submit, oninput: clear, novalidate: true }, option.element, text.element, el("button", { class: "plain" }, "Note it")));
}

/** @param {Page} page */
function past(page) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const file = new Field("A CSV file", el("input", { type: "file", accept: ".csv,text/csv" }), { class: "long" });
  const columns = study.parameters.filter((one) => one.type !== "fixed").flatMap((one) => [`a.${one.name}`, `b.${one.name}`]);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const chosen = /** @type {HTMLInputElement} */ (file.input).files?.[0];
    if (chosen === undefined) return file.say("Choose a file.");
    try {
      const found = await post(at(study.id, "import"), { csv: await chosen.text(), voter: page.voter });
      page.say(`${found.comparisons} comparisons from ${found.answers} answers were added; ${found.skips} skips were left out.`, "good");
    } catch (error) {
      file.say(inWords(sentence(error)));
    }
  };
  return el("section", { class: "panel", "aria-label": "Past comparisons" }, el("h2", {}, "Past comparisons"),
    el("p", { class: "quiet" }, "Add what was compared elsewhere, all of the file or nothing. It has a line for each comparison, with these columns; “voter” may be one more, and what Export writes as CSV is read too."),
    el("p", { class: "code columns-line" }, [...columns, "answer"].join(",")),
    el("form", { class: "row", onsubmit: (/** @type {Event} */ event) => void submit(event), oninput: () => file.say(""), novalidate: true }, file.element, el("button", { class: "plain" }, "Add them")));
}

/** @param {Page} page */
function naming(page) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const name = new Field("Name", el("input", { type: "text", maxlength: 200, value: study.name, autocomplete: "off" }), { name: "Name of the study", class: "long" });
  const rename = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      await post(at(study.id, "rename"), { name: name.input.value, voter: page.voter });
      await page.open(study.id);
      page.say("Renamed. Whoever has the study open goes on with it.", "good");
    } catch (error) {
      name.say(inWords(sentence(error)));
    }
  };
  const remove = async () => {
    const { name: called } = /** @type {NonNullable<Page["study"]>} */ (page.study);
    if (!(await sure(`Delete “${called}” with all its answers, for good? Nothing brings it back but a copy.`, "Delete for good", "Keep it"))) return;
    try {
      await post(at(study.id, "delete"), { name: called });
      page.leave();
    } catch (error) {
      name.say(inWords(sentence(error)));
    }
  };
  return el("section", { class: "panel", "aria-label": "Name" }, el("h2", {}, "Rename or delete"),
    el("form", { class: "row", onsubmit: (/** @type {Event} */ event) => void rename(event), oninput: () => name.say(""), novalidate: true }, name.element, el("button", { class: "plain" }, "Rename")),
    el("p", {}, button("Delete this study …", () => void remove(), { kind: "plain danger" })));
}
