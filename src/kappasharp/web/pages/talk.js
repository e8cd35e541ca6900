/** Talking to the server, and to no one else. */

/** @import { News, Pair, Said, Study, View } from "./types.js" */
import { english, spoken, text } from "./texts.js";

export class Refusal extends Error {
  /**
   * @param {string} sentence
   * @param {number} status 0 where no answer came at all
   * @param {Pair | null} pair
   * @param {boolean} served whether the sentence is the server's own, in English
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
/**
 * What is told of the server and of the study on the page.
 * @typedef {object} Listener
 * @property {() => Study | null} study the one on the page
 * @property {(now: Presence) => void} presence the server went, or is back
 * @property {(study: Study, now: News) => void} news something happened in the study
 * @property {(study: Study) => void} deleted it is gone
 */
/** In milliseconds: a server that says nothing for so long is gone, and it is tried again so soon; one that refused, later. */
const SILENCE = 10000;
const AGAIN = 1000;
const LATER = 4000;
/** @type {Presence} */
let presence = "here";
/** @type {Listener | null} */
let listener = null;
/** What ends the stream that is open. */
let stream = new AbortController();
/** What ends a pause before the next. */
let hurry = () => {};

/**
 * @param {number} status that of an answer; 0 where none came
 * @param {string} [why] the server lets us in no longer
 */
function heard(status, why) {
  const shut = why === "revoked" || why === "deleted" ? why : "locked";
  const now = status === 0 ? "gone" : status === 401 ? shut : "here";
  if (now === presence) return;
  presence = now;
  listener?.presence(now);
}

/**
 * Be told when the server goes and when it is back, and what others do to the study on the page. One stream tells all of it; a page that is
 * hidden holds none, for a browser has only six connections to a server.
 * @param {Listener} given
 */
export function watch(given) {
  listener = given;
  document.addEventListener("visibilitychange", retune);
  addEventListener("online", retune);
  void follow(given);
}

/** Listen anew: to another study, or since the page is in sight again. */
export function retune() {
  stream.abort();
  hurry();
}

/** @param {number} milliseconds */
function pause(milliseconds) {
  return new Promise((done) => {
    hurry = () => done(undefined);
    setTimeout(done, milliseconds);
  });
}

/** @param {Listener} to */
async function follow(to) {
  for (;;) {
    while (document.hidden) await pause(LATER);
    const study = to.study();
    const mine = (stream = new AbortController());
    let status = 0;
    try {
      status = await hear(study, mine, to);
    } catch {
      // No answer; or one was there and ended, as when the server stops.
    }
    if (mine.signal.aborted && mine.signal.reason === SILENCE) status = 0;
    else if (mine.signal.aborted) continue;
    if (status === 404 && study !== null) to.deleted(study);
    // A stream that was open has just ended: whether the server has too, the next try tells.
    else if (status === 0) heard(0);
    await pause(status === 200 ? 0 : status === 0 ? AGAIN : LATER);
  }
}

/**
 * Hear one stream to its end; its status.
 * @param {Study | null} study
 * @param {AbortController} mine
 * @param {Listener} to
 */
async function hear(study, mine, to) {
  let silent = setTimeout(() => mine.abort(SILENCE), SILENCE);
  try {
    const answer = await fetch(`/api/news?study=${study?.id ?? ""}`, { credentials: "same-origin", cache: "no-store", signal: mine.signal });
    if (!answer.ok || answer.body === null) {
      heard(answer.status, toldBy(await answer.text()).why);
      return answer.status;
    }
    heard(answer.status);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read().catch(() => ({ done: true, value: "" }));
      if (done) return answer.status;
      clearTimeout(silent);
      silent = setTimeout(() => mine.abort(SILENCE), SILENCE);
      const messages = (text + value).split("\n\n");
      text = messages.pop() ?? "";
      for (const one of messages) if (study !== null && !told(study, one, to)) return 404;
    }
  } finally {
    clearTimeout(silent);
  }
}

/**
 * One message of a stream; whether the study is still there.
 * @param {Study} study
 * @param {string} message
 * @param {Listener} to
 */
function told(study, message, to) {
  if (message.startsWith("event: deleted")) return false;
  if (message.startsWith("data: ")) to.news(study, JSON.parse(message.slice("data: ".length)));
  return true;
}

/** A view spends no more than every so manieth moment on what others change. */
const REST = 4;

/**
 * Draws again when others changed something: one time after the other, however often they do.
 * @param {() => Promise<void>} draw
 */
export function redrawing(draw) {
  let [wanted, busy, gone] = [false, false, false];
  async function run() {
    busy = true;
    while (wanted && !gone) {
      wanted = false;
      const begun = performance.now();
      // What is there stays; what keeps the rest from coming is told elsewhere.
      await draw().catch((error) => console.info(sentence(error)));
      await new Promise((done) => setTimeout(done, Math.min(REST * (performance.now() - begun), LATER)));
    }
    busy = false;
  }
  return {
    ask() {
      wanted = true;
      if (!busy) void run();
    },
    end() {
      gone = true;
    },
  };
}

/**
 * A view that draws itself again when there is news of what it shows.
 * @param {() => Promise<void>} draw
 * @param {() => number} drawn up to which event it shows the study
 * @returns {View}
 */
export function following(draw, drawn) {
  const again = redrawing(draw);
  return {
    news: (now) => {
      if (now.since > drawn()) again.ask();
    },
    leave: () => again.end(),
  };
}

/**
 * What an answer says, also where it is a sentence alone.
 * @param {string} body
 * @returns {{error?: string, said?: Said, pair?: Pair, why?: string, name?: string}}
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
  const refusal = refusalOf(answer.status, body);
  heard(answer.status, toldBy(body).why);
  throw refusal;
}

/**
 * What the server refused, in the words of the page's language where it has some.
 * @param {number} status
 * @param {string} body
 */
export function refusalOf(status, body) {
  const told = toldBy(body);
  const said = told.said ?? told.error;
  const { words, lang } = said === undefined ? { words: text("page.status", { status: String(status) }), lang: null } : spoken(said);
  return new Refusal(words, status, told.pair ?? null, lang !== null, told.why);
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
