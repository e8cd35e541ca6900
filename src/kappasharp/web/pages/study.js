/** One study beside its answers: what is open of each parameter, notes on designs, past comparisons, its name. */

/** @import { NoteRow, OpenParameter, Page, Study, Value, View } from "./types.js" */
import { button, el, shown } from "./elements.js";
import { Field, plain, sure } from "./fields.js";
import { at, get, post } from "./talk.js";
import { listed, numeral, sentences, text as say } from "./texts.js";

/** @typedef {{parameters: OpenParameter[], outside?: string[], better_outside?: number | null}} Opened */

/**
 * @param {Page} page
 * @param {HTMLElement} root
 * @returns {Promise<View>}
 */
export async function open(page, root) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  root.append(el("h1", {}, say("study.title")));
  const waiting = el("p", { class: "quiet" }, say("best.asking"));
  root.append(waiting);
  /** @type {Opened} */
  const found = await get(at(study.id, "parameters"));
  /** @type {{notes: NoteRow[]}} */
  const { notes } = await get(at(study.id, "notes"));
  waiting.remove();
  if (page.may("owner")) root.append(parameters(page, found), remarks(page, notes), past(page), naming(page));
  else root.append(remarks(page, notes));
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
    page.say(say("study.wentBack"), "good");
  };
  const draw = (/** @type {Opened} */ now, /** @type {boolean} */ changed) => {
    list.replaceChildren(...now.parameters.map((one) => parameter(page, one, draw)));
    const undo = changed ? [el("p", {}, button(say("study.changeBack"), () => void back().catch((error) => page.fail(error))))] : [];
    told.replaceChildren(...outside(now), ...undo);
  };
  draw(found, false);
  return el("section", { class: "panel", "aria-label": say("study.parameters") }, el("h2", {}, say("study.mayVary")),
    el("p", { class: "quiet" }, say("study.mayVaryMeans")),
    told, list);
}

/** @param {Opened} now */
function outside(now) {
  const lines = [];
  if (now.outside?.length) lines.push(el("p", { class: "problem" }, say("study.noneOpen", { names: listed(now.outside) })));
  if (typeof now.better_outside === "number") lines.push(el("p", {}, say("study.betterOutside", { number: String(now.better_outside) })));
  return lines;
}

/**
 * @param {Page} page
 * @param {OpenParameter} one
 * @param {(now: Opened, changed: boolean) => void} draw
 */
function parameter(page, one, draw) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  /** @type {Change} */
  const change = async (field, ...steps) => {
    try {
      /** @type {Opened | null} */
      let now = null;
      for (const step of steps) now = await post(at(study.id, "parameters"), { ...step, name: one.name, voter: page.voter });
      if (now !== null) draw(now, true);
      page.say(say("study.changed", { name: one.name }), "good");
    } catch (error) {
      field.refuse(error);
    }
  };
  const state = el("p", { class: "quiet" }, sentences(openWords(one), one.best === null ? "" : say("study.bestHas", { value: shown(one.best) })));
  const { element, ends } = one.kind === "number" ? numbers(study, one, change) : choices(one, change);
  const edge = one.edge;
  const widen = edge === null ? null : el("p", { class: "edge" },
    say(shown(edge.value) === shown(edge.end) ? "study.atEdge" : "study.nearEdge"), " ", button(say("study.widen", { value: shown(edge.further) }), () => void change(ends[edge.side], { change: "widen", [edge.side]: edge.further }), { name: say("study.widenName", { name: one.name, value: shown(edge.further) }) }));
  return el("li", { class: "parameter opening", "data-name": one.name }, el("h3", {}, one.name), state, widen, element);
}

/** @param {OpenParameter} one */
function openWords(one) {
  const { open, ever } = one;
  if (one.locked) return say("study.lockedAt", { value: shown(open.choices?.[0] ?? open.low) });
  if (open.choices !== null) return say("study.openChoices", { values: listed(open.choices.map(shown)) });
  const range = { low: shown(open.low), high: shown(open.high) };
  return open.low === ever.low && open.high === ever.high ? say("study.openRange", range) : say("study.openWas", { ...range, least: shown(ever.low), most: shown(ever.high) });
}

/** Has something changed; what is wrong with it is said beside the field. @typedef {(field: Field, ...steps: Record<string, unknown>[]) => Promise<void>} Change */
/** What changes a parameter, and the field of each end. @typedef {{element: HTMLElement, ends: {low: Field, high: Field}}} Controls */

/**
 * @param {Study} study
 * @param {OpenParameter} one
 * @param {Change} change
 * @returns {Controls}
 */
function numbers(study, one, change) {
  const { type, log } = study.parameters.find((other) => other.name === one.name) ?? {};
  const input = (/** @type {Value} */ value) => el("input", { type: "text", inputmode: "decimal", autocomplete: "off", value: value === null ? "" : numeral(String(value)) });
  const low = new Field(say("field.from"), input(one.open.low), { name: say("study.nameFrom", { name: one.name }) });
  const high = new Field(say("field.to"), input(one.open.high), { name: say("study.nameTo", { name: one.name }) });
  // Shown short; where it is left as it is, the exact value is meant.
  const offered = typeof one.best === "number" ? Number(one.best.toPrecision(6)) : one.best;
  const value = new Field(say("study.lockAt"), input(one.locked ? one.open.low : offered), { name: say("study.lockNameAt", { name: one.name }) });
  const fields = [low, high, value];
  const clear = () => fields.forEach((field) => field.say(""));
  const faultOf = (/** @type {number | null} */ given) => {
    if (given === null) return say("field.needsNumber");
    if (type === "int" && !Number.isInteger(given)) return say("field.needsWhole");
    return log && given <= 0 ? say("field.above") : "";
  };
  const number = (/** @type {Field[]} */ ...wanted) => {
    clear();
    for (const field of wanted) field.say(faultOf(field.number));
    return wanted.every((field) => faultOf(field.number) === "");
  };
  const lock = () => {
    const [least, most] = [Number(one.ever.low), Number(one.ever.high)];
    if (!number(value)) return;
    if (Number(value.number) < least || Number(value.number) > most) return value.say(say("study.lockWithin", { low: shown(least), high: shown(most) }));
    void change(value, { change: "lock", value: value.number === offered ? one.best : value.number });
  };
  const range = () => {
    if (!number(low, high)) return;
    const from = Number(low.number);
    const to = Number(high.number);
    if (from > to) return high.say(say("field.toLarger"));
    const [least, most] = [Number(one.open.low), Number(one.open.high)];
    const steps = [];
    if (from < least || to > most) steps.push({ change: "widen", low: Math.min(from, least), high: Math.max(to, most) });
    if (from > least || to < most) steps.push({ change: "narrow", low: from, high: to });
    if (!steps.length) return high.say(say("study.isOpen"));
    void change(from === least ? high : low, ...steps);
  };
  const element = el("div", { class: "row", oninput: clear }, low.element, high.element, button(say("study.set"), range, { name: say("study.setRange", { name: one.name }) }),
    value.element, button(say("study.lock"), lock, { name: say("study.lockName", { name: one.name }) }), all(one, change, high));
  return { element, ends: { low, high } };
}

/**
 * @param {OpenParameter} one
 * @param {Change} change
 * @returns {Controls}
 */
function choices(one, change) {
  const ever = one.ever.choices ?? [];
  const now = one.open.choices ?? [];
  const boxes = ever.map((value) => ({ value, box: el("input", { type: "checkbox", checked: now.includes(value) }) }));
  const more = new Field(say("study.newChoice"), el("input", { type: "text", autocomplete: "off" }), { name: say("study.newChoiceOf", { name: one.name }) });
  const set = () => {
    const kept = boxes.filter(({ box }) => box.checked).map(({ value }) => value);
    const fresh = more.value === "" ? [] : [plain(more.value)];
    const opened = [...kept.filter((value) => !now.includes(value)), ...fresh];
    const closed = now.some((value) => !kept.includes(value));
    if (!kept.length && !fresh.length) return more.say(say("study.leaveOne"));
    if (!opened.length && !closed) return more.say(say("study.isOpen"));
    void change(more, ...(opened.length ? [{ change: "widen", choices: opened }] : []), ...(closed ? [{ change: "narrow", choices: [...kept, ...fresh] }] : []));
  };
  const element = el("div", { class: "row", oninput: () => more.say("") }, ...boxes.map(({ value, box }) => el("label", { class: "check" }, box, shown(value))), more.element,
    button(say("study.set"), set, { name: say("study.setChoices", { name: one.name }) }), all(one, change, more));
  return { element, ends: { low: more, high: more } };
}

/**
 * @param {OpenParameter} one
 * @param {Change} change
 * @param {Field} field
 */
function all(one, change, field) {
  return one.open.words === one.ever.words ? null : button(say("study.openAll"), () => void change(field, { change: "widen" }), { name: say("study.openAllOf", { name: one.name }) });
}

/**
 * @param {Page} page
 * @param {NoteRow[]} notes
 */
function remarks(page, notes) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const option = new Field(say("study.design"), el("input", { type: "number", min: 0, required: true }), { hint: say("study.designMeans") });
  const text = new Field(say("study.note"), el("input", { type: "text", maxlength: 500, autocomplete: "off" }), { class: "long" });
  const list = el("ul", { class: "studies" });
  const send = async (/** @type {number} */ of, /** @type {string | null} */ words, /** @type {string} */ voter) => {
    try {
      draw((await post(at(study.id, "note"), { option: of, text: words, voter })).notes);
      text.input.value = "";
    } catch (error) {
      option.refuse(error);
    }
  };
  const draw = (/** @type {NoteRow[]} */ now) => list.replaceChildren(...now.map((one) =>
    el("li", {}, el("b", {}, say("card.design", { number: String(one.option) })), el("span", {}, one.text), el("span", { class: "quiet" }, one.voter),
      one.voter === page.voter ? button(say("study.noteTake"), () => void send(one.option, null, one.voter), { name: say("study.noteTakeOf", { number: String(one.option) }) }) : null)));
  draw(notes);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (option.number === null) return option.say(say("study.noteNumber"));
    if (text.value === "") return text.say(say("study.noteWords"));
    void send(option.number, text.value, page.voter);
  };
  const clear = () => [option, text].forEach((one) => one.say(""));
  return el("section", { class: "panel", "aria-label": say("study.notes") }, el("h2", {}, say("study.notesOn")),
    el("p", { class: "quiet" }, say("study.notesMean")), list,
    el("form", { class: "row", onsubmit: submit, oninput: clear, novalidate: true }, option.element, text.element, el("button", { class: "plain" }, say("study.noteIt"))));
}

/** @param {Page} page */
function past(page) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const file = new Field(say("study.file"), el("input", { type: "file", accept: ".csv,text/csv" }), { class: "long" });
  const columns = study.parameters.filter((one) => one.type !== "fixed").flatMap((one) => [`a.${one.name}`, `b.${one.name}`]);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const chosen = /** @type {HTMLInputElement} */ (file.input).files?.[0];
    if (chosen === undefined) return file.say(say("study.chooseFile"));
    try {
      const found = await post(at(study.id, "import"), { csv: await chosen.text(), voter: page.voter });
      const added = say("study.added", { comparisons: say("study.comparisons", { count: found.comparisons }), answers: say("history.count", { count: found.answers }) });
      page.say(sentences(added, found.skips ? say("study.skipped", { count: found.skips }) : ""), "good");
    } catch (error) {
      file.refuse(error);
    }
  };
  return el("section", { class: "panel", "aria-label": say("study.past") }, el("h2", {}, say("study.past")),
    el("p", { class: "quiet" }, say("study.pastMeans")),
    el("p", { class: "code columns-line" }, [...columns, "answer"].join(",")),
    el("form", { class: "row", onsubmit: (/** @type {Event} */ event) => void submit(event), oninput: () => file.say(""), novalidate: true }, file.element, el("button", { class: "plain" }, say("study.addThem"))));
}

/** @param {Page} page */
function naming(page) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const name = new Field(say("start.name"), el("input", { type: "text", maxlength: 200, value: study.name, autocomplete: "off" }), { name: say("study.nameOf"), class: "long" });
  const rename = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      await post(at(study.id, "rename"), { name: name.input.value, voter: page.voter });
      await page.open(study.id);
      page.say(say("study.renamed"), "good");
    } catch (error) {
      name.refuse(error);
    }
  };
  const remove = async () => {
    const { name: called } = /** @type {NonNullable<Page["study"]>} */ (page.study);
    if (!(await sure(say("start.deleteAsk", { name: called }), say("start.deleteYes"), say("start.deleteNo")))) return;
    try {
      await post(at(study.id, "delete"), { name: called });
      page.leave();
    } catch (error) {
      name.refuse(error);
    }
  };
  return el("section", { class: "panel naming", "aria-label": say("start.name") }, el("h2", {}, say("study.renameDelete")),
    el("form", { class: "row", onsubmit: (/** @type {Event} */ event) => void rename(event), oninput: () => name.say(""), novalidate: true }, name.element, el("button", { class: "plain" }, say("study.rename"))),
    el("p", {}, button(say("study.deleteThis"), () => void remove(), { kind: "plain danger" })));
}
