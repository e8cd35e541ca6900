/** The page: which study, which voter, which view. */

/** @import { Listing, News, Page, Role, Study, View } from "./types.js" */
import { compare } from "./compare.js";
import { button, el, problem } from "./elements.js";
import { byKey } from "./keys.js";
import { Refusal, get, langOf, retune, sentence, watch } from "./talk.js";
import { LANGUAGES, english, language, pieces, speak, text } from "./texts.js";

/** @import { Presence } from "./talk.js" */
/** @typedef {(page: Page, root: HTMLElement) => Promise<View>} Open */

/** @type {Role[]} */
const ROLES = ["viewer", "voter", "owner"];
/** @type {{id: "compare" | "best" | "team" | "history" | "model" | "export" | "study" | "start", open: Open, needsStudy: boolean, role?: Role, hasNoTab?: boolean, needsTeam?: boolean}[]} */
const VIEWS = [
  { id: "compare", open: compare, needsStudy: true, role: "voter" },
  { id: "best", open: later("best"), needsStudy: true },
  { id: "team", open: later("team"), needsStudy: true, needsTeam: true },
  { id: "history", open: later("history"), needsStudy: true },
  { id: "model", open: later("model"), needsStudy: true },
  { id: "export", open: later("export"), needsStudy: true },
  { id: "study", open: later("study"), needsStudy: true, role: "voter", hasNoTab: true },
  { id: "start", open: later("start"), needsStudy: false },
];

/**
 * A view whose module is fetched when it is first opened.
 * @param {string} name
 * @returns {Open}
 */
function later(name) {
  let tries = 0;
  return async (page, root) => {
    // A browser that failed to fetch a module does not try its address again.
    const module = await import(`/static/${name}.js${tries ? `?${tries}` : ""}`).catch(() => {
      tries += 1;
      throw new Refusal(text("page.noAnswer"), 0);
    });
    return module.open(page, root);
  };
}

/**
 * @template {HTMLElement} T
 * @param {string} id
 * @returns {T}
 */
function part(id) {
  return /** @type {T} */ (document.getElementById(id));
}

const main = part("view");
const status = part("status");
const address = new URL(location.href);
/** @type {View} */
let view = {};
let turn = 0;
let said = 0;
/** What was last heard of the study that is open. @type {{study: string, now: News} | null} */
let latest = null;
/** The study whose news are heard. */
let tuned = "";
let taken = "";
/** Whether the view could not be opened, so that it is opened again when the server is back. */
let failed = false;
/** Where those come in who were invited. */
const JOIN = "/join";
/** What went well is said so long, in milliseconds; what went wrong until something else is said. */
const LONG_ENOUGH = 6000;
/** What the database keeps from being opened is tried again after so many milliseconds. */
const AGAIN = 3000;

/** @type {Page} */
const page = {
  listing: /** @type {Listing} */ (/** @type {unknown} */ (null)),
  study: null,
  voter: address.searchParams.get("voter") ?? "me",
  status,
  say(words, kind) {
    clearTimeout(said);
    status.textContent = words;
    status.className = `status ${kind ?? ""}`;
    uncover();
    if (kind !== "bad") said = setTimeout(() => (status.textContent = ""), LONG_ENOUGH);
  },
  fail(error, words) {
    page.say("", "bad");
    status.append(...(words ? [words, " "] : []), el("span", { lang: langOf(error) }, sentence(error)));
    uncover();
  },
  go(wanted) {
    if (location.hash === `#${wanted}`) void show();
    else location.hash = wanted;
  },
  met(voters) {
    if (page.study === null || page.study.voters === voters) return;
    page.study.voters = voters;
    showTabs();
  },
  async open(id) {
    page.study = await get(`/api/studies/${id}`);
    remember(/** @type {Study} */ (page.study).name);
    showStudy();
  },
  leave() {
    const name = page.study?.name ?? "";
    page.study = null;
    remember("");
    showStudy();
    if (page.listing.has_key) return page.go("start");
    // Who was invited has nothing else here.
    view.leave?.();
    view = {};
    main.replaceChildren();
    showTabs();
    note(text("page.deleted", { name }));
  },
  may(role) {
    return page.study !== null && ROLES.indexOf(page.study.role) >= ROLES.indexOf(role);
  },
};

/** What is said stands at the foot of the page, or as far above it as no field is covered. */
function uncover() {
  status.style.translate = "";
  if (status.closest(".controls") || status.textContent === "") return;
  const { top, bottom, left, right } = status.getBoundingClientRect();
  const fields = [...main.querySelectorAll("input, select, textarea, label, button")].map((one) => one.getBoundingClientRect());
  const isFree = (/** @type {number} */ up) => !fields.some((one) => one.bottom > top - up && one.top < bottom - up && one.right > left && one.left < right);
  let up = 0;
  while (up < top && !isFree(up)) up += 8;
  if (up < top) status.style.translate = `0 ${-up}px`;
}

/**
 * The study and the voter stay in the address, so that a reload or a shared link finds them; the key does not.
 * @param {string | null} study
 */
function remember(study) {
  const url = new URL(location.href);
  url.searchParams.delete("token");
  if (study) url.searchParams.set("study", study);
  else if (study === "") url.searchParams.delete("study");
  history.replaceState(null, "", url);
}

function showStudy() {
  const name = page.study?.name ?? "kappasharp";
  // Who came by a link has the name that they chose.
  page.voter = page.study?.voter ?? address.searchParams.get("voter") ?? "me";
  // The name leads to what may be changed of the study.
  part("study-name").replaceChildren(page.may("voter") ? el("a", { href: "#study", title: text("page.aboutStudy") }, name) : name);
  part("invite").hidden = !page.may("owner");
  document.title = page.study === null ? "kappasharp" : `${name} · kappasharp`;
  warn();
  if (tuned !== (page.study?.id ?? "")) retune();
  tuned = page.study?.id ?? "";
  const who = part("who");
  const looking = page.study !== null && !page.may("voter");
  who.hidden = page.voter === "me" && !looking;
  const named = who.hidden ? [] : pieces("page.votingAs", { voter: el("b", {}, page.voter) });
  who.replaceChildren(...(looking ? [el("b", {}, text("page.lookingOn"))] : named));
}

/**
 * What stays in sight until it is over; no words take it away.
 * @param {string} words with code between backticks
 * @param {boolean} [served] whether they come from the server, and can be hidden
 */
function note(words, served = false) {
  const place = part("notice");
  const pieces = words.split("`").map((one, index) => (index % 2 ? el("code", {}, one) : one));
  place.replaceChildren(el("p", { lang: served ? english() : null }, ...pieces), ...(served ? [button(text("page.hide"), () => note(""), { kind: "corner" })] : []));
  place.hidden = words === "";
}

/** What is wrong with the study that is open. */
function warn() {
  note(page.study?.missing_renderer ?? "", true);
}

/** @param {Presence} now */
async function presence(now) {
  if (now === "deleted") return page.study === null ? undefined : deleted(page.study);
  if (now !== "here") return note(text(`page.${now}`));
  warn();
  if (page.listing === null) await begin();
  else if (failed) await show();
  page.say(text("page.back"), "good");
}

/**
 * Something happened in the study that is open: somebody answered, or gave it another name.
 * @param {Study} study
 * @param {News} now
 */
function heard(study, now) {
  if (page.study?.id !== study.id) return;
  latest = { study: study.id, now };
  view.news?.(now);
  page.met(now.voters);
  const before = page.study.name;
  if (now.name === before) return;
  page.study.name = now.name;
  remember(now.name);
  showStudy();
  page.say(text("page.renamed", { name: before, now: now.name }));
}

/** @param {Study} study */
function deleted(study) {
  if (page.study?.id !== study.id) return;
  page.leave();
  note(text("page.deleted", { name: study.name }));
}

/** Whether who looks may see a view. @param {(typeof VIEWS)[number]} one */
function isOpen(one) {
  return one.needsStudy ? page.study !== null && page.may(one.role ?? "viewer") : page.listing.has_key;
}

function current() {
  const open = VIEWS.filter(isOpen);
  return open.find((one) => `#${one.id}` === location.hash) ?? open[0] ?? VIEWS[VIEWS.length - 1];
}

function showTabs() {
  const chosen = current();
  const team = (page.study?.voters ?? 0) > 1;
  const links = VIEWS.filter((one) => !one.hasNoTab && isOpen(one) && (team || !one.needsTeam || one === chosen)).map((one) =>
    el("a", { href: `#${one.id}`, "aria-current": one === chosen ? "page" : null }, text(`view.${one.id}`)),
  );
  const tabs = part("views");
  tabs.replaceChildren(...links);
  // Where they do not all fit, the one that is open is in sight.
  const here = links.find((one) => one.hasAttribute("aria-current"));
  if (here !== undefined) tabs.scrollLeft = here.offsetLeft - tabs.clientWidth / 2;
}

async function show() {
  const chosen = current();
  const mine = ++turn;
  view.leave?.();
  view = {};
  page.say("");
  // What was asked over the view that is left is asked no more.
  for (const one of document.querySelectorAll("dialog")) one.close();
  showTabs();
  const root = el("div", { class: `view ${chosen.id}` });
  main.after(status);
  main.replaceChildren(root);
  failed = false;
  try {
    const opened = await chosen.open(page, root);
    if (mine !== turn) return opened.leave?.();
    view = opened;
    if (latest !== null && latest.study === page.study?.id) view.news?.(latest.now);
  } catch (error) {
    failed = true;
    root.append(problem(error));
    whenThere(error, () => mine === turn && failed && void show());
  }
}

/**
 * The server is there and its database is not: whoever puts that back need not come to this page too.
 * @param {unknown} error
 * @param {() => void} open
 */
function whenThere(error, open) {
  if (error instanceof Refusal && error.status === 503) setTimeout(open, AGAIN);
}

/** @param {KeyboardEvent} event */
function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || part("keys").hasAttribute("open")) return;
  taken = view.key?.(event) ? event.key : "";
  if (taken) keep(event);
}

/** Some browsers press a button when Space is let go. @param {KeyboardEvent} event */
function letGo(event) {
  if (event.key === taken) keep(event);
}

/** A key that was taken reaches nothing else: a player acts on it before any default is prevented. @param {KeyboardEvent} event */
function keep(event) {
  event.preventDefault();
  event.stopPropagation();
}

/** A study or a voter that the address names and that is not there is told; nothing is put in its place. */
function toldOfAddress() {
  const name = page.listing.unknown;
  if (name !== null) {
    main.replaceChildren(misled(text("page.noStudy", { name }), text("page.seeStudies"), { study: null }));
  } else if (page.voter.trim() === "") {
    main.replaceChildren(misled(text("page.noVoter"), text("page.voteNameless"), { voter: null }));
  } else return false;
  return true;
}

/**
 * @param {string} words
 * @param {string} remedy
 * @param {Record<string, null>} without what the address is better without
 */
function misled(words, remedy, without) {
  const url = new URL(location.href);
  for (const name of Object.keys(without)) url.searchParams.delete(name);
  if ("study" in without) url.hash = "start";
  return el("div", { class: "view" }, el("p", { class: "problem", role: "alert" }, words), el("p", {}, el("a", { href: url.href }, remedy)));
}

/** What the page itself says around every view. */
function showWords() {
  for (const one of document.querySelectorAll("[data-text]")) one.textContent = text(/** @type {"page.skip"} */ (one.getAttribute("data-text")));
  part("views").ariaLabel = text("page.views");
  const list = /** @type {HTMLSelectElement} */ (part("language"));
  list.ariaLabel = text("page.language");
  list.replaceChildren(...Object.entries(LANGUAGES).map(([code, { name, tag }]) => el("option", { value: code, lang: tag, selected: code === language() }, name)));
  list.hidden = false;
}

/** Somebody chose a language: it holds on this browser, whatever the address said. */
async function translate() {
  const list = /** @type {HTMLSelectElement} */ (part("language"));
  const url = new URL(location.href);
  url.searchParams.delete("lang");
  try {
    await speak(list.value);
  } catch {
    list.value = language();
    return page.say(text("page.noAnswer"), "bad");
  }
  history.replaceState(null, "", url);
  showWords();
  if (location.pathname === JOIN) return join();
  if (page.listing === null || toldOfAddress()) return;
  showStudy();
  await show();
}

/** Somebody came by a link. */
async function join() {
  const module = await import("./join.js");
  main.replaceChildren(await module.opened());
}

async function invite() {
  try {
    await (await import("./invite.js")).open(page);
  } catch (error) {
    page.fail(error);
  }
}

async function begin() {
  const asked = address.searchParams.get("study") ?? "";
  remember(null);
  try {
    page.listing = await get(`/api/studies?study=${encodeURIComponent(asked)}`);
    page.study = page.listing.study;
    if (toldOfAddress()) return;
    if (page.study !== null) remember(page.study.name);
  } catch (error) {
    main.replaceChildren(problem(error));
    whenThere(error, () => page.listing === null && void begin());
    return;
  }
  showStudy();
  await show();
  if (asked && page.study !== null && page.study.name !== asked) page.say(text("page.renamed", { name: asked, now: page.study.name }));
}

addEventListener("hashchange", () => {
  if (location.pathname === JOIN) return void join();
  void show().then(() => main.focus({ preventScroll: true }));
});
addEventListener("keydown", key, true);
addEventListener("keyup", letGo, true);
addEventListener("blur", () => {
  // A click inside a user's page takes the keys with it.
  const words = document.activeElement?.tagName === "IFRAME" ? byKey(text("page.keysInPicture")) : "";
  if (words) page.say(words);
});
part("language").addEventListener("change", () => void translate());
part("invite").addEventListener("click", () => void invite());
if (location.pathname !== JOIN) watch({ study: () => page.study, presence: (now) => void presence(now), news: heard, deleted });
// Where its file does not come, the page speaks English.
void speak().catch((error) => console.info(sentence(error))).then(() => {
  showWords();
  return location.pathname === JOIN ? join() : begin();
});
