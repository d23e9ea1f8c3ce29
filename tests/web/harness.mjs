// SPDX-License-Identifier: Apache-2.0
// The browser, and what all flows of the page do.

import { mkdirSync } from "node:fs";
import puppeteer from "puppeteer-core";

import { PASSWORD } from "./daemon.mjs";

export const [binary, model, pictures] = process.argv.slice(2);
export const LIMIT = { timeout: 40000 };
export const DESKTOP = { width: 1440, height: 900 };
export const PHONE = { width: 390, height: 844, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };

/** BROWSER=firefox: Firefox in place of Chromium. */
export const isFirefox = process.env.BROWSER === "firefox";
export const browser = await puppeteer.launch(isFirefox ? {
  acceptInsecureCerts: true,
  browser: "firefox",
  executablePath: process.env.FIREFOX || "/usr/bin/firefox-esr",
  extraPrefsFirefox: { "network.dns.localDomains": "home.example", "layout.css.prefers-color-scheme.content-override": 1, "focusmanager.testmode": true },
} : {
  acceptInsecureCerts: true,
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--host-resolver-rules=MAP home.example 127.0.0.1"],
});
let passed = 0;
const failures = [];

/** One flow; a failure does not end the others. FLOWS=PATTERN leaves others out; `onlyChromium` is the reason to leave it out in Firefox. */
export async function flow(name, run, { onlyChromium } = {}) {
  if (!new RegExp(process.env.FLOWS || "").test(name) || (isFirefox && onlyChromium)) return;
  try {
    await run();
    passed += 1;
    console.log(`ok   ${name}`);
  } catch (error) {
    failures.push(name);
    console.log(`FAIL ${name}\n${error.stack}`);
  }
}

/** Opens the page in a browser context of its own. `languages`: those of the browser. */
export async function open(origin, { scheme = "light", view = DESKTOP, hash = "", languages } = {}) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(error.message));
  page.on("console", (message) => message.type() === "error" && page.problems.push(message.text()));
  await page.setViewport(view);
  if (languages) await page.evaluateOnNewDocument((tags) => Object.defineProperty(navigator, "languages", { get: () => tags }), languages);
  // Firefox is light by its preferences.
  if (!isFirefox) await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.goto(`${origin}/${hash}`);
  return page;
}

export async function logIn(page, user, password = PASSWORD) {
  await page.waitForSelector(".login input[name=user]", LIMIT);
  await page.$eval(".login input[name=user]", (input) => { input.value = ""; });
  await page.type(".login input[name=user]", user);
  await page.type(".login input[name=password]", password);
  await page.click(".login button");
}

export const tilesShow = (page, least) => page.waitForFunction((count) =>
  document.querySelectorAll(".tile").length === 2 && [...document.querySelectorAll(".tile")].every((tile) => Number(tile.dataset.pictures) >= count), LIMIT, least);

export async function shoot(page, name) {
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: `${pictures}/${name}.webp`, type: "webp", quality: 80 });
}

/** The button with this text. */
export const press = (page, label) => page.evaluate((text) => [...document.querySelectorAll("button")].find((button) => button.textContent === text).click(), label);

/** In one step of the page, which `$eval` is not: a list that is made again in between would leave a handle to what is gone. */
export const click = (page, selector) => page.evaluate((wanted) => document.querySelector(wanted).click(), selector);
export const focus = (page, selector) => page.evaluate((wanted) => document.querySelector(wanted).focus(), selector);

/** Ends the browser, and tells what came of the flows. */
export async function finish() {
  await browser.close();
  console.log(`${isFirefox ? "firefox" : "web"}: ${passed} passed, ${failures.length} failed`);
  process.exitCode = failures.length > 0 ? 1 : 0;
}
