// SPDX-License-Identifier: Apache-2.0
// Flows of the machine's page: disks, checks of the installation, one's own password, pictures that stop.

import assert from "node:assert/strict";

import { PASSWORD, VIDEO_CONFIG, start } from "./daemon.mjs";
import { LIMIT, PHONE, binary, flow, logIn, model, open, press, shoot, tilesShow } from "./harness.mjs";

export async function machineFlows() {
  const box = await start(binary, { users: [["anna", "administrator"], ["vera", "viewer"]] });
  try {
    await flow("an administrator checks the installation, line by line", async () => {
      const page = await open(box.origin, { hash: "#machine" });
      await logIn(page, "anna");
      await page.waitForFunction(() => [...document.querySelectorAll("button")].some((button) => button.textContent === "Check the installation" && !button.disabled), LIMIT);
      await press(page, "Check the installation");
      await page.waitForFunction(() => /^Running since/.test(document.querySelector(".checks .result")?.textContent), LIMIT);
      await page.waitForFunction(() => document.querySelectorAll("ul.checks li[data-state=ok]").length > 3, { timeout: 120000 });
      await page.waitForFunction(() => /: \d+ ok, /.test(document.querySelector(".checks .result")?.textContent), { timeout: 310000 });
      await page.$eval("ul.checks", (list) => list.scrollIntoView());
      await shoot(page, "machine-checks");
      await page.browserContext().close();
      const other = await open(box.origin, { hash: "#machine" });
      await logIn(other, "vera");
      await other.waitForSelector(".plots svg", LIMIT);
      assert.equal(await other.evaluate(() => document.body.textContent.includes("Check the installation")), false);
      await other.browserContext().close();
    });

    await flow("a user changes its password and is logged out elsewhere", async () => {
      const page = await open(box.origin);
      await logIn(page, "vera");
      await tilesShow(page, 1);
      const elsewhere = await open(box.origin, { view: PHONE });
      await logIn(elsewhere, "vera");
      await tilesShow(elsewhere, 1);
      await page.click("#user");
      const fill = async (old, fresh, again) => {
        for (const [name, value] of [["old", old], ["new", fresh], ["again", again]]) {
          await page.$eval(`#account input[name=${name}]`, (input) => { input.value = ""; });
          await page.type(`#account input[name=${name}]`, value);
        }
        await press(page, "Change the password");
      };
      const problem = (pattern) => page.waitForFunction((text) => document.querySelector("#account .problem") && document.querySelector("#account .problem")?.textContent.includes(text), LIMIT, pattern);
      await fill("a wrong password", "another long password", "another long password");
      await problem("old password is wrong");
      await fill(PASSWORD, "another long password", "something else entirely");
      await problem("differ");
      await shoot(page, "password");
      await fill(PASSWORD, "another long password", "another long password");
      await page.waitForFunction(() => /was changed/.test(document.querySelector("#notice")?.textContent), LIMIT);
      await elsewhere.waitForSelector(".login input[name=user]", LIMIT);
      assert.equal(await page.evaluate(async () => (await fetch("api/events")).status), 200);
      await logIn(elsewhere, "vera", "another long password");
      await tilesShow(elsewhere, 1);
      await page.browserContext().close();
      await elsewhere.browserContext().close();
    });

    await flow("a picture that stops is grey, with its age, until it goes on", async () => {
      const page = await open(box.origin);
      await logIn(page, "anna");
      await tilesShow(page, 2);
      const figures = () => page.$eval(".tile[data-source=gate] .figures", (node) => node.textContent);
      await page.waitForFunction(() => /^in\d+\.\d frames\/s/.test(document.querySelector(".tile[data-source=gate] .figures")?.textContent), LIMIT);
      assert.match(await figures(), /detected\d+\.\d frames\/sdropped\d+\.\d frames\/s, [\d.,]+ in all/);
      assert.equal(await page.$(".frozen"), null);
      box.pause();
      try {
        await page.waitForFunction(() => document.querySelectorAll(".frozen").length === 2 && /^updated \d+ sec\. ago$/.test(document.querySelector(".updated")?.textContent), LIMIT);
        await page.waitForFunction(() => getComputedStyle(document.querySelector(".frozen canvas")).filter.includes("grayscale(1)"), LIMIT);
        await shoot(page, "live-frozen");
      } finally {
        box.resume();
      }
      await page.waitForFunction(() => document.querySelectorAll(".frozen").length === 0, LIMIT);
      await page.browserContext().close();
    });
  } finally {
    await box.stop();
  }

  const away = (port, web) => `device: test-box
sources:
  - {name: here, uri: 'synthetic://traffic?seed=1&objects=2&width=640&height=360&fps=5'}
  - {name: gone, uri: 'rtsp://127.0.0.1:1/none'}
detector: {model: ${model}}
publish: {mqtt: {broker: 'mqtt://127.0.0.1:1'}, stats_interval_s: 1}
web:
  listen: 127.0.0.1:${port}
${web.map((line) => `  ${line}\n`).join("")}`;
  const broken = await start(binary, { config: away, web: ["without_users: operator"] });
  try {
    await flow("what is wrong comes first, and a warning that repeats is one line", async () => {
      const page = await open(broken.origin, { hash: "#machine" });
      await page.waitForFunction(() => /Wrong: gone is offline/.test(document.querySelector("main .panel")?.textContent), LIMIT);
      await page.waitForFunction(() => /Wrong: \d+ messages wait, and none is delivered/.test(document.querySelector("main .panel")?.textContent), LIMIT);
      assert.equal(await page.$eval("main .panel h2", (heading) => heading.textContent), "What needs attention");
      await page.waitForFunction(() => /^(warning|error) /.test(document.querySelector("div.log li")?.textContent), LIMIT);
      const texts = await page.evaluate(async () => {
        const lines = await (await fetch("api/log")).json();
        return { kinds: new Set(lines.map((line) => `${line.level}/${line.source}/${line.text.replace(/\d+/g, "0")}`)).size, rows: document.querySelectorAll("div.log li").length };
      });
      assert.ok(texts.rows <= texts.kinds, JSON.stringify(texts));
      await shoot(page, "machine-problems");
      // A source without a picture: its zones can be drawn all the same.
      await page.evaluate(() => {
        window.scrollTo(0, 1e6);
        location.hash = "zones/gone";
      });
      await page.waitForFunction(() => /can be drawn without a picture/.test(document.querySelector(".editor .hint")?.textContent), LIMIT);
      assert.equal(await page.evaluate(() => scrollY), 0);
      // Without a name, one that has a picture.
      await page.evaluate(() => { location.hash = "zones"; });
      await page.waitForFunction(() => document.querySelector("form.filter select")?.value === "here", LIMIT);
      await page.browserContext().close();
    });
  } finally {
    await broken.stop();
  }

  const camera = await start(binary, { config: VIDEO_CONFIG(binary, model), web: ["without_users: administrator"] });
  try {
    await flow("disks are shown by what takes their space, with the days that are left", async () => {
      const page = await open(camera.origin, { hash: "#machine" });
      await page.waitForFunction(() => [...document.querySelectorAll(".disk .legend li")].some((item) => /^clips \d/.test(item.textContent)), { timeout: 90000 });
      const facts = await page.$$eval(".storage .facts div", (found) => Object.fromEntries(found.map((fact) => [fact.querySelector("dt").textContent, fact.querySelector("dd").textContent])));
      assert.match(facts.Growth, /a day$/);
      assert.match(facts["Until the oldest must go"], /days|hours|year/);
      await page.$eval(".storage", (node) => node.scrollIntoView());
      await shoot(page, "machine-disks");
      await page.browserContext().close();
    });
  } finally {
    await camera.stop();
  }
}
