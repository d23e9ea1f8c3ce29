// SPDX-License-Identifier: Apache-2.0
// The views of a daemon with two cameras that keeps pictures and clips, as the guide shows them: no finding of axe in any, light and dark.

import assert from "node:assert/strict";

import { findings } from "./access.mjs";
import { KEEPING, start } from "./daemon.mjs";
import { DESKTOP, LIMIT, PHONE, binary, flow, isFirefox, logIn, open, press, shoot } from "./harness.mjs";

const CONFIG = (port, web, folder) => `device: gatehouse
sources:
  - name: gate
    uri: synthetic://traffic?seed=1&objects=8&width=1280&height=720&fps=10
    zones:
      - {name: crossing, coordinates: "0.50,0.56,0.83,0.56,0.94,0.84,0.62,0.84", objects: [person]}
    lines:
      - {name: stop-line, coordinates: "0.50,0.50,0.60,0.86"}
  - name: yard
    uri: synthetic://traffic?seed=7&objects=8&width=1280&height=720&fps=10
detector: {backend: scripted}
publish: {mqtt: off, stats_interval_s: 1}
${KEEPING(port, web, folder)}`;

/** What each view has once it is whole. */
const VIEWS = {
  live: () => document.querySelectorAll(".tile").length === 2 && [...document.querySelectorAll(".tile .layer")].every((layer) => Number(layer.dataset.boxes) > 1),
  events: () => [...document.querySelectorAll(".now .event")].slice(0, 6).filter((card) => card.querySelector("canvas")).length > 4 && [...document.querySelectorAll(".list .event img")].filter((image) => image.naturalWidth > 0).length > 7,
  "zones/gate": () => document.querySelector(".frame")?.dataset.live && document.querySelectorAll(".shape").length === 2,
  machine: () => document.querySelectorAll(".plots svg").length > 2,
};

export async function guideFlows() {
  const box = await start(binary, { config: CONFIG, users: [["anna", "administrator"]] });
  const see = async (page, tab) => {
    await page.evaluate((hash) => { location.hash = hash; }, tab);
    await page.waitForFunction(VIEWS[tab], { timeout: 120000 });
  };
  try {
    await flow("views of the guide: live, events, zones, machine", async () => {
      const page = await open(box.origin, { view: { ...DESKTOP, width: 1280, height: 800 } });
      await logIn(page, "anna");
      for (const tab of Object.keys(VIEWS)) {
        await see(page, tab);
        await shoot(page, `guide-${tab.split("/")[0]}`);
      }
      await page.browserContext().close();
    });
    for (const [scheme, view, name] of [["light", { ...DESKTOP, width: 1280, height: 800 }, "guide-player"], ["dark", PHONE, "player-phone"]]) {
      await flow(`views of the guide: the player and a link, ${scheme}`, async () => {
        const page = await open(box.origin, { scheme, view });
        await logIn(page, "anna");
        await see(page, "events");
        // The player has a busy browser to do with: its events come late.
        const busy = await page.evaluate(() => setInterval(() => { for (const begin = performance.now(); performance.now() < begin + 100;); }, 120));
        const card = await page.waitForFunction(() => [...document.querySelectorAll(".list .event[data-kind=object][data-label=car]")].find((one) => one.textContent.includes("clip")), { timeout: 120000 });
        await card.evaluate((one) => one.querySelector("button.thumb").click());
        await page.waitForFunction(() => document.querySelector("dialog.viewer video")?.readyState > 1 && document.querySelector("dialog .layer")?.dataset.boxes === "1", LIMIT);
        await page.$eval("dialog.viewer video", (video, timer) => {
          clearInterval(timer);
          video.pause();
          // A little further it is wholly in the picture.
          video.currentTime = Math.min(video.currentTime + 0.7, video.duration - 0.2);
        }, busy);
        await page.waitForFunction(() => !document.querySelector("dialog.viewer video").seeking, LIMIT);
        const found = await findings(page);
        await shoot(page, name);
        await press(page, "Share");
        await page.waitForSelector("dialog[open] select[name=hours]", LIMIT);
        found.push(...await findings(page));
        assert.deepEqual(found, []);
        await page.browserContext().close();
      }, { onlyChromium: isFirefox && scheme === "dark" && "colors of the system are set by its protocol" });
    }
  } finally {
    await box.stop();
  }
}
