/** Coming in by a link: where it leads, under which name, and why it lets nobody in where it does not. */

/** @import { Role } from "./types.js" */
import { button, el, problem } from "./elements.js";
import { Field } from "./fields.js";
import { Refusal, post } from "./talk.js";
import { text } from "./texts.js";

/** @typedef {{study: string | null, role: Role, already: {role: Role, name: string | null} | null}} Opened */
/** @type {Role[]} */
const ROLES = ["viewer", "voter", "owner"];
/** Why a link lets nobody in, where this page says it in its own words. */
const WHYS = /** @type {const} */ (["unknown", "revoked", "deleted", "taken", "full"]);

/** What is shown to somebody who came by the link in the address. */
export async function opened() {
  // What stands after the # is sent to no server by the browser: this page sends it, in the body of a request.
  const secret = location.hash.slice(1);
  const root = el("div", { class: "view join" });
  try {
    /** @type {Opened} */
    const found = await post("/api/invited", { secret });
    if (found.study === null) await enter(secret, null);
    else root.append(card(secret, found, found.study));
  } catch (error) {
    root.append(el("h1", {}, "kappasharp"), refusal(error));
  }
  return root;
}

/**
 * Come in, and leave the link behind.
 * @param {string} secret
 * @param {string | null} name
 */
async function enter(secret, name) {
  /** @type {{study: string | null}} */
  const { study } = await post("/api/join", { secret, name });
  goOn(study);
}

/** @param {string | null} study */
function goOn(study) {
  const search = new URLSearchParams(location.search);
  if (study !== null) search.set("study", study);
  location.replace(`/?${search}`);
}

/**
 * @param {string} secret
 * @param {Opened} found
 * @param {string} study
 */
function card(secret, found, study) {
  const { role, already } = found;
  const title = el("h1", {}, text("join.title", { name: study }));
  if (already !== null && ROLES.indexOf(already.role) >= ROLES.indexOf(role)) {
    const words = already.name === null ? text(already.role === "owner" ? "join.ownsAlready" : "join.looksAlready") : text("join.already", { name: already.name });
    return el("section", { class: "panel" }, title, el("p", {}, words), el("p", {}, button(text("join.goOn"), () => goOn(study), { kind: "choice a" })));
  }
  const input = el("input", { type: "text", maxlength: 100, autocomplete: "nickname", autofocus: true });
  const name = role === "viewer" || already?.name ? null : new Field(text("join.name"), input, { class: "long", hint: text("join.nameMeans") });
  const fault = el("div", { "aria-live": "polite" });
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (name?.value === "") return name.say(text("join.needsName"));
    try {
      await enter(secret, name?.value ?? null);
    } catch (error) {
      if (name !== null && error instanceof Refusal && error.why === "taken") name.say(text("join.taken", { name: name.value }));
      else if (name !== null && isNameless(error)) name.refuse(error);
      else fault.replaceChildren(refusal(error));
    }
  };
  return el("form", { class: "panel", onsubmit: (/** @type {Event} */ event) => void submit(event), oninput: () => name?.say(""), novalidate: true },
    title, el("p", {}, text(`join.as.${role}`)), name?.element, fault,
    el("p", {}, el("button", { class: "choice a" }, text(role === "viewer" ? "join.look" : "join.begin"))));
}

/**
 * Whether it is the name that is wrong.
 * @param {unknown} error
 */
function isNameless(error) {
  return error instanceof Refusal && error.status === 400 && reasonOf(error) === undefined;
}

/** @param {unknown} error */
function reasonOf(error) {
  return WHYS.find((one) => error instanceof Refusal && error.why === one);
}

/** @param {unknown} error */
function refusal(error) {
  const why = reasonOf(error);
  if (location.hash.length < 2) return el("p", { class: "problem", role: "alert" }, text("join.bare"));
  if (why === undefined || why === "taken") return problem(error);
  return el("p", { class: "problem", role: "alert" }, text(`join.${why}`));
}
