/** History: every answer, to look at, turn round, take out or ask again. Each change is one more event. */

/** @import { Page, Past, Row, Standing, View } from "./types.js" */
import { thumbnail } from "./cards.js";
import { button, duration, el, shown } from "./elements.js";
import { at, get, post, sentence } from "./talk.js";
import { answerWords } from "./wording.js";

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
    if (past.queue) body.prepend(note(past.queue === 1 ? "One question waits to be asked." : `${past.queue} questions wait to be asked.`));
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
    const flags = one.contradicts.map((other) => el("span", { class: "flag bad" }, `contradicts answer ${other}`));
    if (one.amended) flags.push(el("span", { class: "flag" }, "changed later"));
    if (one.origin === "elsewhere") flags.push(el("span", { class: "flag" }, "from elsewhere"));
    const turned = turnedRound(one);
    const flip = () => change("amend", { event: one.event, answer: turned }, `Answer ${one.event} is turned round.`);
    return el(
      "tr",
      { "data-event": one.event },
      el("th", { scope: "row" }, one.event),
      ...(one.kind === "pair" || one.kind === "rating" ? sides(one, past) : [several(one, past)]),
      el("td", { class: "said" }, el("b", {}, said(one)), el("span", { class: "flags" }, ...flags)),
      el("td", { "data-label": "Voter" }, one.voter),
      el("td", { "data-label": "Thought for" }, duration(one.seconds)),
      el("td", { class: "actions" },
        button("Flip", flip, { name: `Flip answer ${one.event}`, disabled: turned === null }),
        button("Delete", () => change("amend", { event: one.event, answer: null }, `Answer ${one.event} counts no more.`),
          { name: `Delete answer ${one.event}` }),
        button("Ask again", () => change("again", { pair: one.pair }, "The question will be asked again, after the one that is open."),
          { name: `Ask the question of answer ${one.event} again`, disabled: one.pair === null })),
    );
  }

  /**
   * The two designs of a pair or a rating.
   * @param {Row} one
   * @param {Past} past
   */
  function sides(one, past) {
    const [a, b] = one.options;
    const rated = typeof one.answer === "number" ? one.answer : 0;
    return [side(a, "A", one.answer === "a" || rated > 0, past), side(b, "B", one.answer === "b" || rated < 0, past)];
  }

  /**
   * The designs of a choice or an order, the best first where that was said; or the place of a slider.
   * @param {Row} one
   * @param {Past} past
   */
  function several(one, past) {
    const { groups, rest } = inOrder(one);
    const first = one.answer === "skip" ? -1 : 0;
    const tiles = groups.flatMap((group, rank) => group.map((index, nth) => {
      const option = one.options[index];
      const joint = one.kind === "order" && (rank || nth) ? el("span", { class: "joint" }, !nth ? ">" : rank === rest ? "·" : "=") : null;
      return el("span", { class: rank === first ? "won" : null, title: values(option, past) }, joint, thumbnail(page, option),
        rank === first ? el("span", { class: "unseen" }, "the best") : null);
    }));
    const words = one.kind === "slider" && tiles.length ? el("span", { class: "design" }, values(one.options[0], past)) : null;
    return el("td", { colspan: 2, class: "several" }, el("div", {}, ...tiles, words));
  }

  /**
   * @param {number} option
   * @param {Past} past
   */
  function values(option, past) {
    return study.parameters.filter((one) => one.type !== "fixed").map((one) => `${one.name} ${shown(past.options[option][one.name])}`).join(" · ");
  }

  /**
   * @param {number} option
   * @param {string} letter
   * @param {boolean} won
   * @param {Past} past
   */
  function side(option, letter, won, past) {
    return el(
      "td",
      { class: `side ${won ? "won" : ""}`, "data-label": letter },
      thumbnail(page, option),
      el("span", { class: "design" }, values(option, past)),
      won ? el("span", { class: "unseen" }, "preferred") : null,
    );
  }

  await draw(AT_ONCE);
  return {};
}

/**
 * The designs of an answer by their places in the question, those it puts first in front; which group has no order.
 * @param {Row} one
 * @returns {{groups: number[][], rest: number}}
 */
function inOrder(one) {
  const all = one.options.map((_, index) => index);
  if (one.kind === "choice" && typeof one.answer === "number") return { groups: [[one.answer], all.filter((index) => index !== one.answer)], rest: 1 };
  if (!Array.isArray(one.answer)) return { groups: [all], rest: 0 };
  const named = one.answer.map((group) => (Array.isArray(group) ? group : [group]));
  const rest = all.filter((index) => !named.flat().includes(index));
  return { groups: rest.length ? [...named, rest] : named, rest: named.length };
}

/** @param {Row} one */
function said(one) {
  if (one.answer === "skip") return "skipped";
  if (one.kind === "choice") return `the best of ${one.options.length}`;
  if (!Array.isArray(one.answer)) return answerWords(one.kind, one.answer);
  const named = one.answer.flat().length;
  return named < one.options.length - 1 ? `top ${named} of ${one.options.length}` : `order of ${one.options.length}`;
}

/**
 * The opposite of an answer, where there is one.
 * @param {Row} one
 */
function turnedRound(one) {
  if (one.kind === "rating" && typeof one.answer === "number") return one.answer === 0 ? null : -one.answer;
  return one.answer === "a" ? "b" : one.answer === "b" ? "a" : null;
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
