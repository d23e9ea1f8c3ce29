// SPDX-License-Identifier: Apache-2.0
// Figures of the page in Chromium: `node numbers.mjs BINARY MODEL`. Prints them and judges nothing: they are those of this machine, now.

import { readdirSync, statSync } from "node:fs";

import { VIDEO_CONFIG, start } from "./daemon.mjs";
import { LIMIT, binary, browser, model, open, tilesShow } from "./harness.mjs";

const PICTURES = 60;
const CLICKS = 10;

const sorted = (values) => [...values].sort((a, b) => a - b);
const share = (values, part) => sorted(values)[Math.min(values.length - 1, Math.floor(values.length * part))];
const tell = (what, values, unit) => console.log(`${what}: median ${share(values, 0.5).toFixed(0)} ${unit}, 95 % ${share(values, 0.95).toFixed(0)} ${unit}, greatest ${share(values, 1).toFixed(0)} ${unit} (${values.length})`);

const box = await start(binary);
try {
  const page = await open(box.origin);
  await tilesShow(page, 3);
  // The time of capture is in the head of each part; the clock is that of the same machine.
  const behind = await page.evaluate(async (count) => {
    const answer = await fetch("api/sources/gate/mjpeg");
    const reader = answer.body.getReader();
    const found = [];
    let bytes = new Uint8Array();
    const text = (part) => new TextDecoder("latin1").decode(part);
    while (found.length < count) {
      const { value } = await reader.read();
      const joined = new Uint8Array(bytes.length + value.length);
      joined.set(bytes);
      joined.set(value, bytes.length);
      bytes = joined;
      for (;;) {
        const head = /Content-Length: (\d+)\r\nX-Captured-Ms: (\d+)\r\n\r\n/.exec(text(bytes.subarray(0, 400)));
        if (!head) break;
        const begin = head.index + head[0].length;
        const end = begin + Number(head[1]);
        if (bytes.length < end) break;
        (await createImageBitmap(new Blob([bytes.subarray(begin, end)], { type: "image/jpeg" }))).close();
        found.push([Date.now() - Number(head[2]), Number(head[2])]);
        bytes = bytes.slice(end);
      }
    }
    await reader.cancel();
    return found;
  }, PICTURES);
  // The first may be one that was there before.
  const fresh = behind.slice(1);
  tell("MJPEG, from capture to a decoded picture in the browser", fresh.map(([ms]) => ms), "ms");
  tell("MJPEG, between two pictures", fresh.slice(1).map(([, at], index) => at - fresh[index][1]), "ms");
  await page.browserContext().close();
} finally {
  await box.stop();
}

const camera = await start(binary, { config: VIDEO_CONFIG(binary, model) });
try {
  const page = await open(camera.origin);
  await page.waitForFunction(() => [...document.querySelectorAll(".tile button")].some((button) => button.textContent === "Camera stream" && !button.hidden), LIMIT);
  const times = [];
  for (let count = 0; count < CLICKS; count += 1) {
    times.push(await page.evaluate(async () => {
      const button = [...document.querySelectorAll(".tile button")].find((found) => found.textContent === "Camera stream");
      const from = performance.now();
      button.click();
      const video = document.querySelector(".tile video");
      const at = await new Promise((done) => { video.requestVideoFrameCallback((now) => done(now)); });
      button.click();
      return at - from;
    }));
    await new Promise((done) => setTimeout(done, 700));
  }
  tell("Media Source, from the click to the first picture on the screen", times, "ms");
  await page.browserContext().close();
} finally {
  await camera.stop();
  await browser.close();
}

const folder = process.env.PAGE_FILES;
if (folder) {
  const files = readdirSync(folder);
  const size = files.reduce((sum, name) => sum + statSync(`${folder}/${name}`).size, 0);
  console.log(`files of the page in the program: ${files.length}, ${size} bytes`);
}
