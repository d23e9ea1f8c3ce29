// SPDX-License-Identifier: Apache-2.0
// Figures of the page in Chromium: `node numbers.mjs BINARY MODEL`. Prints them and judges nothing: they are those of this machine, now.

import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { gzipSync } from "node:zlib";

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
}

/** Fills the index in a folder of recordings with as many objects, each with a picture, over a day. */
const FILL = `
import json, sqlite3, sys, time
path, count = sys.argv[1], int(sys.argv[2])
base = sqlite3.connect(path, timeout=30)
# A row that is replaced is taken out of the sums.
base.execute("PRAGMA recursive_triggers = ON")
now = int(time.time() * 1e6)
step = 86400 * 10**6 // count
labels = ["person", "car", "bus", "bicycle"]
for n in range(count):
    at = now - (n + 1) * step
    track, source, label = f"{at / 1e6:.6f}-gate-{n}", f"cam{n % 8}", labels[n % 4]
    zones = json.dumps(["door", "yard"][: n % 3])
    trail = [[at // 1000 + 200 * i, 0.1 + i / 50, 0.2, 0.3 + i / 50, 0.6] for i in range(12)]
    details = json.dumps({"duration_ms": 5000, "happened": [{"type": "zone_entered", "name": "door", "at": "2026-01-01T00:00:00Z"}], "path": trail})
    ident = f"s{at // 1000:012x}{n % 4096:03x}"
    base.execute("INSERT OR IGNORE INTO items VALUES (?,'snapshot','ready',?,?,?,90000,?,?,?,'[0.1,0.2,0.3,0.6]',0,0,NULL,NULL,1,?)",
                 (ident, source, at, at, label, json.dumps([track]), zones, f"{source}/none/{ident}.jpg"))
    base.execute("INSERT OR REPLACE INTO objects VALUES (?,?,?,?,?,0.8,?,1,0)", (track, source, label, at, at + 5 * 10**6, zones))
    base.execute("INSERT OR REPLACE INTO object_details VALUES (?,?)", (track, details))
base.commit()
# Else the daemon reads all of them in a log of 350 MB, and writes that back while it answers.
base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
`;

const OBJECTS = 100000;
let media = "";
const kept = await start(binary, { config: (port, web, folder) => {
  media = `${folder}/media`;
  return VIDEO_CONFIG(binary, model)(port, web, folder);
} });
try {
  const page = await open(kept.origin);
  await page.waitForFunction(async () => (await (await fetch("api/objects?limit=1")).json()).is_ready, { ...LIMIT, polling: 200 });
  execFileSync("python3", ["-c", FILL, `${media}/index.sqlite`, String(OBJECTS)], { stdio: "inherit" });
  await page.waitForSelector(".tile", LIMIT);
  for (const path of ["objects?limit=50", "objects?limit=50&label=car", "objects?limit=50&zone=yard", "objects?limit=50&zone=none", "objects?limit=50&source=cam0&label=car", "objects?limit=50&new=1", "objects/facets", "activity", "media?limit=50&zone=none"]) {
    tell(`${OBJECTS} objects, api/${path}`, await page.evaluate(async (wanted, count) => {
      const found = [];
      for (let at = 0; at < count; at += 1) {
        const from = performance.now();
        await (await fetch(`api/${wanted}`)).json();
        found.push(performance.now() - from);
      }
      return found;
    }, path, CLICKS), "ms");
  }
  const views = [];
  for (let count = 0; count < CLICKS; count += 1) {
    await page.evaluate(() => { location.hash = "live"; });
    await page.waitForSelector(".tile", LIMIT);
    views.push(await page.evaluate(() => new Promise((done) => {
      const from = performance.now();
      new MutationObserver((_, observer) => {
        // All of a page come at once; those of objects in view have their cards elsewhere.
        if (!document.querySelector(".list .event")) return;
        observer.disconnect();
        requestAnimationFrame(() => done(performance.now() - from));
      }).observe(document.body, { childList: true, subtree: true });
      location.hash = "events";
    })));
  }
  tell(`${OBJECTS} objects, from the tab to the first page of cards`, views, "ms");
  // A drag over the day: the time between two frames of the display.
  await page.waitForFunction(() => document.querySelectorAll(".day .track").length >= 8, LIMIT);
  await page.evaluate(() => {
    window.frames_ms = [];
    let last = performance.now();
    const next = (now) => {
      window.frames_ms.push(now - last);
      last = now;
      requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  });
  const area = await (await page.$(".day .track")).boundingBox();
  await page.mouse.move(area.x + 2, area.y + 8);
  await page.mouse.down();
  await page.evaluate(() => { window.frames_ms.length = 0; });
  await page.mouse.move(area.x + area.width - 2, area.y + 8, { steps: 400 });
  tell("scrubbing, between two frames of the display", await page.evaluate(() => window.frames_ms), "ms");
  await page.mouse.up();
  await page.browserContext().close();
} finally {
  await kept.stop();
  await browser.close();
}

const folder = process.env.PAGE_FILES;
if (folder) {
  const files = ["", "text/"].flatMap((under) => readdirSync(`${folder}/${under}`).filter((name) => name.includes(".")).map((name) => under + name));
  const size = files.reduce((sum, name) => sum + statSync(`${folder}/${name}`).size, 0);
  const small = files.reduce((sum, name) => sum + gzipSync(readFileSync(`${folder}/${name}`)).length, 0);
  console.log(`files of the page in the program: ${files.length}, ${size} bytes, ${small} bytes with gzip`);
}
