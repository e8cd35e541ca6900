/** Talking to the server, and to no one else. */

/** @import { Pair } from "./types.js" */

export class Refusal extends Error {
  /**
   * @param {string} sentence
   * @param {number} status 0 where no answer came at all
   * @param {Pair | null} pair
   */
  constructor(sentence, status, pair = null) {
    super(sentence);
    this.status = status;
    this.pair = pair;
  }
}

const GONE = "The server does not answer. If it was stopped, start it again and open the link that it prints.";

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
    throw new Refusal(GONE, 0);
  }
  const text = await answer.text();
  if (answer.ok) return JSON.parse(text);
  /** @type {{error?: string, pair?: Pair}} */
  let told = {};
  try {
    told = JSON.parse(text);
  } catch {
    told = { error: text };
  }
  throw new Refusal(told.error ?? `The server answered ${answer.status}.`, answer.status, told.pair ?? null);
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
