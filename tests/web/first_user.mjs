// SPDX-License-Identifier: Apache-2.0
// The first user of a page without one, by the link in the log of the daemon; and the first hour: a camera, a zone and an event.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { findings } from "./access.mjs";
import { support } from "./camera_flows.mjs";
import { PASSWORD, start } from "./daemon.mjs";
import { LIMIT, PHONE, binary, flow, model, open, shoot } from "./harness.mjs";

/** The most commands and clicks from a clone to a camera with a name, a zone and an event with its picture. */
const MAX_COMMANDS = 3;
const MAX_CLICKS = 12;

const ROOT = `${process.env.PAGE_FILES}/../../../..`;

export async function firstUserFlows() {
  const box = await start(binary, { web: ["users_file: users"] });
  try {
    await flow("the first user is made by the link of the log, once", async () => {
      const [link] = box.log.join("").match(/http:\S+first\.html#\w+/);
      const page = await open(box.origin, { view: PHONE });
      await page.waitForSelector("#without:not([hidden])", LIMIT);
      assert.match(await page.$eval("#without", (node) => node.textContent), /jetwatch page/);
      assert.deepEqual(await findings(page), []);
      await page.goto(link);
      await page.waitForSelector("#form:not([hidden])", LIMIT);
      assert.ok(!page.url().includes("#"), page.url());
      // The link holds while another language is chosen.
      await page.select("#language", "de");
      await page.waitForFunction(() => document.querySelector("#form button").textContent === "Benutzer anlegen", LIMIT);
      await page.select("#language", "en");
      await page.waitForFunction(() => document.querySelector("#form button").textContent === "Make the user", LIMIT);
      assert.deepEqual(await findings(page), []);
      await shoot(page, "first-user-phone");
      for (const [name, value] of [["user", "anna"], ["password", PASSWORD], ["again", "another password"]]) {
        await page.type(`input[name=${name}]`, value);
      }
      await page.click("button[type=submit]");
      await page.waitForFunction(() => document.getElementById("problem").textContent === "The passwords differ.", LIMIT);
      await page.$eval("input[name=again]", (node) => { node.value = ""; });
      await page.type("input[name=again]", PASSWORD);
      await page.click("button[type=submit]");
      await page.waitForSelector(".tile", LIMIT);
      assert.equal(await page.$eval("#user", (node) => node.textContent), "anna, administrator");
      await page.browserContext().close();

      const late = await open(box.origin, { hash: link.slice(box.origin.length + 1) });
      await late.waitForSelector("#form:not([hidden])", LIMIT);
      for (const [name, value] of [["user", "otto"], ["password", PASSWORD], ["again", PASSWORD]]) {
        await late.type(`input[name=${name}]`, value);
      }
      await late.click("button[type=submit]");
      await late.waitForFunction(() => document.getElementById("problem").textContent.startsWith("The link has been used"), LIMIT);
      await late.browserContext().close();
    });
  } finally {
    await box.stop();
  }

  // The commands of README, of which the second makes this configuration.
  const commands = ["make demo", "cp examples/minimal.yaml gate.yaml", "./jetwatch run --config gate.yaml"];
  const minimal = (port, web) => `${readFileSync(`${ROOT}/examples/minimal.yaml`, "utf8").replace("model: street-nano", `model: ${model}`).replace("mqtt: {broker: embedded}", "mqtt: off")}web:
  listen: 127.0.0.1:${port}
${web.map((line) => `  ${line}\n`).join("")}`;
  const folder = mkdtempSync(join(tmpdir(), "jetwatch-web-first-"));
  const [scene, video] = ["scene.yaml", "street.mp4"].map((name) => join(folder, name));
  writeFileSync(scene, "sources: [{name: scene, uri: 'synthetic://traffic?seed=3&objects=6&width=640&height=360&fps=15'}]\ndetector: {backend: scripted}\npublish: {mqtt: off}\n");
  execFileSync(binary, ["run", "--config", scene, "--record", video, "--duration", "40s"], { stdio: "ignore" });
  const camera = await support("rtsp_server.py", ["--user", "admin", "--password", "secret", "--video", video]);
  const fresh = await start(binary, { config: minimal, web: ["users_file: users"] });
  try {
    await flow(`from the first start to a named camera, a zone and an event with its picture it takes ${MAX_CLICKS} clicks and ${MAX_COMMANDS} commands`, async () => {
      const readme = readFileSync(`${ROOT}/README.md`, "utf8");
      assert.ok(commands.every((command) => readme.includes(`    ${command}`)) && commands.length <= MAX_COMMANDS);
      let clicks = 0;
      const [link] = fresh.log.join("").match(/http:\S+first\.html#\w+/);
      const page = await open(fresh.origin, { hash: link.slice(fresh.origin.length + 1) });
      /** Clicks with the mouse in the middle of what `find` gives, or at a place of it. */
      const press = async (find, [x, y] = [0.5, 0.5]) => {
        const node = (await page.waitForFunction(find, LIMIT)).asElement();
        await node.evaluate((one) => one.scrollIntoView({ block: "nearest" }));
        const area = await node.boundingBox();
        await page.mouse.click(area.x + x * area.width, area.y + y * area.height);
        clicks += 1;
      };
      const button = (label) => `[...document.querySelectorAll("button, main a")].find((one) => one.checkVisibility() && !one.disabled && one.textContent === ${JSON.stringify(label)})`;
      await page.waitForSelector("#form:not([hidden])", LIMIT);
      for (const [name, value] of [["user", "anna"], ["password", PASSWORD], ["again", PASSWORD]]) await page.type(`input[name=${name}]`, value);
      await press(button("Make the user"));
      await press("document.querySelector('#cameras')?.checkVisibility() && document.querySelector('#cameras')");
      await page.waitForSelector("input[name=address]", LIMIT);
      await page.type("input[name=address]", `rtsp://admin:secret@127.0.0.1:${camera.port}/video`);
      await press(button("Test as a stream"));
      await page.waitForFunction(() => document.querySelector(".look .sample")?.naturalWidth > 300, LIMIT);
      await page.$eval(".look input[name=name]", (input) => { input.value = ""; });
      await page.type(".look input[name=name]", "door");
      await press(button("Add to the configuration"));
      await press("document.querySelector('.look a[href=\"#zones/door\"]')");
      await page.waitForFunction(() => document.querySelector(".frame")?.dataset.live, LIMIT);
      await press(button("Draw a zone"));
      for (const corner of [[0.02, 0.02], [0.98, 0.02], [0.5, 0.98], [0.02, 0.02]]) await press("document.querySelector('.drawing')", corner);
      await press(button("Save and reload"));
      await page.waitForFunction(() => document.querySelector(".result")?.textContent === "Saved and in effect.", LIMIT);
      await press("document.querySelector('#tabs a[href^=\"#events\"]')");
      await page.waitForFunction(() => [...document.querySelectorAll(".event[data-source=door][data-rules='zone-1']")].some((card) => card.querySelector("img, canvas")), { timeout: 90000 });
      await shoot(page, "first-hour");
      assert.ok(clicks <= MAX_CLICKS, `${clicks} clicks`);
      await page.browserContext().close();
    });
  } finally {
    await fresh.stop();
    camera.stop();
    rmSync(folder, { recursive: true });
  }
}
