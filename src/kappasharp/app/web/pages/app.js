/** The page: which study, which voter, which view. */

/** @import { Listing, Page, Study, View } from "./types.js" */
import { compare } from "./compare.js";
import { el } from "./elements.js";
import { byKey } from "./keys.js";
import { get, sentence } from "./talk.js";

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
  return async (page, root) => (await import(`/static/${name}.js`)).open(page, root);
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
  const who = part("who");
  who.hidden = page.voter === "me";
  who.textContent = page.voter === "me" ? "" : `Voting as ${page.voter}`;
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
  try {
    const opened = await chosen.open(page, root);
    if (mine === turn) view = opened;
    else opened.leave?.();
  } catch (error) {
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

async function begin() {
  remember(null);
  try {
    const named = encodeURIComponent(address.searchParams.get("study") ?? "");
    page.listing = await get(`/api/studies?study=${named}`);
    page.study = page.listing.study;
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
void begin();
