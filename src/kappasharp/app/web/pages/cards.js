/** The user's own picture, page, sound or film of a design. */

/** @import { Card, Page } from "./types.js" */
import { button, el } from "./elements.js";
import { at, get, post, sentence } from "./talk.js";

/**
 * The element that shows an option, once it can be painted at once.
 * @param {Page} page
 * @param {number | null} option null for a place of a line, whose card is drawn
 * @param {Card} card
 * @param {string} name what a screen reader says
 * @returns {Promise<HTMLElement | null>}
 */
export async function media(page, option, card, name) {
  const study = page.study;
  if (study === null || card.kind === "none") return null;
  if (card.kind === "pending") {
    try {
      return await media(page, option, await get(at(study.id, `card/${option}`)), name);
    } catch (error) {
      return failure(sentence(error));
    }
  }
  if (card.kind === "failed") return retriable(page, option, card, name);
  const address = at(study.id, `${card.kind === "html" ? "frame" : "picture"}/${card.key}`);
  switch (card.kind) {
    case "image":
      return image(address, name);
    case "html":
      return el("iframe", { class: "media", sandbox: "allow-scripts", src: address, title: name });
    case "audio":
      return el("audio", { class: "media", controls: true, preload: "auto", src: address, "aria-label": name });
    default:
      return el("video", {
        class: "media", controls: true, loop: true, muted: true, playsinline: true, preload: "auto", src: address,
        "aria-label": name,
      });
  }
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

/**
 * @param {string} address
 * @param {string} name
 */
async function image(address, name) {
  const early = ready.get(address);
  ready.delete(address);
  const made = early ?? el("img", { class: "media", src: address, draggable: "false" });
  made.alt = name;
  try {
    await made.decode();
  } catch {
    return failure("The browser cannot show this picture.");
  }
  return made;
}

/**
 * @param {string} words
 * @param {HTMLElement} [remedy]
 */
function failure(words, remedy) {
  return el("div", { class: "media failed", role: "note" }, el("p", {}, words), remedy);
}

/**
 * Why there is no picture, and a button that has it drawn once more.
 * @param {Page} page
 * @param {number | null} option
 * @param {Card} card
 * @param {string} name
 */
function retriable(page, option, card, name) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const again = button("Draw again", async () => {
    again.disabled = true;
    again.replaceChildren("Drawing …");
    try {
      const made = await media(page, option, await post(at(study.id, `picture/${card.key}/again`), {}), name);
      place.replaceWith(made ?? el("p", { class: "media quiet" }, "No picture."));
    } catch (error) {
      place.replaceWith(failure(sentence(error)));
    }
  });
  const place = failure(card.sentence, again);
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
    const made = await media(page, option, card, `Design ${option}`);
    if (made !== null) frame.prepend(made);
  } catch {
    frame.title = "Its picture could not be fetched.";
  }
}
