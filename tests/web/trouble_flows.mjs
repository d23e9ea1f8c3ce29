// SPDX-License-Identifier: Apache-2.0
// Troubles of every day: a reload in the middle of a drawing, two tabs, the way back, long names, sources that leave, a folder that cannot be
// used, a daemon that was killed, a session that ends.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";

import { KEPT_CONFIG, start } from "./daemon.mjs";
import { LIMIT, PHONE, binary, click, flow, logIn, model, open, press, shoot, tilesShow } from "./harness.mjs";

const LONG = "a-name-of-sixty-four-letters-which-is-the-longest-that-there-is-1";

/** Draws these corners of a new zone; the first one again ends it. */
async function draw(page, corners) {
  await page.bringToFront();
  await press(page, "Draw a zone");
  const area = await (await page.$(".drawing")).boundingBox();
  for (const [x, y] of corners) await page.mouse.click(area.x + x * area.width, area.y + y * area.height);
}

const triangle = (x) => [[x, 0.1], [x + 0.1, 0.1], [x + 0.1, 0.2], [x, 0.1]];
const names = (page) => page.$$eval(".shapes input[maxlength]", (inputs) => inputs.map(({ value }) => value));
const isSaved = (page) => page.waitForFunction(() => document.querySelector(".result")?.textContent === "Saved and in effect.", LIMIT);

export async function troubleFlows() {
  const box = await start(binary, { web: ["without_users: operator"] });
  try {
    await flow("a zone that is half drawn is not lost by another view nor by a reload without a question", async () => {
      const page = await open(box.origin, { hash: "#zones/gate" });
      await page.waitForFunction(() => document.querySelectorAll(".shape").length === 2, LIMIT);
      const asked = [];
      page.on("dialog", (dialog) => {
        asked.push(dialog.type());
        return dialog.dismiss();
      });
      await draw(page, triangle(0.1).slice(0, 2));
      await page.evaluate(() => { location.hash = "live"; });
      await page.waitForFunction(() => location.hash === "#zones/gate", LIMIT);
      const reloaded = page.reload(LIMIT).catch(() => {});
      while (!asked.includes("beforeunload")) await new Promise((done) => setTimeout(done, 20));
      assert.deepEqual(asked, ["confirm", "beforeunload"]);
      assert.equal(await page.$eval(".drawn", (line) => line.getAttribute("points").split(" ").length), 2);
      await page.browserContext().close();
      await reloaded;
    }, { onlyChromium: "the answer to a question before a reload needs its protocol" });

    await flow("nothing is drawn nor saved before the rules are there, which are read again after a failure", async () => {
      const page = await open(box.origin);
      await page.evaluateOnNewDocument(() => {
        const { fetch } = window;
        window.fetch = (path, options) => (window.isSlow !== false && options?.method === "GET" && /rules$/.test(path) ? new Promise((_, failed) => { window.fail = failed; }) : fetch(path, options));
      });
      await page.goto(`${box.origin}/#zones/gate`);
      await page.reload();
      await page.waitForFunction(() => window.fail && document.querySelector(".drawing"), LIMIT);
      const enabled = () => page.$$eval(".zones button", (buttons) => buttons.filter((button) => !button.hidden && !button.disabled).map((button) => button.textContent));
      assert.deepEqual(await enabled(), ["Copy YAML"]);
      await page.evaluate(() => {
        window.isSlow = false;
        window.fail(new TypeError("lost"));
      });
      await page.waitForFunction(() => document.querySelector("#notice").textContent !== "", LIMIT);
      await page.evaluate(async () => (await import("./store.js")).connect());
      await page.waitForFunction(() => document.querySelectorAll(".shape").length === 2, LIMIT);
      assert.ok((await enabled()).includes("Draw a zone"));
      await page.browserContext().close();
    });

    await flow("rules that are changed in another tab are shown, or not replaced without a question", async () => {
      const page = await open(box.origin, { hash: "#zones/gate" });
      const other = await page.browserContext().newPage();
      await other.setViewport({ width: 1440, height: 900 });
      await other.goto(`${box.origin}/#zones/gate`);
      for (const one of [page, other]) await one.waitForFunction(() => document.querySelectorAll(".shape").length === 2, LIMIT);
      await draw(page, triangle(0.1));
      await press(page, "Save and reload");
      await isSaved(page);
      // A tab behind another one draws no frames, and waits for none.
      await other.bringToFront();
      await other.waitForFunction(() => [...document.querySelectorAll(".shapes input")].some(({ value }) => value === "zone-1"), LIMIT);
      await draw(other, triangle(0.6));
      assert.ok((await names(other)).includes("zone-2"));
      await draw(page, triangle(0.3));
      await press(page, "Save and reload");
      await isSaved(page);
      await other.bringToFront();
      await other.waitForFunction(() => /changed elsewhere/.test(document.querySelector(".result")?.textContent), LIMIT);
      const asked = [];
      other.on("dialog", (dialog) => {
        asked.push(dialog.message());
        return dialog.dismiss();
      });
      const before = box.text();
      await press(other, "Save and reload");
      assert.match(asked.join(), /changed elsewhere/);
      assert.equal(box.text(), before);
      await press(other, "Discard changes");
      await other.waitForFunction(() => document.querySelector(".result").textContent === "", LIMIT);
      assert.deepEqual((await names(other)).sort(), ["crossing", "parking", "zone-1", "zone-2"]);
      await page.browserContext().close();
    });

    await flow("the way back closes what is open, and the way forward opens it again", async () => {
      const page = await open(box.origin, { view: PHONE });
      await tilesShow(page, 1);
      await page.evaluate(() => { location.hash = "events"; });
      await page.waitForSelector(".list .event", LIMIT);
      await page.evaluate(() => { document.querySelector(".list").dataset.same = "yes"; });
      await click(page, ".list .event button.thumb");
      await page.waitForFunction(() => document.querySelector("dialog.viewer").open && location.hash.startsWith("#events/"), LIMIT);
      const { hash } = new URL(page.url());
      await page.evaluate(() => history.back());
      await page.waitForFunction(() => !document.querySelector("dialog.viewer").open && location.hash === "#events", LIMIT);
      await page.evaluate(() => history.forward());
      await page.waitForFunction((wanted) => document.querySelector("dialog.viewer").open && location.hash === wanted, LIMIT, hash);
      // Closed by its button, it is one step back, too.
      await press(page, "Close");
      await page.waitForFunction(() => location.hash === "#events", LIMIT);
      assert.equal(await page.$eval(".list", (list) => list.dataset.same), "yes", "the list is the same");
      await page.evaluate(() => history.back());
      await page.waitForSelector(".tile", LIMIT);
      assert.deepEqual(page.problems, []);
      await page.browserContext().close();
    });

    await flow("a source that is taken out keeps its events, and has no rules any more", async () => {
      const page = await open(box.origin, { hash: "#events" });
      await page.waitForSelector(".list .event[data-source=yard]", LIMIT);
      box.reconfigure(box.text().replace(/ {2}- name: yard[^]*?(?=detector)/, ""));
      await page.evaluate(() => { location.hash = "live"; });
      await page.waitForFunction(() => document.querySelectorAll(".tile").length === 1, LIMIT);
      await page.evaluate(() => { location.hash = "zones"; });
      await page.waitForFunction(() => [...document.querySelectorAll("form.filter option")].map(({ value }) => value).join() === "gate", LIMIT);
      await page.evaluate(() => { location.hash = "events?source=yard"; });
      await page.waitForFunction(() => document.querySelectorAll(".list .event[data-source=yard]").length > 0 && document.querySelector(".day .row[data-source=yard]"), LIMIT);
      await page.browserContext().close();
    });
  } finally {
    await box.stop();
  }

  const named = (port, web, folder) => `device: ${LONG.slice(0, 64)}
sources:
  - {name: ${LONG.slice(0, 64)}, uri: 'synthetic://traffic?seed=1&objects=9&width=640&height=360&fps=5', zones: [{name: ${LONG.slice(1, 65)}, coordinates: '0,0,1,0,1,1,0,1'}]}
  - {name: gone, uri: 'rtsp://127.0.0.1:1/none'}
detector: {model: ${model}}
publish: {mqtt: off, stats_interval_s: 1}
record: {folder: ${folder}/no-folder/media, snapshots: {enabled: true}}
web:
  listen: 127.0.0.1:${port}
${web.map((line) => `  ${line}\n`).join("")}`;
  const odd = await start(binary, { config: named, web: ["without_users: operator"] });
  try {
    await flow("on a wall, long names are shortened, nothing lies below them, and what is offline says so", async () => {
      const page = await open(odd.origin);
      await page.waitForSelector(".tile[data-pictures]", LIMIT);
      await page.click("[data-toggle=wall]");
      await page.waitForFunction(() => /offline/.test(document.querySelector(".tile[data-source=gone] .hint")?.textContent), LIMIT);
      for (const view of [{ width: 1440, height: 900 }, PHONE]) {
        // A page that becomes one of a phone is loaded again.
        await page.setViewport(view);
        await page.waitForSelector(".tile[data-pictures]", LIMIT);
        const found = await page.evaluate(async () => {
          const { drawLayer, makeLayer } = await import("./layer.js");
          const frame = document.querySelector(".tile[data-pictures] .frame");
          const layer = makeLayer();
          frame.querySelector(".stage").append(layer);
          const title = frame.querySelector(".title");
          const places = drawLayer(layer, { objects: [{ label: "person", box: [0, 0, 0.2, 0.4] }], zones: [{ name: title.textContent.repeat(3), coordinates: [[0, 0], [1, 0], [1, 1]] }], title });
          const [from, area, ratio] = [layer.getBoundingClientRect(), title.getBoundingClientRect(), layer.width / layer.clientWidth];
          layer.remove();
          const isApart = ({ left, top, right, bottom }) => right <= (area.left - from.left) * ratio + 1 || left >= (area.right - from.left) * ratio - 1 || bottom <= (area.top - from.top) * ratio + 1 || top >= (area.bottom - from.top) * ratio - 1;
          return { apart: places.map(isApart), inside: places.map(({ left, right }) => left >= 0 && right <= layer.width), within: area.right <= frame.getBoundingClientRect().right, names: places.map(({ text }) => text) };
        });
        assert.ok([...found.apart, ...found.inside, found.within].every(Boolean), JSON.stringify(found));
        assert.match(found.names[0], /…$/);
      }
      await shoot(page, "wall-long-names");
      await page.click("[data-toggle=wall]");
      await page.browserContext().close();
    });

    await flow("where nothing can be recorded, the views of the machine and of the events say so", async () => {
      const page = await open(odd.origin, { hash: "#machine" });
      await page.waitForFunction(() => /Wrong: Nothing is recorded/.test(document.querySelector("main .panel")?.textContent), LIMIT);
      await page.waitForFunction(() => /no-folder/.test(document.querySelector("div.log")?.textContent), LIMIT);
      await page.evaluate(() => { location.hash = "events"; });
      await page.waitForFunction(() => /Nothing is recorded/.test(document.querySelector(".past .summary")?.textContent), LIMIT);
      await page.browserContext().close();
    });
  } finally {
    await odd.stop();
  }

  const kept = KEPT_CONFIG(binary, model);
  const first = await start(binary, { config: kept.config, users: [["otto", "operator"]] });
  let running = first;
  /** Ends the session in another tab, and begins the next one in `page`. */
  const logInAgain = async (page) => {
    const other = await page.browserContext().newPage();
    await other.goto(first.origin);
    await other.waitForSelector("#logout", LIMIT);
    await press(other, "Log out");
    await page.bringToFront();
    await page.waitForSelector(".login input[name=user]", LIMIT);
    await logIn(page, "otto");
  };
  try {
    await flow("a session that ends while a clip plays leads to the log-in, and from there to the clip", async () => {
      const page = await open(first.origin, { hash: "#events", view: PHONE });
      await logIn(page, "otto");
      await page.waitForFunction(() => {
        const card = [...document.querySelectorAll(".list .event[data-kind=object]")].find((one) => one.textContent.includes("clip"));
        card?.querySelector("button.thumb").click();
        return card;
      }, { timeout: 90000 });
      await page.waitForFunction(() => document.querySelector("dialog.viewer video")?.currentTime > 0.2, LIMIT);
      const { hash } = new URL(page.url());
      await logInAgain(page);
      await page.waitForFunction((wanted) => location.hash === wanted && document.querySelector("dialog.viewer")?.open, LIMIT, hash);
      await page.browserContext().close();
    });

    await flow("what is drawn when a session ends is there after the next log-in, and is given up by a log-out after a question", async () => {
      const page = await open(first.origin, { hash: "#zones/camera" });
      await logIn(page, "otto");
      await page.waitForFunction(() => document.querySelector("pre")?.textContent === "# none", LIMIT);
      await draw(page, triangle(0.1));
      await logInAgain(page);
      await page.waitForFunction(() => document.querySelector(".side button.primary")?.disabled === false, LIMIT);
      await page.waitForFunction(() => [...document.querySelectorAll(".shapes input")].some(({ value }) => value === "zone-1"), LIMIT);
      const asked = [];
      page.on("dialog", (dialog) => {
        asked.push(dialog.message());
        return asked.length === 1 ? dialog.dismiss() : dialog.accept();
      });
      await press(page, "Log out");
      await page.waitForFunction(() => document.querySelector(".side button.primary")?.disabled === false, LIMIT);
      await press(page, "Log out");
      await logIn(page, "otto");
      await page.waitForSelector(".drawing", LIMIT);
      await page.waitForFunction(() => document.querySelector("pre")?.textContent === "# none", LIMIT);
      assert.deepEqual(await names(page), []);
      assert.match(asked.join(), /^([^,]*not saved[^,]*,?){2}$/);
      await page.browserContext().close();
    });

    await flow("a file that is deleted leaves its card, and one that another program has deleted is said to be gone", async () => {
      const page = await open(first.origin, { hash: "#events" });
      await logIn(page, "otto");
      await page.waitForSelector(".day", LIMIT);
      const wanted = await (await page.waitForFunction(async () => {
        const { objects } = await (await fetch("api/objects?limit=200")).json();
        const found = objects.filter(({ id, snapshot, clips }) => snapshot && clips.length === 1 && clips[0].to_ms && document.querySelector(`.list .event[data-id="${id}"] img`));
        return found.some(({ clips }) => clips[0].id !== found[0].clips[0].id) && found;
      }, { timeout: 90000, polling: 500 })).jsonValue();
      const card = (id) => `.list .event[data-id="${id}"]`;
      const [one, other] = [wanted[0], wanted.find(({ clips }) => clips[0].id !== wanted[0].clips[0].id)];
      const media = (action, { id }) => execFileSync(binary, ["media", action, "--config", first.config, id]);
      for (const file of [...one.clips, one.snapshot]) media("remove", file);
      await page.waitForFunction((selector) => !document.querySelector(`${selector} img`) && !/clip/.test(document.querySelector(selector).textContent), LIMIT, card(one.id));
      const folder = /folder: (.*)/.exec(first.text())[1];
      for (const file of [...other.clips, other.snapshot]) rmSync(join(folder, JSON.parse(media("show", file)).path));
      await click(page, `${card(other.id)} .thumb`);
      await page.waitForFunction(() => document.querySelector("dialog.viewer p[role=status]")?.textContent === "This file is not kept any more.", LIMIT);
      await page.browserContext().close();
      // Another browser has no copy of the picture.
      const later = await open(first.origin, { hash: "#events" });
      await logIn(later, "otto");
      await later.waitForFunction((selector) => {
        document.querySelector(selector)?.scrollIntoView();
        return document.querySelector(`${selector} .none`);
      }, LIMIT, card(other.id));
      await later.browserContext().close();
    });

    await flow("what a killed daemon has left has a picture out of its clip", async () => {
      const page = await open(first.origin, { hash: "#events" });
      await logIn(page, "otto");
      await page.waitForSelector(".day", LIMIT);
      // Objects in view, whose clip is being written for some time.
      await page.waitForFunction(async () => {
        const { objects, open: inView } = await (await fetch("api/objects?limit=200")).json();
        return inView.some(({ id, started_ms: from }) => Date.now() - from > 5000 && objects.some((object) => object.id === id));
      }, { timeout: 90000, polling: 300 });
      first.kill();
      await page.browserContext().close();
      running = null;
      await first.stop();
      running = await start(binary, { config: kept.config, web: ["without_users: operator"] });
      const after = await open(running.origin, { hash: "#events" });
      await after.waitForSelector(".list .event", LIMIT);
      await after.waitForFunction(async () => {
        const { objects } = await (await fetch("api/objects?limit=200")).json();
        const cut = objects.find((object) => object.ended_ms === null && !object.snapshot && object.clips.length > 0);
        // Those that came since the start may have moved it down, and what is not in view waits.
        const shown = cut && document.querySelector(`.list .event[data-id="${cut.id}"]`);
        shown?.scrollIntoView();
        return shown?.querySelector(".crop canvas");
      }, { timeout: 60000, polling: 500 });
      await shoot(after, "events-after-a-kill");
      await after.browserContext().close();
    });
  } finally {
    await running?.stop();
    kept.remove();
  }
}
