// SPDX-License-Identifier: Apache-2.0
// Languages: each has all texts, no text stands elsewhere, and the page is read in each.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { gzipSync } from "node:zlib";

import { start } from "./daemon.mjs";
import { LIMIT, binary, flow, logIn, open, shoot } from "./harness.mjs";

const FOLDER = process.env.PAGE_FILES;
const read = (name) => readFileSync(`${FOLDER}/${name}`, "utf8");
const formsOf = (text) => (typeof text === "string" ? { other: text } : text);
const placesOf = (text) => [...new Set([...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name))].sort().join();

/** The texts of each language, by its file. */
async function readTexts() {
  const found = {};
  for (const file of readdirSync(`${FOLDER}/text`)) {
    found[file.replace(".js", "")] = (await import(`data:text/javascript,${encodeURIComponent(read(`text/${file}`))}`)).default;
  }
  return found;
}

/** Literals of a module: each with what is before it on its line. Of a template, what is in `${…}` is left out, and its literals are found, too. */
function literalsOf(source) {
  const found = [];
  let at = 0;
  const before = () => source.slice(source.lastIndexOf("\n", at) + 1, at);
  const literal = (quote) => {
    const one = { text: "", before: before() };
    found.push(one);
    for (at += 1; source[at] !== quote; at += 1) {
      if (quote === "`" && source.startsWith("${", at)) {
        at += 2;
        code();
        one.text += "${}";
      } else {
        one.text += source[at];
        if (source[at] === "\\") one.text += source[at += 1];
      }
    }
  };
  /** Until the end, or the brace that closes. */
  const code = () => {
    for (let depth = 0; at < source.length; at += 1) {
      if (source[at] === "}" && depth === 0) return;
      depth += { "{": 1, "}": -1 }[source[at]] || 0;
      if (source.startsWith("//", at) && /^\s*$|\s$/.test(before())) at = source.indexOf("\n", at);
      else if (source.startsWith("/*", at)) at = source.indexOf("*/", at) + 1;
      else if (source[at] === "\"" || source[at] === "`") literal(source[at]);
    }
  };
  code();
  return found;
}

/** Names of keys of the keyboard and of the protocol, a reason that is compared, and what is the same in each language. */
const NO_TEXT = /^(Arrow\w+|Page(Up|Down)|Home|End|Enter|Escape|Delete|Backspace|INPUT|SELECT|Retry-After|Date|X-Codecs|Content-Type|[KMGT]iB|jetwatch( page)?|taken out by a change of the configuration)$/;
/** Attributes that no user reads. */
const ATTRIBUTE = /(class|viewBox|preserveAspectRatio|autocomplete|rel|points|d|font)(: |="| = )$|querySelector(All)?\($|closest\($|matches\($|matchMedia\($|(strokeStyle|fillStyle|font) = $|new Error\($|\barrow\(.*, $/;

/** Whether a literal is read by users: words of it stand outside of `${…}`, or it is a child of an element or the text of a message. */
function isText({ text, before }) {
  const words = text.replaceAll("${}", " ").trim();
  if (NO_TEXT.test(words) || ATTRIBUTE.test(before)) return false;
  const isShown = /(\}, |text\(\w+, |notify\(|"aria-label": |title: |alt: |placeholder: )$/.test(before) && /[A-Za-z]{2}/.test(words);
  return isShown || /[A-Za-z]{2,}[,.:;]? [a-z]{2,}/.test(words) || /^[A-Z][a-z]+/.test(words);
}

/** What is read on a page: texts, and what screen readers say; without what the daemon writes, and names. */
const readPage = (page) => page.evaluate(() => {
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT, (node) =>
    (node.parentElement.closest("script, noscript, pre, code, body [lang], #device") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT));
  while (walk.nextNode()) found.push(walk.currentNode.nodeValue);
  for (const name of ["aria-label", "title", "alt", "placeholder"]) {
    for (const node of document.body.querySelectorAll(`[${name}]`)) found.push(node.getAttribute(name));
  }
  return found.map((text) => text.trim()).filter(Boolean);
});

const SAMPLES = {
  en: { lang: "en", tabs: ["Live", "Events", "Zones", "Machine"], online: /^2 of 2 sources online · /, frames: ["after 1 frame", "after 2 frames"], number: "1,234.5", at: /^Jan 2, 2026, 3:04:05\sPM$/, today: "Today" },
  de: { lang: "de", tabs: ["Live", "Ereignisse", "Zonen", "System"], online: /^2 von 2 Quellen online · /, frames: ["nach 1 Bild", "nach 2 Bildern"], number: "1.234,5", at: /^02\.01\.2026, 15:04:05$/, today: "Heute" },
  es: { lang: "es", tabs: ["En vivo", "Eventos", "Zonas", "Sistema"], online: /^2 de 2 fuentes en línea · /, frames: ["tras 1 imagen", "tras 2 imágenes"], number: "1234,5", at: /^2 ene 2026, 15:04:05$/, today: "Hoy" },
  fr: { lang: "fr", tabs: ["Direct", "Événements", "Zones", "Système"], online: /^2 sources sur 2 en ligne · /, frames: ["après 1 image", "après 2 images"], number: "1\u202f234,5", at: /^2 janv\. 2026.* 15:04:05$/, today: "Aujourd’hui" },
  zh: { lang: "zh-Hans", tabs: ["实时", "事件", "区域", "系统"], online: /^2 个视频源中 2 个在线 · /, frames: ["1 帧后", "2 帧后"], number: "1,234.5", at: /^2026年1月2日 15:04:05$/, today: "今天" },
  ja: { lang: "ja", tabs: ["ライブ", "イベント", "ゾーン", "システム"], online: /^2 ソース中 2 がオンライン · /, frames: ["1 フレーム後", "2 フレーム後"], number: "1,234.5", at: /^2026\/01\/02 15:04:05$/, today: "今日" },
};
const READY = { live: ".tile[data-pictures]", events: ".list .event", "zones/gate": ".shape", machine: ".plots svg", cameras: ".found" };

/** Names of the configuration and of the model, stages and units. */
const DATA = /^(test-box|gate|yard|day|parking|crossing|person|bicycle|car|bus|truck|motorcycle|scripted, truth|anna|[CG]PU( \d+)?( \d+%)?|[\d.,]+ [KMGT]iB|(\w+ )?[\d.,]+ ms|[\d.,]+( [\d.]+)? MHz)$/;

export async function languageFlows() {
  const texts = await readTexts();
  const modules = readdirSync(FOLDER).filter((name) => name.endsWith(".js"));
  const pages = readdirSync(FOLDER).filter((name) => name.endsWith(".html"));

  await flow("each language has each text, with the same values and all forms", async () => {
    assert.deepEqual(Object.keys(texts).sort(), Object.keys(SAMPLES).sort());
    for (const [language, own] of Object.entries(texts)) {
      assert.deepEqual(Object.keys(own), Object.keys(texts.en), language);
      const categories = new Intl.PluralRules(language).resolvedOptions().pluralCategories.filter((one) => one !== "many");
      for (const [key, text] of Object.entries(own)) {
        const [forms, english] = [formsOf(text), formsOf(texts.en[key])];
        if (typeof text !== "string") assert.deepEqual(Object.keys(forms).sort(), categories.sort(), `${language} ${key}`);
        assert.equal(placesOf(forms.other), placesOf(english.other), `${language} ${key}`);
        for (const form of Object.values(forms)) {
          assert.ok(form.trim() === form && form !== "" && !/\{(?!\w+\})/.test(form), `${language} ${key}: ${form}`);
          assert.ok(["", "count"].includes(placesOf(forms.other).split(",").filter((name) => !form.includes(`{${name}}`)).join()), `${language} ${key}: ${form}`);
        }
      }
    }
  });

  await flow("the page uses each text, and has none of its own", async () => {
    const used = new Set();
    const begins = new Set();
    for (const name of modules) {
      const source = read(name);
      for (const literal of literalsOf(source)) {
        if (Object.hasOwn(texts.en, literal.text)) used.add(literal.text);
        else assert.ok(name === "text.js" || !isText(literal), `${name}: ${literal.text}`);
      }
      for (const [, key] of source.matchAll(/\b(?:t|partsOf)\("([^"]+)"/g)) assert.ok(Object.hasOwn(texts.en, key), `${name}: ${key}`);
      for (const [, begin] of source.matchAll(/\bt\(`([\w.]+\.)\$\{/g)) begins.add(begin);
      for (const [, kind] of source.matchAll(/\bwordOf\("(\w+)"/g)) begins.add(`${kind}.`);
    }
    for (const name of pages) {
      const html = read(name);
      for (const [, key] of html.matchAll(/ data-(?:text|title|label)="([^"]+)"/g)) {
        assert.ok(Object.hasOwn(texts.en, key), `${name}: ${key}`);
        used.add(key);
      }
      assert.doesNotMatch(html, / (title|aria-label|placeholder)="/, name);
      // Who has no JavaScript has English.
      const left = html.replace(/<noscript>.*<\/noscript>|<[^>]*>/g, " ").split(/\s+/).filter((word) => word && word !== "jetwatch");
      assert.deepEqual(left, [], name);
    }
    const isUsed = (key) => used.has(key) || [...begins].some((begin) => key.startsWith(begin));
    assert.deepEqual(Object.keys(texts.en).filter((key) => !isUsed(key)), []);
  });

  await flow("the page with all its languages has 150 KB at most, compressed", async () => {
    const files = [...modules, ...pages, "style.css", "icon.svg", ...Object.keys(texts).map((language) => `text/${language}.js`)];
    const bytes = files.reduce((sum, name) => sum + gzipSync(read(name)).length, 0);
    console.log(`     ${bytes} bytes in ${files.length} files`);
    assert.ok(bytes <= 150000, String(bytes));
  });

  const box = await start(binary, { users: [["anna", "administrator"]] });
  try {
    for (const [language, sample] of Object.entries(SAMPLES)) {
      await flow(`the page is read in the language of the browser: ${language}`, async () => {
        const page = await open(box.origin, { languages: [language, "en"] });
        const files = [];
        page.on("response", (response) => /text\/\w+\.js$/.test(response.url()) && files.push(response.url().slice(-5, -3)));
        await page.reload();
        await page.waitForSelector(".login input[name=user]", LIMIT);
        // Only this language travels, and English.
        assert.deepEqual([...new Set(files)].sort(), [...new Set([language, "en"])].sort());
        assert.equal(await page.$eval(".login button", (button) => button.textContent), texts[language]["login.submit"]);
        assert.equal(await page.$eval("html", (html) => html.lang), sample.lang);
        await logIn(page, "anna");
        await page.waitForFunction((pattern) => new RegExp(pattern).test(document.querySelector(".summary")?.textContent), LIMIT, sample.online.source);
        assert.deepEqual(await page.$$eval("#tabs a", (links) => links.map((link) => link.textContent).slice(0, 4)), sample.tabs);
        const said = await page.evaluate(async () => {
          const { asNumber, t } = await import("./text.js");
          const { dateAndTime } = await import("./dom.js");
          return { frames: [1, 2].map((count) => t("words.frames", { count })), number: asNumber(1234.5), at: dateAndTime(new Date(2026, 0, 2, 15, 4, 5)) };
        });
        assert.deepEqual([said.frames, said.number], [sample.frames, sample.number]);
        assert.match(said.at, sample.at);
        for (const [tab, ready] of Object.entries(READY)) {
          await page.evaluate((hash) => { location.hash = hash; }, tab);
          await page.waitForSelector(ready, LIMIT);
          if (tab === "events") assert.equal(await page.$eval(".day h2", (heading) => heading.textContent), sample.today);
          const found = await readPage(page);
          assert.deepEqual(found.filter((text) => Object.hasOwn(texts.en, text) || /\{\w+\}|undefined|NaN/.test(text)), [], tab);
          // Here, letters are those of names and units.
          if (["zh", "ja"].includes(language)) assert.deepEqual(found.filter((text) => !/[\u3000-\u9fff]/.test(text) && /[A-Za-z]{2}/.test(text) && !DATA.test(text)), [], tab);
          assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0, tab);
          await shoot(page, `language-${language}-${tab.split("/")[0]}`);
        }
        assert.deepEqual(page.problems.filter((problem) => !/401/.test(problem)), []);
        await page.browserContext().close();
      });
    }

    await flow("a language that is chosen on the page is kept in this browser", async () => {
      const page = await open(box.origin, { languages: ["pt-BR", "en-GB"] });
      await page.waitForSelector(".login input[name=user]", LIMIT);
      // There is none in Portuguese; the date is as in Great Britain.
      const lang = () => page.$eval("html", (html) => html.lang);
      assert.equal(await lang(), "en");
      assert.match(await page.evaluate(async () => (await import("./dom.js")).dateAndTime(new Date(2026, 0, 2, 15, 4, 5))), /^2 Jan 2026, 15:04:05$/);
      await page.select("#language", "de");
      await page.waitForFunction(() => document.querySelector(".login button")?.textContent === "Anmelden" && document.documentElement.lang === "de", LIMIT);
      await logIn(page, "anna");
      await page.waitForSelector(".tile", LIMIT);
      await page.reload();
      await page.waitForFunction(() => document.querySelector("#tabs a[href='#events']")?.textContent === "Ereignisse" && /Quellen online/.test(document.querySelector(".summary")?.textContent), LIMIT);
      assert.deepEqual([await lang(), await page.$eval("#language", (select) => select.value)], ["de", "de"]);
      // What is shown changes at once.
      await page.select("#language", "ja");
      await page.waitForFunction(() => /オンライン/.test(document.querySelector(".summary")?.textContent) && document.querySelector("#logout").textContent === "ログアウト", LIMIT);
      assert.equal(await page.$eval("#user", (button) => button.textContent), "anna, 管理者");
      await page.browserContext().close();
    });
  } finally {
    await box.stop();
  }
}
