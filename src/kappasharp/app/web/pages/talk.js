/** Talking to the server, and to no one else. */

/** @import { Pair, Study } from "./types.js" */
import { english, text } from "./texts.js";

export class Refusal extends Error {
  /**
   * @param {string} sentence
   * @param {number} status 0 where no answer came at all
   * @param {Pair | null} pair
   * @param {boolean} served whether the sentence is the server's
   * @param {string} why the question took no answer, where there is another pair; or why a link lets nobody in
   */
  constructor(sentence, status, pair = null, served = false, why = "answered") {
    super(sentence);
    this.status = status;
    this.pair = pair;
    this.served = served;
    this.why = why;
  }
}

/** @typedef {"here" | "gone" | "locked" | "revoked" | "deleted"} Presence whether the server answers and lets us in; or why no longer */
/** A page that nobody does anything on listens for the server so often, in milliseconds; and so long for one answer. */
const BEAT = 4000;
const PATIENCE = 15000;
/** @type {Presence} */
let presence = "here";
/** @type {(now: Presence) => void} */
let tell = () => {};
/** @type {() => Study | null} */
let shown = () => null;
/** @type {(study: Study, name: string) => void} */
let rename = () => {};
let next = 0;

/**
 * @param {number} status that of an answer; 0 where none came
 * @param {string} [why] the server lets us in no longer
 */
function heard(status, why) {
  const shut = why === "revoked" || why === "deleted" ? why : "locked";
  const now = status === 0 ? "gone" : status === 401 ? shut : "here";
  if (now === presence) return;
  presence = now;
  tell(now);
}

async function beat() {
  clearTimeout(next);
  if (document.hidden) return;
  const study = shown();
  try {
    const answer = await fetch(`/api/alive?study=${study?.id ?? ""}`, { credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
    const told = toldBy(await answer.text());
    heard(answer.status, told.why);
    if (study !== null && answer.ok && typeof told.name === "string" && told.name !== study.name) rename(study, told.name);
  } catch {
    heard(0);
  }
  next = setTimeout(beat, BEAT);
}

/**
 * Be told when the server goes and when it is back, and when the study got another name; a page that is hidden asks nothing.
 * @param {(now: Presence) => void} listener
 * @param {() => Study | null} open the study on the page
 * @param {(study: Study, name: string) => void} renamed
 */
export function watch(listener, open, renamed) {
  [tell, shown, rename] = [listener, open, renamed];
  document.addEventListener("visibilitychange", () => void beat());
  addEventListener("online", () => void beat());
  next = setTimeout(beat, BEAT);
}

/**
 * What an answer says, also where it is a sentence alone.
 * @param {string} body
 * @returns {{error?: string, pair?: Pair, why?: string, name?: string}}
 */
function toldBy(body) {
  try {
    return JSON.parse(body);
  } catch {
    return { error: body };
  }
}

/**
 * @param {string} path
 * @param {RequestInit} options
 * @returns {Promise<any>}
 */
async function request(path, options) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    heard(0);
    throw new Refusal(text("page.noAnswer"), 0);
  }
  const body = await answer.text();
  if (answer.ok) {
    heard(answer.status);
    return JSON.parse(body);
  }
  const told = toldBy(body);
  heard(answer.status, told.why);
  throw new Refusal(told.error ?? text("page.status", { status: String(answer.status) }), answer.status, told.pair ?? null, told.error !== undefined, told.why);
}

/** @param {string} path */
export function get(path) {
  return request(path, {});
}

/**
 * @param {string} path
 * @param {unknown} data
 */
export function post(path, data) {
  const headers = { "content-type": "application/json", "x-kappasharp": "1" };
  return request(path, { method: "POST", headers, body: JSON.stringify(data) });
}

/**
 * The address of something about a study.
 * @param {string} study
 * @param {string} rest
 */
export function at(study, rest) {
  return `/api/studies/${study}/${rest}`;
}

/**
 * A refusal in words.
 * @param {unknown} error
 */
export function sentence(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * The language of a refusal, where it is not that of the page: what the server and the browser say is English.
 * @param {unknown} error
 */
export function langOf(error) {
  return error instanceof Refusal && !error.served ? null : english();
}
