/** The user's own picture, page, sound or film of a design. */

/** @import { Card, Page } from "./types.js" */
import { button, el } from "./elements.js";
import { at, get, langOf, post, sentence } from "./talk.js";
import { english, text } from "./texts.js";

/**
 * The element that shows an option, once it can be painted at once.
 * @param {Page} page
 * @param {number | null} option null for a place of a line, whose card is drawn
 * @param {Card} card
 * @param {string} name what a screen reader says
 * @param {string} [values] and what it adds of a picture that does not say itself what it shows
 * @param {boolean} [blind] whether the values are hidden now
 * @returns {Promise<HTMLElement | null>}
 */
export async function media(page, option, card, name, values = "", blind = false) {
  const study = page.study;
  if (study === null || card.kind === "none") return null;
  if (card.kind === "pending") {
    try {
      return await media(page, option, await get(at(study.id, `card/${option}`)), name, values, blind);
    } catch (error) {
      return failure(sentence(error), langOf(error));
    }
  }
  if (card.kind === "failed") return retriable(page, card, (again) => media(page, option, again, name, values, blind));
  const made = await element(card.kind, at(study.id, `${card.kind === "html" ? "frame" : "picture"}/${card.key}`));
  Object.assign(made.dataset, { name, shows: card.description, values });
  nameMedia(made, blind);
  return made;
}

/**
 * @param {Card["kind"]} kind
 * @param {string} address
 * @returns {HTMLElement | Promise<HTMLElement>}
 */
function element(kind, address) {
  if (kind === "image") return image(address);
  if (kind === "html") return el("iframe", { class: "media", sandbox: "allow-scripts", src: address });
  /** @type {HTMLMediaElement} */
  const player = kind === "audio"
    ? el("audio", { class: "media", controls: true, preload: "auto", src: address })
    : el("video", { class: "media", controls: true, loop: true, muted: true, playsinline: true, preload: "auto", src: address });
  // An attribute mutes only what the parser makes.
  player.muted = kind === "video";
  player.addEventListener("error", () => player.replaceWith(failure(text("card.cannotPlay"))));
  // Of two that can be heard, one plays at a time.
  player.addEventListener("play", () => {
    for (const other of document.querySelectorAll("audio, video")) {
      if (other instanceof HTMLMediaElement && other !== player && !other.muted && !player.muted) other.pause();
    }
  });
  // Its controls would keep every key that comes after a click on them; who came by Tab stays there.
  player.addEventListener("focus", () => setTimeout(() => player.matches(":focus-visible") || player.blur()));
  return player;
}

/**
 * What cannot be played may have failed before it had a place to say so.
 * @param {HTMLElement} within
 */
export function tellUnplayable(within) {
  for (const player of within.querySelectorAll("audio, video")) {
    if (player instanceof HTMLMediaElement && player.error !== null) player.replaceWith(failure(text("card.cannotPlay")));
  }
}

/**
 * What a screen reader says of a picture: what it shows, or else the values, unless they are hidden.
 * @param {Element} made
 * @param {boolean} blind
 */
export function nameMedia(made, blind) {
  if (!(made instanceof HTMLElement) || made.dataset.name === undefined) return;
  const { name, shows, values } = made.dataset;
  const said = shows || (blind ? "" : values);
  const words = said ? text("card.named", { name, said }) : name;
  if (made instanceof HTMLImageElement) made.alt = words;
  else if (made instanceof HTMLIFrameElement) made.title = words;
  else made.ariaLabel = words;
}

/**
 * Play a sound or a film, or stop it.
 * @param {HTMLMediaElement} player
 */
export function play(player) {
  if (!player.paused) return player.pause();
  // A card that cannot be played says so itself; one that is taken away while it begins says nothing.
  player.play().catch((error) => console.info(sentence(error)));
}

/** Pictures fetched and decoded ahead, by address. @type {Map<string, HTMLImageElement>} */
const ready = new Map();

/**
 * Fetch what may be shown next while the person looks, so that it can be painted at once.
 * @param {Page} page
 */
export async function prefetch(page) {
  const study = page.study;
  if (!study?.has_pictures) return;
  /** @type {{pictures: string[]}} */
  let found = { pictures: [] };
  try {
    found = await get(at(study.id, `ahead?voter=${encodeURIComponent(page.voter)}`));
  } catch (error) {
    // Nothing is lost but a moment: the picture is fetched when it is shown.
    console.info(sentence(error));
  }
  ready.clear();
  for (const key of found.pictures) {
    const address = at(study.id, `picture/${key}`);
    const made = el("img", { class: "media", src: address, alt: "", draggable: "false" });
    ready.set(address, made);
    // A picture that cannot be decoded says so when it is shown.
    made.decode().catch(() => ready.delete(address));
  }
}

/** @param {string} address */
async function image(address) {
  const early = ready.get(address);
  ready.delete(address);
  const made = early ?? el("img", { class: "media", src: address, alt: "", draggable: "false" });
  try {
    await made.decode();
  } catch {
    return failure(text("card.cannotShow"));
  }
  return made;
}

/**
 * What finds no room on its card is scrolled to, by keyboard too; the button stays in sight (style.css).
 * @param {string} words
 * @param {string | null} [lang]
 * @param {HTMLElement} [remedy]
 */
function failure(words, lang, remedy) {
  return el("div", { class: "media failed", role: "note" }, el("p", { lang, tabindex: 0 }, words), remedy);
}

/**
 * Why there is no picture, and a button that has it drawn once more.
 * @param {Page} page
 * @param {Card} card
 * @param {(again: Card) => Promise<HTMLElement | null>} show
 */
function retriable(page, card, show) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const again = button(text("card.drawAgain"), async (event) => {
    // A click on a card chooses it; this one does not.
    event.stopPropagation();
    again.disabled = true;
    again.replaceChildren(text("card.drawing"));
    try {
      const made = await show(await post(at(study.id, `picture/${card.key}/again`), {}));
      place.replaceWith(made ?? el("p", { class: "media quiet" }, text("card.noPicture")));
    } catch (error) {
      place.replaceWith(failure(sentence(error), langOf(error)));
    }
  });
  const place = failure(card.sentence, english(), again);
  return place;
}

/**
 * A small picture that is fetched when it comes into sight.
 * @param {Page} page
 * @param {number} option
 */
export function thumbnail(page, option) {
  const frame = el("span", { class: "thumbnail" }, el("span", { class: "option-number" }, `#${option}`));
  if (page.study?.has_pictures) lazily(frame, () => fetchThumbnail(page, option, frame));
  return frame;
}

/**
 * @param {Element} element
 * @param {() => void} action
 */
function lazily(element, action) {
  const watch = new IntersectionObserver((entries) => {
    if (!entries.some((one) => one.isIntersecting)) return;
    watch.disconnect();
    action();
  });
  watch.observe(element);
}

/**
 * @param {Page} page
 * @param {number} option
 * @param {HTMLElement} frame
 */
async function fetchThumbnail(page, option, frame) {
  if (page.study === null) return;
  try {
    const card = await get(at(page.study.id, `card/${option}`));
    if (card.kind !== "image") return;
    const made = await media(page, option, card, text("card.design", { number: String(option) }));
    if (made !== null) frame.prepend(made);
  } catch {
    frame.title = text("card.notFetched");
  }
}
