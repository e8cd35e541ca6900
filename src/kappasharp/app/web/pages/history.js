/** History: every answer, to look at, turn round, take out or ask again. Each change is one more event. */

/** @import { Page, Past, Row, Standing, View } from "./types.js" */
import { thumbnail } from "./cards.js";
import { button, duration, el, shown } from "./elements.js";
import { at, get, post, sentence } from "./talk.js";

const WORDS = { a: "A better", b: "B better", tie: "can’t tell", skip: "skipped" };
const AT_ONCE = 50;

/**
 * @param {Page} page
 * @param {HTMLElement} root
 * @returns {Promise<View>}
 */
export async function open(page, root) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const title = el("h1", {}, "History");
  const body = el("div", {});
  root.append(title, body);

  /** @param {number} most */
  async function draw(most) {
    /** @type {Past} */
    const past = await get(at(study.id, "history"));
    title.textContent = past.rows.length === 1 ? "1 answer" : `${past.rows.length} answers`;
    const rows = past.rows.slice(0, most).map((one) => row(one, past));
    body.replaceChildren(
      past.rows.length
        ? table(rows)
        : el("p", { class: "empty" }, "No answers yet. Each one will stand here, with what can be done about it."),
      past.rows.length > most ? button(`Show ${past.rows.length - most} earlier ones`, () => void draw(Infinity)) : "",
    );
    if (past.cycle.length > 2) body.prepend(note(`Answers go in a circle: ${[...past.cycle, past.cycle[0]].map((one) => `#${one}`).join(" over ")}.`));
    if (past.queue) body.prepend(note(past.queue === 1 ? "One pair waits to be asked." : `${past.queue} pairs wait to be asked.`));
    void markSurprises();
  }

  async function markSurprises() {
    try {
      /** @type {Standing} */
      const { surprises } = await get(at(study.id, "standing"));
      for (const event of surprises) {
        body.querySelector(`[data-event="${event}"] .flags`)?.append(el("span", { class: "flag" }, "surprised the model"));
      }
    } catch (error) {
      page.say(sentence(error), "bad");
    }
  }

  /**
   * @param {string} what
   * @param {object} data
   * @param {string} done
   */
  async function change(what, data, done) {
    try {
      await post(at(study.id, what), { ...data, voter: page.voter });
      await draw(AT_ONCE);
      page.say(done, "good");
    } catch (error) {
      page.say(sentence(error), "bad");
    }
  }

  /**
   * @param {Row} one
   * @param {Past} past
   */
  function row(one, past) {
    const [a, b] = one.options;
    const turned = one.answer === "a" ? "b" : "a";
    const flags = one.contradicts.map((other) => el("span", { class: "flag bad" }, `contradicts answer ${other}`));
    if (one.amended) flags.push(el("span", { class: "flag" }, "changed later"));
    if (one.origin === "elsewhere") flags.push(el("span", { class: "flag" }, "from elsewhere"));
    return el(
      "tr",
      { "data-event": one.event },
      el("th", { scope: "row" }, one.event),
      side(a, "A", one.answer === "a", past),
      side(b, "B", one.answer === "b", past),
      el("td", { class: "said" }, el("b", {}, WORDS[one.answer]), el("span", { class: "flags" }, ...flags)),
      el("td", { "data-label": "Voter" }, one.voter),
      el("td", { "data-label": "Thought for" }, duration(one.seconds)),
      el("td", { class: "actions" },
        button("Flip", () => change("amend", { event: one.event, answer: turned }, `Answer ${one.event} is turned round.`),
          { name: `Flip answer ${one.event}`, disabled: one.answer === "tie" || one.answer === "skip" }),
        button("Delete", () => change("amend", { event: one.event, answer: null }, `Answer ${one.event} counts no more.`),
          { name: `Delete answer ${one.event}` }),
        button("Ask again", () => change("again", { pair: one.pair }, "The pair will be asked again, after the one that is open."),
          { name: `Ask the pair of answer ${one.event} again`, disabled: one.pair === null })),
    );
  }

  /**
   * @param {number} option
   * @param {string} letter
   * @param {boolean} won
   * @param {Past} past
   */
  function side(option, letter, won, past) {
    const values = study.parameters.filter((one) => one.type !== "fixed").map((one) => `${one.name} ${shown(past.options[option][one.name])}`);
    return el(
      "td",
      { class: `side ${won ? "won" : ""}`, "data-label": letter },
      thumbnail(page, option),
      el("span", { class: "design" }, values.join(" · ")),
      won ? el("span", { class: "unseen" }, "preferred") : null,
    );
  }

  await draw(AT_ONCE);
  return {};
}

/** @param {HTMLElement[]} rows */
function table(rows) {
  const heads = ["#", "A", "B", "Answer", "Voter", "Thought for"].map((one) => el("th", { scope: "col" }, one));
  return el(
    "div",
    { class: "panel scroll", tabindex: "0", role: "region", "aria-label": "Answers" },
    el("table", { class: "history" },
      el("thead", {}, el("tr", {}, ...heads, el("th", { scope: "col" }, el("span", { class: "unseen" }, "Changes")))),
      el("tbody", {}, ...rows)),
  );
}

/** @param {string} words */
function note(words) {
  return el("p", { class: "note" }, words);
}
