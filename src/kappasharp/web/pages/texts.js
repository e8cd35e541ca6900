/** What the page says, in the language of whoever reads it. English is always there; another language is two files, fetched when they are wanted: `texts` for the page, `said` for the server. */

import { EN } from "./texts.en.js";

/** @import { SAID } from "./said.en.js" */
/** @typedef {keyof typeof EN} TextKey */
/** A sentence of the server: its English words, and what it is made of. @typedef {string | {words: string, key: string, values: Record<string, any>}} Said */
/** A sentence, or one for each form that its `count` takes. @typedef {string | {one?: string, two?: string, few?: string, many?: string, other: string}} Text */
/** @typedef {Record<TextKey, Text>} Texts */
/** Those of them that the server says. @typedef {Record<keyof typeof SAID, Text>} SaidTexts */
/** @typedef {{name: string, tag: string, texts: () => Promise<Texts>}} Language */
/** The named places of a sentence. @template S @typedef {S extends `${string}{${infer P}}${infer R}` ? P | Places<R> : S extends object ? "count" | Places<S[keyof S]> : never} Places */
/** What has to be given for them. @template {TextKey} K @template V @typedef {[Places<typeof EN[K]>] extends [never] ? [] : [values: Record<Places<typeof EN[K]>, V>]} Given */

/** A further language is two files like `texts.de.js` and `said.de.js`, and a line here. @type {Record<string, Language>} */
export const LANGUAGES = {
  en: { name: "English", tag: "en-GB", texts: async () => EN },
  de: { name: "Deutsch", tag: "de", texts: async () => (await import("./texts.de.js")).TEXTS },
  zh: { name: "中文", tag: "zh-Hans", texts: async () => (await import("./texts.zh.js")).TEXTS },
};
const CHOSEN = "kappasharp language";

/** @type {Texts} */
let texts = EN;
let code = "en";
let format = new Intl.NumberFormat("en-GB");
let comma = ".";

/** Which language is wanted: by the address, or else by what was chosen here before, or else by the browser. */
function wanted() {
  const known = (/** @type {string | null} */ one) => one !== null && Object.hasOwn(LANGUAGES, one);
  const named = [new URLSearchParams(location.search).get("lang"), localStorage.getItem(CHOSEN), ...navigator.languages.map((one) => one.split("-")[0])];
  return named.find(known) ?? "en";
}

/**
 * Speak a language from now on; the one that is wanted, unless somebody chooses. One that cannot be fetched leaves all as it is.
 * @param {string} [chosen]
 */
export async function speak(chosen) {
  const next = chosen ?? wanted();
  const { tag, texts: fetched } = LANGUAGES[next];
  texts = await fetched();
  if (chosen !== undefined) localStorage.setItem(CHOSEN, chosen);
  code = next;
  format = new Intl.NumberFormat(tag);
  comma = format.formatToParts(0.5).find((one) => one.type === "decimal")?.value ?? ".";
  document.documentElement.lang = tag;
}

/** The language that is spoken. */
export function language() {
  return code;
}

/** What marks words that only come in English, those of the server, on a page in another language. */
export function english() {
  return code === "en" ? null : "en";
}

/**
 * What the server says, in the page's language; in English, which `lang` marks, where the page has no words for it.
 * @param {Said} said
 * @returns {{words: string, lang: string | null}}
 */
export function spoken(said) {
  if (typeof said === "string") return { words: said, lang: english() };
  const key = `said.${said.key}`;
  if (!Object.hasOwn(texts, key)) return { words: said.words, lang: english() };
  const values = Object.entries(said.values).map(([name, value]) => [name, valueOf(name, value)]);
  return { words: /** @type {any} */ (text)(key, Object.fromEntries(values)).trim(), lang: null };
}

/**
 * What stands in a place of a sentence of the server.
 * @param {string} name
 * @param {Said | number} value
 */
function valueOf(name, value) {
  if (typeof value === "number") return name.endsWith("share") ? text("unit.percent", { count: Math.round(100 * value) }) : value;
  if (typeof value === "string") return name === "figures" ? numeral(value) : value;
  return spoken(value).words;
}

/**
 * A sentence in pieces, with elements in its places.
 * @template {TextKey} K
 * @param {K} key
 * @param {Given<K, string | number | Node>} given
 * @returns {(string | Node)[]}
 */
export function pieces(key, ...given) {
  /** @type {Record<string, string | number | Node>} */
  const values = given[0] ?? {};
  return formOf(texts[key], Number(values.count), "cardinal").split(/\{(\w+)\}/).map((piece, index) => {
    const value = index % 2 ? values[piece] : piece;
    return typeof value === "number" ? format.format(value) : value;
  });
}

/**
 * A sentence; a number in it is written as the language does.
 * @template {TextKey} K
 * @param {K} key
 * @param {Given<K, string | number>} given
 */
export function text(key, ...given) {
  return pieces(key, ...given).join("");
}

/**
 * @param {Text} said
 * @param {number} count
 * @param {"cardinal" | "ordinal"} type
 */
function formOf(said, count, type) {
  return typeof said === "string" ? said : (said[/** @type {"one"} */ (new Intl.PluralRules(LANGUAGES[code].tag, { type }).select(count))] ?? said.other);
}

/**
 * First, second, third …
 * @param {number} place
 */
export function ordinal(place) {
  return formOf(texts["order.rank"], place, "ordinal").replace("{count}", String(place));
}

/**
 * Things one after the other.
 * @param {string[]} all
 */
export function listed(all) {
  return all.reduceRight((rest, first) => (rest ? text("list.comma", { first, rest }) : first), "");
}

/**
 * Sentences one after the other, those that there are.
 * @param {...string} all
 */
export function sentences(...all) {
  return all.filter(Boolean).reduceRight((rest, first) => (rest ? text("list.sentences", { first, rest }) : first), "");
}

/**
 * A number that is written in figures, with the decimal sign of the language.
 * @param {string} figures
 */
export function numeral(figures) {
  return figures.replace(".", comma);
}

/**
 * What somebody typed, with the decimal sign that programs have.
 * @param {string} typed
 */
export function plainNumeral(typed) {
  return comma === "," ? typed.replace(",", ".") : typed;
}

/**
 * A time of the server, as people write it here.
 * @param {string} time
 * @param {Intl.DateTimeFormatOptions} [how]
 */
export function moment(time, how) {
  return new Date(time).toLocaleString(LANGUAGES[code].tag, how);
}
