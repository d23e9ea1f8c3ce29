// SPDX-License-Identifier: Apache-2.0
// What users of other pages reported, tried on this one; each flow names the threads.

import assert from "node:assert/strict";
import { connect, createServer } from "node:net";

import { freePort, start } from "./daemon.mjs";
import { LIMIT, PHONE, binary, flow, open } from "./harness.mjs";

const config = (port, web) => `device: test-box
sources:
  - name: a__b-c_1
    uri: synthetic://traffic?seed=1&objects=6&width=640&height=360&fps=10
    zones:
      - {name: to__r-, coordinates: '0,0,1,0,1,1,0,1'}
detector: {backend: scripted}
publish: {mqtt: off, stats_interval_s: 1}
web:
  listen: 127.0.0.1:${port}
${web.map((line) => `  ${line}\n`).join("")}`;

/** Passes connections on to `target`; those that are open at `lose` carry nothing from then on, and stay open. */
export async function relay(target) {
  const pairs = new Set();
  const server = createServer((near) => {
    const pair = { near, far: connect(target, "127.0.0.1"), isLost: false };
    pairs.add(pair);
    for (const [from, to] of [[pair.near, pair.far], [pair.far, pair.near]]) {
      from.on("data", (part) => pair.isLost || to.write(part));
      from.on("error", () => {});
      from.on("close", () => to.destroy());
    }
  });
  const port = await freePort();
  await new Promise((done) => server.listen(port, "127.0.0.1", done));
  return {
    origin: `http://127.0.0.1:${port}`,
    lose: () => pairs.forEach((pair) => { pair.isLost = true; }),
    close: () => {
      server.close();
      for (const { near } of pairs) near.destroy();
    },
  };
}

export async function fieldFlows() {
  const box = await start(binary, { config, web: ["without_users: operator"] });
  try {
    await flow("a connection that is lost without an end is made again, in full screen, too (thingino-firmware#1595, moonfire-nvr#115, ui3#76)", async () => {
      const network = await relay(box.port);
      const page = await open(network.origin);
      const pictures = () => page.$eval(".tile", (tile) => Number(tile.dataset.pictures));
      await page.waitForFunction(() => Number(document.querySelector(".tile")?.dataset.pictures) > 2, LIMIT);
      await page.click(".tile .frame");
      await page.waitForFunction(() => document.fullscreenElement, LIMIT);
      network.lose();
      await page.waitForFunction(() => document.querySelector(".frozen"), LIMIT);
      await page.waitForFunction((before) => !document.querySelector(".frozen") && Number(document.querySelector(".tile").dataset.pictures) > before, { timeout: 60000 }, await pictures());
      await page.waitForFunction(() => document.querySelector("#link").textContent === "Connected", LIMIT);
      // The messages are those of the new connection.
      const figures = await page.$eval(".tile .figures", (node) => node.textContent);
      await page.waitForFunction((before) => document.querySelector(".tile .figures").textContent !== before, LIMIT, figures);
      assert.ok(await page.evaluate(() => document.fullscreenElement?.matches(".tile .frame")));
      await page.browserContext().close();
      network.close();
    });

    await flow("an address that was cut within a letter opens its view (mithril.js#2060)", async () => {
      for (const [hash, heading] of [["#events/%E4%BA", "Events"], ["#zones/%", "Zones and lines"], ["#live/%F", "Live view"], ["#events?label=%E4", "Events"]]) {
        const page = await open(box.origin, { hash });
        await page.waitForFunction((text) => document.querySelector("main h1")?.textContent === text, LIMIT, heading);
        assert.deepEqual(page.problems, [], hash);
        await page.browserContext().close();
      }
    });

    await flow("a browser that keeps nothing for the page shows all views (crates.io#47)", async () => {
      const page = await open(box.origin, { hash: "#nothing" });
      await page.evaluateOnNewDocument(() => Object.defineProperty(window, "localStorage", {
        get: () => {
          throw new DOMException("Access is denied for this document.", "SecurityError");
        },
      }));
      await page.reload();
      for (const hash of ["live", "events", "zones", "machine"]) {
        await page.evaluate((view) => { location.hash = view; }, hash);
        await page.waitForFunction((view) => document.querySelector(`nav a[aria-current=page]`)?.hash === `#${view}` && document.querySelector("main h1"), LIMIT, hash);
      }
      await page.evaluate(() => { location.hash = "events"; });
      await page.waitForSelector(".list .event", LIMIT);
      await page.click(".head .tools button[aria-pressed=false]");
      assert.deepEqual(page.problems, []);
      await page.browserContext().close();
    });

    await flow("a day on which the clock is changed is whole, and its hours are in their places (frigate#3991, frigate#7935)", async () => {
      const page = await open(box.origin);
      await page.waitForSelector(".tile", LIMIT);
      // Of Cairo's day, the first hour is missing.
      for (const [zone, date, hours, noon] of [["Europe/Berlin", "2026-10-25", 25, 13], ["Europe/Berlin", "2026-03-29", 23, 11], ["Africa/Cairo", "2026-04-24", 23, 11], ["Asia/Tokyo", "2026-04-24", 24, 12]]) {
        await page.emulateTimezone(zone);
        const [length, place, around] = await page.evaluate(async (text) => {
          const { dayOf, makeTimeline } = await import("./timeline.js");
          const day = dayOf(new Date(`${text}T12:00`));
          const line = makeTimeline({ onPick: () => {} });
          line.show(day, ["gate"], {});
          const mark = [...line.node.querySelectorAll(".scale span")].find((found) => found.textContent === "12");
          return [(dayOf(day, 1) - day) / 3600000, parseFloat(mark.style.left), [-1, 1].map((step) => new Date(dayOf(day, step)).getHours())];
        }, date);
        assert.deepEqual([length, around], [hours, [0, 0]], `${zone} ${date}`);
        assert.ok(Math.abs(place - (noon / hours) * 100) < 0.01, `${zone} ${date}: ${place}`);
      }
      await page.browserContext().close();
    }, { onlyChromium: "the time zone is set by its protocol" });

    await flow("a clip that begins with what the camera had kept is placed in time by its end", async () => {
      const page = await open(box.origin);
      const found = await page.evaluate(async () => {
        const { beginOf } = await import("./player.js");
        const clips = [[90000, 98000, 10], [90000, 99900, 10], [90000, 98000, 6], [90000, null, 10], [90000, 98000, NaN]];
        return clips.map(([from_ms, to_ms, duration]) => beginOf({ from_ms, to_ms }, { duration }));
      });
      assert.deepEqual(found, [88000, 90000, 90000, 90000, 90000]);
      await page.browserContext().close();
    });

    await flow("a time of the hour that the change of clocks repeats stays what it is", async () => {
      const page = await open(box.origin, { hash: "#events" });
      await page.waitForSelector(".list .event", LIMIT);
      await page.emulateTimezone("Europe/Berlin");
      const found = await page.evaluate(async () => {
        const { timeField, timeOf } = await import("./dom.js");
        const [first, again] = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"].map((time) => timeField("from", Date.parse(time)));
        const shown = [first.value, again.value, timeOf(first), timeOf(again)];
        again.value = "2026-10-25T05:00";
        return [...shown, timeOf(again), String(timeOf(timeField("from", NaN)))];
      });
      assert.deepEqual(found, ["2026-10-25T02:30", "2026-10-25T02:30", Date.parse("2026-10-25T00:30:00Z"), Date.parse("2026-10-25T01:30:00Z"), Date.parse("2026-10-25T04:00:00Z"), "NaN"]);
      await page.browserContext().close();
    }, { onlyChromium: "the time zone is set by its protocol" });

    await flow("a browser whose clock is wrong by hours shows the times and the last hour of the daemon", async () => {
      for (const hours of [2, -2]) {
        const page = await open(box.origin);
        await page.evaluateOnNewDocument((ms) => {
          window.Date = class extends Date {
            constructor(...parts) {
              super(...(parts.length > 0 ? parts : [Date.now() + ms]));
            }

            static now() {
              return super.now() + ms;
            }
          };
        }, hours * 3600000);
        await page.goto(`${box.origin}/#zones/a__b-c_1`);
        await page.reload();
        await page.waitForFunction(() => /last hour: [1-9]\d* entered/.test(document.querySelector(".shapes")?.textContent), LIMIT);
        await page.evaluate(() => { location.hash = "events"; });
        await page.waitForFunction(() => /^[\d.]+ (sec|min)$/.test(document.querySelector(".now .badge.live")?.textContent), LIMIT);
        await page.waitForFunction(() => Number(document.querySelector(".day .track").dataset.objects) > 0, LIMIT);
        assert.deepEqual(page.problems, []);
        await page.browserContext().close();
      }
    });

    await flow("names with repeated underscores and hyphens lead to their events and rules (frigate#15257, frigate#12093)", async () => {
      const page = await open(box.origin, { hash: "#events?source=a__b-c_1&zone=to__r-" });
      await page.waitForFunction(() => document.querySelector(".list .event[data-rules='to__r-'] .thumb")?.click() ?? document.querySelector("dialog.viewer")?.open, LIMIT);
      const { hash } = new URL(page.url());
      const other = await open(box.origin, { hash });
      await other.waitForFunction(() => /to__r-/.test(document.querySelector("dialog.viewer[open] .facts")?.textContent), LIMIT);
      assert.deepEqual([...page.problems, ...other.problems], []);
      await other.browserContext().close();
      await page.browserContext().close();
    });

    await flow("a rule without a name is refused with its reason (frigate#22732)", async () => {
      const page = await open(box.origin, { hash: "#zones/a__b-c_1" });
      await page.waitForSelector(".shapes input", LIMIT);
      await page.click(".shapes input", { count: 3 });
      await page.keyboard.press("Backspace");
      const before = box.text();
      await page.waitForFunction(() => /name: found "", expected letters/.test(document.querySelector(".problems")?.textContent), LIMIT);
      assert.equal(await page.$eval(".side button.primary", (save) => save.disabled), true);
      assert.equal(box.text(), before);
      await page.browserContext().close();
    });

    await flow("a day is scrubbed by a finger (immich#16856)", async () => {
      const page = await open(box.origin, { hash: "#events", view: PHONE });
      await page.waitForSelector(".day .track", LIMIT);
      await page.$eval(".day .track", (track) => track.scrollIntoView({ block: "center" }));
      const { x, y, width } = await (await page.$(".day .track")).boundingBox();
      await page.touchscreen.touchStart(x + width * 0.2, y + 10);
      for (const share of [0.3, 0.4, 0.5]) await page.touchscreen.touchMove(x + width * share, y + 10);
      await page.waitForFunction(() => Math.abs(Number(document.querySelector(".day .track").getAttribute("aria-valuenow")) - 43200) < 3600, LIMIT);
      await page.touchscreen.touchEnd();
      await page.waitForFunction(() => document.querySelector("dialog.viewer")?.open, LIMIT);
      await page.browserContext().close();
    });
  } finally {
    await box.stop();
  }
}
