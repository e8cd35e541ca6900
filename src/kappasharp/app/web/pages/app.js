/** The page: which study, which voter, which view. */

/** @import { Listing, Page, Study, View } from "./types.js" */
import { compare } from "./compare.js";
import { button, el } from "./elements.js";
import { byKey } from "./keys.js";
import { GONE, Refusal, get, sentence, watch } from "./talk.js";

/** @typedef {(page: Page, root: HTMLElement) => Promise<View>} Open */

/** @type {{id: string, label: string, open: Open, needsStudy: boolean}[]} */
const VIEWS = [
  { id: "compare", label: "Compare", open: compare, needsStudy: true },
  { id: "best", label: "Best so far", open: later("best"), needsStudy: true },
  { id: "history", label: "History", open: later("history"), needsStudy: true },
  { id: "model", label: "Model", open: later("model"), needsStudy: true },
  { id: "export", label: "Export", open: later("export"), needsStudy: true },
  { id: "start", label: "Start", open: later("start"), needsStudy: false },
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
      throw new Refusal(GONE, 0);
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
let taken = "";
/** Whether the view could not be opened, so that it is opened again when the server is back. */
let failed = false;
/** What went well is said so long, in milliseconds; what went wrong until something else is said. */
const LONG_ENOUGH = 6000;

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
    if (kind !== "bad") said = setTimeout(() => (status.textContent = ""), LONG_ENOUGH);
  },
  go(wanted) {
    if (location.hash === `#${wanted}`) void show();
    else location.hash = wanted;
  },
  async open(id) {
    page.study = await get(`/api/studies/${id}`);
    remember(/** @type {Study} */ (page.study).name);
    showStudy();
  },
};

/**
 * The study and the voter stay in the address, so that a reload or a shared link finds them; the key does not.
 * @param {string | null} study
 */
function remember(study) {
  const url = new URL(location.href);
  url.searchParams.delete("token");
  if (study !== null) url.searchParams.set("study", study);
  history.replaceState(null, "", url);
}

function showStudy() {
  const name = page.study?.name ?? "kappasharp";
  part("study-name").textContent = name;
  document.title = page.study === null ? "kappasharp" : `${name} · kappasharp`;
  note(page.study?.missing_renderer ?? "", true);
  const who = part("who");
  who.hidden = page.voter === "me";
  who.textContent = page.voter === "me" ? "" : `Voting as ${page.voter}`;
}

const LASTING = {
  gone: "The server does not answer: it was stopped, or it cannot be reached from here. Every answer that was saved is stored. Start it again with `kappasharp serve`; this page then goes on by itself.",
  locked: "The server was started again with another key. Open the link that it printed.",
};

/**
 * What stays in sight until it is over; no words take it away.
 * @param {string} words with code between backticks
 * @param {boolean} [hideable]
 */
function note(words, hideable = false) {
  const place = part("notice");
  const pieces = words.split("`").map((one, index) => (index % 2 ? el("code", {}, one) : one));
  place.replaceChildren(el("p", {}, ...pieces), ...(hideable ? [button("Hide", () => note(""), { kind: "corner" })] : []));
  place.hidden = words === "";
}

/** @param {"here" | "gone" | "locked"} now */
async function presence(now) {
  if (now !== "here") return note(LASTING[now]);
  note(page.study?.missing_renderer ?? "", true);
  if (page.listing === null) await begin();
  else if (failed) await show();
  page.say("The server is back.", "good");
}

function current() {
  const wanted = VIEWS.find((one) => `#${one.id}` === location.hash);
  if (wanted !== undefined && (page.study !== null || !wanted.needsStudy)) return wanted;
  return page.study === null ? VIEWS[VIEWS.length - 1] : VIEWS[0];
}

function showTabs() {
  const chosen = current();
  const links = VIEWS.filter((one) => page.study !== null || !one.needsStudy).map((one) =>
    el("a", { href: `#${one.id}`, "aria-current": one === chosen ? "page" : null }, one.label),
  );
  part("views").replaceChildren(...links);
}

async function show() {
  const chosen = current();
  const mine = ++turn;
  view.leave?.();
  view = {};
  page.say("");
  showTabs();
  const root = el("div", { class: `view ${chosen.id}` });
  main.after(status);
  main.replaceChildren(root);
  failed = false;
  try {
    const opened = await chosen.open(page, root);
    if (mine === turn) view = opened;
    else opened.leave?.();
  } catch (error) {
    failed = true;
    root.append(el("p", { class: "problem", role: "alert" }, sentence(error)));
  }
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
    main.replaceChildren(problem(`There is no study called “${name}” here; it may be in another database, or have another name by now.`, "See the studies there are", { study: null }));
  } else if (page.voter.trim() === "") {
    main.replaceChildren(problem("This link names a voter without a name. Put a name after “voter=”, such as voter=anna, or vote without one.", "Vote without a name", { voter: null }));
  } else return false;
  return true;
}

/**
 * @param {string} words
 * @param {string} remedy
 * @param {Record<string, null>} without what the address is better without
 */
function problem(words, remedy, without) {
  const url = new URL(location.href);
  for (const name of Object.keys(without)) url.searchParams.delete(name);
  if ("study" in without) url.hash = "start";
  return el("div", { class: "view" }, el("p", { class: "problem", role: "alert" }, words), el("p", {}, el("a", { href: url.href }, remedy)));
}

async function begin() {
  remember(null);
  try {
    const named = encodeURIComponent(address.searchParams.get("study") ?? "");
    page.listing = await get(`/api/studies?study=${named}`);
    page.study = page.listing.study;
    if (toldOfAddress()) return;
    if (page.study !== null) remember(page.study.name);
  } catch (error) {
    main.replaceChildren(el("p", { class: "problem", role: "alert" }, sentence(error)));
    return;
  }
  showStudy();
  await show();
}

addEventListener("hashchange", () => {
  void show().then(() => main.focus({ preventScroll: true }));
});
addEventListener("keydown", key, true);
addEventListener("keyup", letGo, true);
addEventListener("blur", () => {
  // A click inside a user's page takes the keys with it.
  const words = document.activeElement?.tagName === "IFRAME" ? byKey("The keys are in the picture now. A click on the question above it brings them back.") : "";
  if (words) page.say(words);
});
watch((now) => void presence(now));
void begin();
