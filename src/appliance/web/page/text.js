// SPDX-License-Identifier: Apache-2.0
// The texts of the page, and its dates, times and numbers, in the language of the reader: the one that was chosen on the page, else the
// first of the browser's that there is. `text/` has a file for each; only that of the language, and English, are read.

import english from "./text/en.js";
import { keep, recall } from "./store.js";

/** The languages, by their own names. */
const LANGUAGES = { en: "English", de: "Deutsch", es: "Español", fr: "Français", zh: "简体中文", ja: "日本語" };

/** The language that was chosen, in this browser. */
const CHOSEN = "jetwatch.language";

let language = "en";
let locale = "en";
let texts = english;
let formats = new Map();

const primary = (tag) => tag.toLowerCase().split("-")[0];

function wanted() {
  const chosen = recall(CHOSEN);
  if (Object.hasOwn(LANGUAGES, chosen)) return chosen;
  return navigator.languages.map(primary).find((one) => Object.hasOwn(LANGUAGES, one)) || "en";
}

async function use(next) {
  texts = next === "en" ? english : (await import(`./text/${next}.js`)).default;
  language = next;
  // With its region, for the order of a date.
  locale = navigator.languages.find((tag) => primary(tag) === next) || next;
  formats = new Map();
  document.documentElement.lang = next === "zh" ? "zh-Hans" : next;
}

// Without the file, as where the daemon has just gone, the page is in English.
await use(wanted()).catch(() => use("en"));

function format(Kind, options) {
  const key = Kind.name + JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, new Kind(Kind === Intl.PluralRules ? language : locale, options));
  return formats.get(key);
}

/** The parts of a text with its values, which may be elements. Of a text with forms, `count` chooses one. */
export function partsOf(key, values = {}) {
  const found = texts[key] ?? english[key] ?? key;
  const text = typeof found === "string" ? found : found[format(Intl.PluralRules).select(values.count)] ?? found.other;
  return text.split(/\{(\w+)\}/).map((part, index) => {
    // French has a space before these signs, at which no line ends.
    if (index % 2 === 0) return language === "fr" ? part.replace(/ (?=[:;?!%])/g, "\u00a0") : part;
    return typeof values[part] === "number" ? asNumber(values[part]) : values[part];
  });
}

export const t = (key, values) => partsOf(key, values).join("");

/** A word of a fixed vocabulary of the daemon, such as a state. One that is not in it stays as it is. */
export function wordOf(kind, value) {
  const key = `${kind}.${value}`;
  return Object.hasOwn(english, key) ? t(key) : String(value).replaceAll("_", " ");
}

/** With this number of digits after the point, or with up to three. */
export function asNumber(value, digits) {
  return format(Intl.NumberFormat, digits === undefined ? {} : { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
}

/** A number with a unit of `Intl.NumberFormat`. */
export function asUnit(value, unit, digits = 0) {
  return format(Intl.NumberFormat, { style: "unit", unit, minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
}

/** A share from 0 to 1. */
export const asPercent = (share) => format(Intl.NumberFormat, { style: "percent" }).format(share);

/** A time in the form of these options of `Intl.DateTimeFormat`. */
export const asTime = (at, options) => format(Intl.DateTimeFormat, options).format(new Date(at));

/** The order of names: camera-2 comes before camera-10. */
export const byName = (one, other) => one.localeCompare(other, locale, { numeric: true });

/** A number of units from now, as `yesterday`. */
export const fromNow = (value, unit, options) => format(Intl.RelativeTimeFormat, options).format(value, unit);

/** Writes the texts that elements name by `data-text`, `data-title` and `data-label`. */
export function translate() {
  for (const node of document.querySelectorAll("[data-text]")) node.textContent = t(node.dataset.text);
  for (const node of document.querySelectorAll("[data-title]")) node.title = t(node.dataset.title);
  for (const node of document.querySelectorAll("[data-label]")) node.setAttribute("aria-label", t(node.dataset.label));
}

/** Fills the list of languages; calls back after a choice, which is kept in this browser. */
export function offerLanguages(select, onChange) {
  translate();
  for (const [tag, name] of Object.entries(LANGUAGES)) {
    const option = new Option(name, tag);
    option.lang = tag;
    select.append(option);
  }
  select.value = language;
  select.addEventListener("change", async () => {
    try {
      await use(select.value);
      keep(CHOSEN, language);
    } catch {
      select.value = language;
    }
    translate();
    onChange();
  });
}
