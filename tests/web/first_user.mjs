// SPDX-License-Identifier: Apache-2.0
// The first user of a page without one, by the link in the log of the daemon.

import assert from "node:assert/strict";

import { findings } from "./access.mjs";
import { PASSWORD, start } from "./daemon.mjs";
import { LIMIT, PHONE, binary, flow, open, shoot } from "./harness.mjs";

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
}
