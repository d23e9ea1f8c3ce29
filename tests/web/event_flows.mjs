// SPDX-License-Identifier: Apache-2.0
// Flows of the events: pages, filters, the address, what is kept of earlier runs.

import assert from "node:assert/strict";

import { KEPT_CONFIG, busyConfig, start } from "./daemon.mjs";
import { LIMIT, binary, flow, model, open, shoot } from "./harness.mjs";

const rows = (page) => page.$$eval(".list .event", (found) => found.map((row) => ({ ...row.dataset, text: row.textContent })));

export async function eventFlows() {
  const busy = await start(binary, { config: busyConfig });
  try {
    await flow("earlier events come page by page, by scrolling and by the button", async () => {
      const page = await open(busy.origin);
      await page.waitForFunction(async () => (await (await fetch("api/events?limit=200")).json()).events.length >= 200, { timeout: 120000, polling: 1000 });
      await page.evaluate(() => { location.hash = "events?to=" + new Date().toISOString(); });
      await page.waitForFunction(() => document.querySelectorAll(".list .event").length >= 50, LIMIT);
      // Messages about the last moments may still be on their way, and belong into the list.
      const first = (await rows(page)).length;
      assert.ok(first >= 50 && first < 80, String(first));
      await page.evaluate(() => document.querySelector(".list .event:last-child").scrollIntoView());
      await page.waitForFunction(() => document.querySelectorAll(".list .event").length >= 100, LIMIT);
      await page.evaluate(() => window.scrollTo(0, 0));
      const second = (await rows(page)).length;
      await page.focus(".more");
      await page.keyboard.press("Enter");
      // Of tracks that are still in view, the last message is after that time.
      await page.waitForFunction((before) => document.querySelectorAll(".list .event").length > before, LIMIT, second);
      const texts = await page.evaluate(async () => {
        const all = [];
        for (let before = ""; before !== null;) {
          const found = await (await fetch(`api/events?limit=37&before=${before}`)).json();
          all.push(...found.events.map(({ number }) => number));
          before = found.next;
        }
        return all;
      });
      assert.ok(texts.every((number, at) => at === 0 || number === texts[at - 1] - 1), "each number once, in order");
      await page.browserContext().close();
    });

    await flow("the filter is in the address, and tracks are found by their zones", async () => {
      const page = await open(busy.origin, { hash: "#events?source=gate&zone=left" });
      await page.waitForFunction(() => document.querySelectorAll(".list .event[data-kind=event]").length > 0, LIMIT);
      assert.deepEqual(await page.$$eval(".filter select", (found) => found.map((select) => select.value)), ["gate", "", "left"]);
      for (const row of await rows(page)) {
        assert.equal(row.source, "gate");
        assert.ok(row.kind === "analytics" ? /, left/.test(row.text) : row.rules.split(" ").includes("left"), row.text);
      }
      const label = (await rows(page)).find((row) => row.kind === "event").label;
      await page.select("select[name=label]", label);
      await page.waitForFunction((wanted) => location.hash === `#events?source=gate&label=${wanted}&zone=left`, LIMIT, label);
      await page.waitForFunction((wanted) => {
        const found = [...document.querySelectorAll(".list .event")];
        return found.length > 0 && found.every((row) => row.dataset.label === wanted);
      }, LIMIT, label);
      await shoot(page, "events-filtered");
      await page.reload();
      await page.waitForFunction((wanted) => document.querySelector("select[name=label]") && document.querySelector("select[name=label]").value === wanted, LIMIT, label);
      await page.evaluate(() => [...document.querySelectorAll("button")].find((button) => button.textContent === "Clear the filter").click());
      await page.waitForFunction(() => location.hash === "#events" && new Set([...document.querySelectorAll(".list .event")].map((row) => row.dataset.source)).size > 1, LIMIT);
      await page.browserContext().close();
    });

    await flow("times limit the list, and a time that is past gets no new events", async () => {
      const page = await open(busy.origin);
      const [from, to] = await page.evaluate(async () => {
        const { events } = await (await fetch("api/events?limit=200")).json();
        // A track that is long in view has begun before events that stand below it.
        const times = events.map(({ message }) => message.started_at || message.at).sort();
        // The fields of the page hold whole seconds.
        const second = (at, more) => new Date((Math.floor(Date.parse(at) / 1000) + more) * 1000).toISOString();
        return [second(times[60], 0), second(times[100], 1)];
      });
      await page.evaluate((hash) => { location.hash = hash; }, `events?from=${from}&to=${to}`);
      const outside = async () => (await rows(page)).filter((row) => Number(row.at) < Date.parse(from) || Number(row.at) > Date.parse(to));
      // The list without the filter goes first.
      await page.waitForFunction((first, last) => {
        const times = [...document.querySelectorAll(".list .event")].map((row) => Number(row.dataset.at));
        return times.length > 0 && times.every((at) => at >= first && at <= last);
      }, LIMIT, Date.parse(from), Date.parse(to));
      await page.waitForFunction(async (before) => (await (await fetch("api/events?limit=1")).json()).events[0].number > before, { ...LIMIT, polling: 200 }, await page.evaluate(async () => (await (await fetch("api/events?limit=1")).json()).events[0].number));
      assert.deepEqual(await outside(), []);
      await page.browserContext().close();
    });
  } finally {
    await busy.stop();
  }

  const kept = KEPT_CONFIG(binary, model);
  const first = await start(binary, { config: kept.config, web: ["without_users: operator"] });
  try {
    await flow("pictures and clips appear in the list when they are ready", async () => {
      const page = await open(first.origin, { hash: "#events" });
      await page.waitForFunction(() => document.querySelectorAll(".list .event[data-kind=event] button.thumb").length >= 2, { timeout: 90000 });
      await page.waitForFunction(() => [...document.querySelectorAll(".list .event[data-kind=event] .actions button")].some((button) => button.textContent === "Play"), { timeout: 90000 });
      await page.browserContext().close();
    });
  } finally {
    await first.stop();
  }
  const second = await start(binary, { config: kept.config, web: ["without_users: operator"] });
  try {
    await flow("what is kept of earlier runs follows the events of this one, each once", async () => {
      const page = await open(second.origin, { hash: "#events" });
      await page.waitForFunction(() => document.querySelectorAll(".list .event[data-kind=kept] button.thumb").length > 0, { timeout: 90000 });
      const pictures = await page.$$eval(".list .event img", (found) => found.map((image) => image.src));
      assert.equal(new Set(pictures).size, pictures.length);
      const clips = await page.$$eval(".list .event a.button", (found) => found.map((link) => link.href));
      assert.ok(clips.length > 0);
      await shoot(page, "events-kept-earlier");
      await page.select("select[name=kind]", "continuous");
      await page.waitForFunction(() => [...document.querySelectorAll(".list .event")].length > 0 && [...document.querySelectorAll(".list .event strong")].every((title) => title.textContent === "Recording"), { timeout: 90000 });
      await page.browserContext().close();
    });
  } finally {
    await second.stop();
    kept.remove();
  }
}
