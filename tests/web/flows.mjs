// SPDX-License-Identifier: Apache-2.0
// The flows of the page in Chromium: `node flows.mjs BINARY MODEL [PICTURES]`. Ends with `web: N passed, M failed`.

import assert from "node:assert/strict";
import { createServer, request } from "node:http";

import { PASSWORD, VIDEO_CONFIG, freePort, start } from "./daemon.mjs";
import { DESKTOP, LIMIT, PHONE, binary, click, finish, flow, focus, logIn, model, open, press, shoot, tilesShow } from "./harness.mjs";
import { accessFlows } from "./access.mjs";
import { cameraFlows } from "./camera_flows.mjs";
import { eventFlows } from "./event_flows.mjs";
import { fieldFlows, relay } from "./field_flows.mjs";
import { firstUserFlows } from "./first_user.mjs";
import { guideFlows } from "./guide.mjs";
import { languageFlows } from "./language_flows.mjs";
import { machineFlows } from "./machine_flows.mjs";
import { nginxFlows } from "./nginx.mjs";
import { proxyFlows } from "./proxies.mjs";
import { troubleFlows } from "./trouble_flows.mjs";

/** A proxy below `prefix`, which it removes, or does not. */
async function proxy(target, prefix, removes) {
  const server = createServer((incoming, answer) => {
    if (!incoming.url.startsWith(prefix)) {
      answer.writeHead(404).end();
      return;
    }
    const path = removes ? incoming.url.slice(prefix.length) || "/" : incoming.url;
    const headers = { ...incoming.headers, "x-forwarded-host": incoming.headers.host, "x-forwarded-proto": "http", "x-forwarded-for": "198.51.100.7" };
    const outgoing = request({ host: "127.0.0.1", port: target, path, method: incoming.method, headers }, (found) => {
      answer.writeHead(found.statusCode, found.headers);
      found.pipe(answer);
    });
    outgoing.on("error", () => answer.destroy());
    answer.on("close", () => outgoing.destroy());
    incoming.pipe(outgoing);
  });
  const port = await freePort();
  await new Promise((done) => server.listen(port, "127.0.0.1", done));
  return { origin: `http://127.0.0.1:${port}${prefix}`, close: () => { server.closeAllConnections(); server.close(); } };
}

const daemon = await start(binary, { users: [["anna", "administrator"], ["otto", "operator"], ["vera", "viewer"]], web: ["trusted_proxies: [127.0.0.1]"] });
try {
  await flow("a wrong password is refused, and attempts are limited", async () => {
    const page = await open(daemon.origin);
    await logIn(page, "anna", "a wrong password");
    await page.waitForFunction(() => /wrong/.test(document.querySelector(".problem")?.textContent), LIMIT);
    await shoot(page, "login");
    const attempt = () => page.evaluate(async () => (await fetch("api/login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ user: "no-such-user", password: "another wrong one" }) })).status);
    const found = [];
    for (let count = 0; count < 12; count += 1) found.push(await attempt());
    assert.equal(found[0], 401);
    assert.equal(found.at(-1), 429);
    await page.browserContext().close();
  });
} finally {
  await daemon.stop();
}

const box = await start(binary, { users: [["anna", "administrator"], ["otto", "operator"], ["vera", "viewer"]] });
try {
  await flow("tiles appear after the log-in, and pictures change", async () => {
    const page = await open(box.origin);
    await logIn(page, "anna");
    await tilesShow(page, 3);
    const look = () => page.$eval(".tile[data-source=gate] canvas", (canvas) => canvas.toDataURL());
    const before = await look();
    await page.waitForFunction((old) => document.querySelector(".tile[data-source=gate] canvas") && document.querySelector(".tile[data-source=gate] canvas")?.toDataURL() !== old, LIMIT, before);
    await page.waitForFunction(() => /Now: \d/.test(document.querySelector(".tile[data-source=gate] .counts")?.textContent), LIMIT);
    // The age of a picture is told only of one that is old.
    await page.waitForFunction(() => document.querySelectorAll(".updated[hidden]").length === 2, LIMIT);
    await page.waitForFunction(() => document.querySelector(".tile[data-source=gate] .state")?.textContent === "online", LIMIT);
    await shoot(page, "live-desktop-light");
    assert.deepEqual(page.problems.filter((problem) => !/401/.test(problem)), []);
    await page.browserContext().close();
  });

  await flow("boxes, trajectories and zones are drawn by the page at the resolution of the display, and can be left out", async () => {
    const page = await open(box.origin, { view: { ...DESKTOP, deviceScaleFactor: 2 } });
    await logIn(page, "vera");
    await tilesShow(page, 2);
    const layer = () => page.$eval(".tile[data-source=gate] .layer", ({ width, clientWidth, dataset }) => ({ width, clientWidth, ...dataset }));
    await page.waitForFunction(() => Number(document.querySelector(".tile[data-source=gate] .layer")?.dataset.boxes) > 0 && document.querySelector(".tile[data-source=gate] .layer")?.dataset.zones === "2", LIMIT);
    const { width, clientWidth } = await layer();
    assert.equal(width, 2 * clientWidth);
    for (const [toggle, counted] of [["boxes", "boxes"], ["tracks", "trajectories"], ["zones", "zones"]]) {
      await page.click(`[data-toggle=${toggle}]`);
      await page.waitForFunction((name) => document.querySelector(".tile[data-source=gate] .layer")?.dataset[name] === "0", LIMIT, counted);
    }
    await page.reload();
    await tilesShow(page, 2);
    assert.equal((await layer()).boxes, "0", "it is remembered");
    for (const toggle of ["boxes", "tracks", "zones"]) await page.click(`[data-toggle=${toggle}]`);
    await page.waitForFunction(() => Number(document.querySelector(".tile[data-source=gate] .layer")?.dataset.boxes) > 0, LIMIT);
    await page.click("[data-toggle=wall]");
    await page.waitForFunction(() => !document.querySelector(".tile .about")?.checkVisibility(), LIMIT);
    // The wall is as high as the window.
    await page.waitForFunction(() => [...document.querySelectorAll(".tile")].every((tile) => tile.getBoundingClientRect().bottom <= innerHeight), LIMIT);
    await shoot(page, "live-wall");
    await page.click("[data-toggle=wall]");
    // One tap, and one more back.
    await page.click(".tile[data-source=gate] .frame");
    await page.waitForFunction(() => document.fullscreenElement === document.querySelector(".tile[data-source=gate] .frame"), LIMIT);
    await page.click(".tile[data-source=gate] .frame");
    await page.waitForFunction(() => !document.fullscreenElement, LIMIT);
    await page.browserContext().close();
  });

  await flow("names never overlap, and a lost track has none and is not counted", async () => {
    const page = await open(box.origin);
    await logIn(page, "vera");
    await tilesShow(page, 1);
    const found = await page.evaluate(async () => {
      const { drawLayer, makeLayer } = await import("./layer.js");
      const layer = makeLayer();
      document.querySelector(".frame .stage").append(layer);
      const objects = Array.from({ length: 40 }, (_, index) => {
        const [x, y] = [0.1 + 0.02 * (index % 8), 0.1 + 0.03 * Math.floor(index / 8)];
        return { label: `person ${index}`, score: 0.5, isLost: index % 4 === 0, box: [x, y, x + 0.1, y + 0.2] };
      });
      const places = drawLayer(layer, { objects, zones: [{ name: "a zone", coordinates: [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9]] }] });
      const counted = { ...layer.dataset };
      layer.remove();
      return { places, counted };
    });
    assert.ok(found.places.length > 5, String(found.places.length));
    for (const [index, one] of found.places.entries()) {
      for (const other of found.places.slice(index + 1)) {
        const isApart = one.right <= other.left || other.right <= one.left || one.bottom <= other.top || other.bottom <= one.top;
        assert.ok(isApart, `${one.text} and ${other.text}`);
      }
    }
    const lost = Array.from({ length: 10 }, (_, index) => `person ${4 * index}`);
    assert.deepEqual(found.places.filter(({ text }) => lost.some((name) => text === name || text.startsWith(`${name} 5`))), []);
    assert.deepEqual([found.counted.boxes, found.counted.lost], ["30", "10"]);
    await page.browserContext().close();
  });

  await flow("MJPEG and stills are pictures that change", async () => {
    const page = await open(box.origin);
    await logIn(page, "vera");
    await page.waitForSelector(".tile", LIMIT);
    const found = await page.evaluate(async () => {
      const answer = await fetch("api/sources/gate/mjpeg");
      const reader = answer.body.getReader();
      let text = "";
      const sums = new Set();
      while (sums.size < 3) {
        const { value } = await reader.read();
        text += Array.from(value, (byte) => String.fromCharCode(byte)).join("");
        for (const part of text.split("--jetwatch-picture\r\n").slice(1, -1)) sums.add(part.slice(-400));
      }
      await reader.cancel();
      const still = await fetch("api/sources/gate/picture.jpg");
      return { type: answer.headers.get("content-type"), pictures: sums.size, still: still.headers.get("content-type"), bytes: (await still.arrayBuffer()).byteLength };
    });
    assert.match(found.type, /^multipart\/x-mixed-replace; boundary=/);
    assert.equal(found.pictures, 3);
    assert.equal(found.still, "image/jpeg");
    assert.ok(found.bytes > 5000, String(found.bytes));
    await page.browserContext().close();
  });

  await flow("events appear as they happen", async () => {
    const page = await open(box.origin, { hash: "#events" });
    await logIn(page, "vera");
    await page.waitForSelector(".list .event", LIMIT);
    await page.waitForFunction(() => document.querySelectorAll(".now strong").length > 0, LIMIT);
    const first = await page.$eval(".list .event", (row) => row.textContent);
    await page.waitForFunction((old) => document.querySelector(".list .event") && document.querySelector(".list .event")?.textContent !== old, LIMIT, first);
    // The rows of one filter stay until those of the next are there.
    await page.evaluate(() => {
      const count = () => document.querySelectorAll(".list .event").length;
      window.fewest = count();
      new MutationObserver(() => { window.fewest = Math.min(window.fewest, count()); }).observe(document.body, { childList: true, subtree: true });
    });
    await page.select("select[name=source]", "yard");
    await page.waitForFunction(() => [...document.querySelectorAll(".list .event")].length > 0 && [...document.querySelectorAll(".list .event")].every((row) => row.dataset.source === "yard"), LIMIT);
    assert.ok(await page.evaluate(() => window.fewest) > 0);
    await shoot(page, "events-desktop-light");
    await page.browserContext().close();
  });

  await flow("a viewer sees the rules and may not change them", async () => {
    const page = await open(box.origin, { hash: "#zones" });
    await logIn(page, "vera");
    await page.waitForFunction(() => document.querySelectorAll(".shape").length === 2 || document.querySelector(".empty"), LIMIT);
    const found = await page.evaluate(async () => {
      const status = async (method, path, body = {}) => (await fetch(path, { method, headers: { "Content-Type": "application/json" }, body: method === "GET" ? undefined : JSON.stringify(body) })).status;
      return [
        await status("PUT", "api/sources/gate/rules", { zones: [], lines: [] }), await status("POST", "api/reload"),
        await status("GET", "api/support"), await status("GET", "api/events"), [...document.querySelectorAll("button")].some((button) => /Draw|Save/.test(button.textContent)),
      ];
    });
    assert.deepEqual(found, [403, 403, 403, 200, false]);
    assert.equal(await page.$("pre"), null);
    await page.browserContext().close();
  });

  await flow("a zone that is drawn is saved and in effect", async () => {
    const page = await open(box.origin, { hash: "#zones/gate" });
    await logIn(page, "otto");
    await page.waitForFunction(() => document.querySelectorAll(".shape").length === 2 && document.querySelector(".frame")?.dataset.live, LIMIT);
    await page.evaluate(() => [...document.querySelectorAll("button")].find((button) => button.textContent === "Draw a zone").click());
    const area = await (await page.$(".drawing")).boundingBox();
    const corners = [[0.1, 0.1], [0.4, 0.12], [0.3, 0.4]];
    for (const [x, y] of [...corners, corners[0]]) await page.mouse.click(area.x + x * area.width, area.y + y * area.height);
    await page.waitForFunction(() => /name: "zone-1"/.test(document.querySelector("pre")?.textContent), LIMIT);
    await shoot(page, "zones-desktop-light");
    const before = box.text();
    await page.evaluate(() => [...document.querySelectorAll("button")].find((button) => button.textContent === "Save and reload").click());
    await page.waitForFunction(() => document.querySelector(".result")?.textContent === "Saved and in effect.", LIMIT);
    const after = box.text();
    // To a pixel.
    const drawn = /- name: "zone-1"\n {8}coordinates: "([\d.,]+)"\n/.exec(after)[1].split(",").map(Number);
    corners.flat().forEach((share, index) => assert.ok(Math.abs(drawn[index] - share) < 0.004, drawn.join()));
    assert.match(after, /parking\n {8}coordinates: 0\.05,0\.55,0\.45,0\.55,0\.45,0\.95 {2}# measured\n/);
    assert.equal(box.previous(), before);
    await page.waitForFunction(async () => (await (await fetch("api/sources/gate/rules")).json()).zones.some((zone) => zone.name === "zone-1"), LIMIT);
    await page.browserContext().close();
  });

  await flow("the zones of the source in the address are shown, after each reload", async () => {
    const page = await open(box.origin, { hash: "#zones/yard" });
    await logIn(page, "otto");
    for (let count = 0; count < 5; count += 1) {
      await page.waitForSelector(".drawing", LIMIT);
      assert.equal(await page.$eval(".zones canvas", (canvas) => canvas.getAttribute("aria-label")), "Picture of yard");
      await page.waitForFunction(() => document.querySelector("form.filter select")?.value === "yard" && document.querySelector("form.filter select")?.options.length === 2, LIMIT);
      assert.equal(await page.$$eval(".shape", (shapes) => shapes.length), 0);
      await page.reload();
    }
    await page.evaluate(() => { location.hash = "zones/nowhere"; });
    await page.waitForFunction(() => /no source named nowhere/.test(document.querySelector(".empty")?.textContent), LIMIT);
    assert.equal(await page.$(".drawing"), null);
    await page.select("form.filter select", "gate");
    await page.waitForFunction(() => location.hash === "#zones/gate" && document.querySelectorAll(".shape").length >= 2, LIMIT);
    await page.waitForFunction(() => /of all objects · after 2 frames/.test(document.querySelector(".shapes")?.textContent) && /arrow points to the right/.test(document.querySelector(".shapes")?.textContent), LIMIT);
    await page.browserContext().close();
  });

  await flow("what is drawn is not lost without a question, and what came of it stays readable", async () => {
    const page = await open(box.origin, { hash: "#zones/gate" });
    await logIn(page, "otto");
    await page.waitForSelector(".shapes input", LIMIT);
    const asked = [];
    let answer = false;
    page.on("dialog", (dialog) => {
      asked.push(dialog.message());
      return answer ? dialog.accept() : dialog.dismiss();
    });
    await focus(page, ".shapes input");
    await page.keyboard.type("x");
    await page.evaluate(() => { location.hash = "live"; });
    await page.waitForFunction(() => location.hash === "#zones/gate", LIMIT);
    assert.equal(asked.length, 1);
    assert.ok(await page.$eval(".shapes input", (input) => /x/.test(input.value)));
    answer = true;
    await page.evaluate(() => { location.hash = "live"; });
    await page.waitForSelector(".tile", LIMIT);
    assert.match(asked.join(), /not saved/);
    await page.evaluate(() => { location.hash = "zones/gate"; });
    await page.waitForSelector(".shapes input", LIMIT);
    // The check that follows a reload leaves the result as it is.
    await focus(page, ".shapes input");
    await page.keyboard.press("End");
    await page.keyboard.type("1");
    await page.waitForFunction(() => /name: "\w+1"/.test(document.querySelector("pre")?.textContent), LIMIT);
    // The result of the reload comes before the answer to the request that has caused it, as does what is read after it.
    await page.evaluate(() => {
      const { fetch } = window;
      window.checks = 0;
      let isHeld = true;
      window.fetch = async (path, options) => {
        const [isSaving, isLater] = [isHeld && options?.method === "PUT", !isHeld];
        const answer = await fetch(path, options);
        while (isSaving && document.querySelector(".result").textContent !== "Saved and in effect.") await new Promise((done) => setTimeout(done, 10));
        if (isSaving) {
          await (await fetch(path)).json();
          isHeld = false;
        }
        // What follows an answer is done before the next task.
        if (isLater && options?.method === "POST") setTimeout(() => { window.checks += 1; }, 0);
        return answer;
      };
    });
    await press(page, "Save and reload");
    await page.waitForFunction(() => window.checks > 0, LIMIT);
    assert.equal(await page.$eval(".result", (node) => node.textContent), "Saved and in effect.");
    assert.equal(await page.$eval(".side button.primary", (save) => save.disabled), true);
    // What was taken back is in the file already.
    await focus(page, ".shapes input");
    await page.keyboard.press("End");
    await page.keyboard.type("1");
    await page.keyboard.press("Backspace");
    await page.waitForFunction(() => document.querySelector(".result").textContent === "" && !document.querySelector(".side button.primary").disabled, LIMIT);
    await press(page, "Save and reload");
    await page.waitForFunction(() => document.querySelector(".result").textContent === "Saved and in effect." && document.querySelector(".side button.primary").disabled, LIMIT);
    await page.evaluate(() => { location.hash = "live"; });
    await page.waitForSelector(".tile", LIMIT);
    assert.equal(asked.length, 2);
    await page.browserContext().close();
  });

  await flow("keys of rules, directions and objects at rest are set on the page, beside what the last hour would have caused", async () => {
    const page = await open(box.origin, { hash: "#zones/gate" });
    await logIn(page, "otto");
    await page.waitForFunction(() => document.querySelector(".frame")?.dataset.live && /last hour: \d+ entered/.test(document.querySelector(".shapes")?.textContent), LIMIT);
    const pickButton = (label) => page.evaluate((wanted) => [...document.querySelectorAll("button")].find((button) => button.textContent === wanted).click(), label);
    const yaml = (pattern) => page.waitForFunction((source) => new RegExp(source).test(document.querySelector("pre")?.textContent), LIMIT, pattern.source);
    const field = (row, label) => page.evaluateHandle((wantedRow, wantedLabel) => {
      const item = [...document.querySelectorAll(".shapes li")].find((li) => li.querySelector("input")?.value === wantedRow || li.textContent.includes(wantedRow));
      item.querySelector("details").open = true;
      return [...item.querySelectorAll("label")].find((one) => one.textContent.startsWith(wantedLabel)).querySelector("input, select");
    }, row, label);
    const before = box.text();
    const row = await page.$eval(".shapes input", (input) => input.value);
    await (await field(row, "Loitering")).type("90");
    await (await field(row, "Objects")).type("car, person");
    await yaml(/loitering_time_s: 90\n[^]*objects: \["car", "person"\]|objects: \["car", "person"\]\n[^]*loitering_time_s: 90/);
    await page.waitForFunction(() => /of car, person · .* · loitering after 90 s · last hour: \d+ entered, \d+ loitered/.test(document.querySelector(".shapes")?.textContent), LIMIT);
    const schedule = await field(row, "Schedule");
    assert.deepEqual(await schedule.evaluate((select) => [...select.options].map((option) => option.textContent)), ["Always", "day"]);
    await schedule.select("=day");
    await pickButton("Draw a direction");
    const area = await (await page.$(".drawing")).boundingBox();
    for (const [x, y] of [[0.5, 0.2], [0.5, 0.7]]) await page.mouse.click(area.x + x * area.width, area.y + y * area.height);
    await page.waitForFunction(() => [...document.querySelectorAll(".shapes input")].some((input) => input.value === "direction-1"), LIMIT);
    await pickButton("Report objects that come to rest");
    await yaml(/directions:\n {2}- name: "direction-1"\n[^]*stationary:\n {2}threshold_s: 10/);
    await page.waitForFunction(() => /within 45° · last hour: \d+ moved so/.test(document.querySelector(".shapes")?.textContent) && /\d+ came to rest/.test(document.querySelector(".shapes")?.textContent), LIMIT);
    await page.evaluate(() => [...document.querySelectorAll(".side label")].find((label) => /Show the trajectories/.test(label.textContent)).click());
    await page.waitForFunction(() => document.querySelectorAll(".trajectory").length > 3, LIMIT);
    await shoot(page, "rules-desktop-light");
    await pickButton("Save and reload");
    await page.waitForFunction(() => document.querySelector(".result")?.textContent === "Saved and in effect.", LIMIT);
    const after = box.text();
    for (const pattern of [/\n {8}loitering_time_s: 90\n/, /\n {8}objects: \["car", "person"\]\n/, /\n {8}schedule: "day"\n/, /\n {4}directions:\n {6}- name: "direction-1"\n/, /\n {4}stationary:\n {6}threshold_s: 10\n/, /# measured\n {8}inertia_frames: 2\n/]) assert.match(after, pattern);
    await page.evaluate(async () => { window.found = await (await fetch("api/sources/gate/rules")).json(); });
    const found = await page.evaluate(() => window.found);
    assert.equal(found.zones[0].loitering_time_s, 90);
    assert.equal(found.zones[0].schedule, "day");
    assert.equal(found.stationary.threshold_s, 10);
    assert.notEqual(before, after);
    await page.browserContext().close();
  });

  await flow("rules that the daemon refuses are not saved", async () => {
    const page = await open(box.origin, { hash: "#zones/yard" });
    await logIn(page, "otto");
    await page.waitForSelector(".drawing", LIMIT);
    const before = box.text();
    const outcome = await page.evaluate(async () => (await fetch("api/sources/yard/rules", { method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ zones: [{ name: "flat", coordinates: [[0, 0], [0.5, 0.5]] }], lines: [] }) })).json());
    assert.equal(outcome.saved, false);
    assert.match(outcome.problems.join(), /three/);
    assert.equal(box.text(), before);
    await page.browserContext().close();
  });

  await flow("the machine is shown, and the support bundle has no secret", async () => {
    const page = await open(box.origin, { hash: "#machine" });
    await logIn(page, "anna");
    await page.waitForSelector(".plots svg", LIMIT);
    await page.waitForSelector(".gauge meter", LIMIT);
    const bundle = await page.evaluate(async () => (await fetch("api/support")).text());
    assert.match(bundle, /synthetic:\/\/traffic/);
    assert.doesNotMatch(bundle, /argon2|a long password/);
    await shoot(page, "machine-desktop-light");
    await page.browserContext().close();
  });

  await flow("dark and light follow the system, on a phone too", async () => {
    const shade = (page) => page.$eval("body", (body) => getComputedStyle(body).backgroundColor.match(/\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b));
    for (const [scheme, view, name] of [["light", PHONE, "phone-light"], ["dark", PHONE, "phone-dark"], ["dark", DESKTOP, "desktop-dark"]]) {
      const page = await open(box.origin, { scheme, view });
      await logIn(page, "anna");
      await tilesShow(page, 2);
      assert.equal((await shade(page)) < 200, scheme === "dark");
      for (const tab of ["live", "events", "zones/gate", "machine"]) {
        await page.evaluate((hash) => { location.hash = hash; }, tab);
        await page.waitForSelector({ live: ".tile", events: ".list .event", "zones/gate": ".shape", machine: ".plots svg" }[tab], LIMIT);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert.ok(overflow <= 0, `${name} ${tab}: ${overflow} px too wide`);
        if (tab === "live" || tab.startsWith("zones")) await page.waitForFunction(() => document.querySelector(".tile[data-pictures]") || (document.querySelector(".frame") && document.querySelector(".frame")?.dataset.live), LIMIT);
        await shoot(page, `${tab.split("/")[0]}-${name}`);
      }
      await page.browserContext().close();
    }
  }, { onlyChromium: "colors of the system are set by its protocol" });

  await flow("the age of the pictures is small", async () => {
    const page = await open(box.origin);
    await logIn(page, "vera");
    await tilesShow(page, 1);
    const ages = await page.evaluate(async () => {
      const { readPictures } = await import("./pictures.js");
      const found = [];
      const abort = new AbortController();
      await readPictures(["gate"], async (_, jpeg, head) => {
        (await createImageBitmap(new Blob([jpeg]))).close();
        found.push(Date.now() - head.captured);
        if (found.length === 20) abort.abort();
      }, abort.signal);
      return found;
    });
    ages.sort((a, b) => a - b);
    console.log(`     from capture to a decoded picture in the browser: median ${ages[10]} ms, greatest ${ages[19]} ms`);
    assert.ok(ages.every((age) => age >= 0));
    await page.browserContext().close();
  });
} finally {
  await box.stop();
}

for (const [name, web, removes] of [["that it does not remove", ["base_path: /jet/watch", "trusted_proxies: [127.0.0.1]"], false], ["that it removes", ["trusted_proxies: [127.0.0.1]"], true]]) {
  const behind = await start(binary, { web, users: [["anna", "administrator"]] });
  const outer = await proxy(behind.port, "/jet/watch", removes);
  try {
    await flow(`the page works behind a proxy, below a path ${name}`, async () => {
      const page = await open(outer.origin);
      await logIn(page, "anna");
      await tilesShow(page, 2);
      await page.evaluate(() => { location.hash = "events"; });
      await page.waitForSelector(".list .event", LIMIT);
      await page.browserContext().close();
    });
  } finally {
    outer.close();
    await behind.stop();
  }
}

const camera = await start(binary, { config: VIDEO_CONFIG(binary, model), web: ["without_users: operator"] });
try {
  await flow("pictures and clips of events can be opened, sought and kept", async () => {
    const page = await open(camera.origin, { hash: "#events" });
    const kept = await page.waitForFunction(async () => {
      const { items } = await (await fetch("api/media")).json();
      return items.find((item) => item.clip && item.snapshot);
    }, { ...LIMIT, polling: 500 });
    const item = await kept.jsonValue();
    const range = await page.evaluate(async (id) => {
      const answer = await fetch(`api/media/${id}/clip.mp4`, { headers: { Range: "bytes=4-7" } });
      return [answer.status, await answer.text()];
    }, item.clip);
    assert.deepEqual(range, [206, "ftyp"]);
    await page.waitForFunction(() => document.querySelector(".event[data-kind=object] button.thumb .mark"), LIMIT);
    await shoot(page, "events-kept");
    const wanted = await page.evaluate(async () => {
      const { objects } = await (await fetch("api/objects?limit=50")).json();
      return objects.find((object) => object.clips.length > 0 && object.snapshot && object.path.length > 2);
    });
    // The address of an event opens it.
    await page.goto(`${camera.origin}/#events/${encodeURIComponent(wanted.id)}`);
    await page.reload();
    await page.waitForFunction(() => document.querySelector("dialog[open] video") && document.querySelector("dialog video")?.duration > 0.5 && !document.querySelector("dialog video")?.seeking, LIMIT);
    // It begins a second before the event, where the clip has that.
    const [clip] = wanted.clips;
    const begin = Math.max(0, wanted.started_ms - 1000 - clip.from_ms) / 1000;
    await page.waitForFunction((from) => document.querySelector("dialog video")?.currentTime >= from - 0.1, LIMIT, begin);
    await page.waitForFunction(() => document.querySelector("dialog .layer")?.dataset.boxes === "1", LIMIT);
    await page.evaluate(() => { document.querySelector("dialog video").pause(); });
    await shoot(page, "clip");
    await press(page, "Picture");
    await page.waitForFunction(() => document.querySelector("dialog img")?.naturalWidth > 100 && !document.querySelector("dialog img")?.hidden && document.querySelector("dialog .layer")?.dataset.boxes === "1", LIMIT);
    const saved = await page.$$eval("dialog a.button", (found) => found.filter((link) => !link.hidden).map((link) => link.getAttribute("href")));
    assert.deepEqual(saved, [`api/media/${wanted.snapshot.id}/snapshot.jpg?download=1`, `api/media/${clip.id}/clip.mp4?download=1`]);
    // The one before, by the keyboard, and back by a button.
    await page.waitForFunction(() => document.querySelectorAll(".list .event").length > 1, LIMIT);
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !document.querySelector("dialog.viewer")?.open && location.hash === "#events", LIMIT);
    await click(page, ".list .event[data-kind=object] button.thumb");
    const first = await page.$eval("dialog.viewer", (dialog) => dialog.dataset.id);
    await page.keyboard.press("ArrowLeft");
    await page.waitForFunction((id) => document.querySelector("dialog.viewer") && document.querySelector("dialog.viewer")?.dataset.id !== id, LIMIT, first);
    const second = await page.$eval("dialog.viewer", (dialog) => dialog.dataset.id);
    assert.ok(decodeURIComponent(page.url()).endsWith(`#events/${second}`));
    // An object that ends meanwhile takes its place between the two.
    const [expected, later] = await page.evaluate(() => {
      const dialog = document.querySelector("dialog.viewer");
      const ids = [...document.querySelectorAll(".list .event[data-kind=object]")].map((node) => node.dataset.id);
      const before = ids[ids.indexOf(dialog.dataset.id) - 1];
      [...dialog.querySelectorAll("button")].find((button) => button.textContent === "Later ›").click();
      return [before, dialog.dataset.id];
    });
    assert.ok(expected && expected === later, `${expected} ${later}`);
    await page.keyboard.press("Escape");
    const pinned = await page.evaluate(async (id) => {
      await fetch(`api/media/${id}/pin`, { method: "POST", headers: { "Content-Type": "application/json" }, body: "{\"pinned\": true}" });
      return (await (await fetch("api/media")).json()).items.some((found) => found.clip === id && found.pinned);
    }, item.clip);
    assert.equal(pinned, true);
    await page.browserContext().close();
  });

  await flow("the camera's own stream plays, and begins again where it is silent", async () => {
    const network = await relay(camera.port);
    const page = await open(network.origin);
    await page.waitForFunction(() => [...document.querySelectorAll(".tile button")].some((button) => button.textContent === "Camera stream" && !button.hidden), LIMIT);
    await page.evaluate(() => [...document.querySelectorAll(".tile button")].find((button) => button.textContent === "Camera stream").click());
    await page.waitForFunction(() => document.querySelector(".tile video") && document.querySelector(".tile video")?.currentTime > 0.5, LIMIT);
    const from = await page.$eval(".tile video", (video) => video.currentTime);
    await page.waitForFunction((time) => document.querySelector(".tile video")?.currentTime > time + 1, LIMIT, from);
    await shoot(page, "stream");
    const address = await page.$eval(".tile video", (video) => video.src);
    network.lose();
    await page.waitForFunction((before) => document.querySelector(".tile video").src !== before && document.querySelector(".tile video").currentTime > 0.5, LIMIT, address);
    network.close();
    await page.browserContext().close();
  });
} finally {
  await camera.stop();
}

await nginxFlows();
await proxyFlows();
await eventFlows();
await cameraFlows();
await machineFlows();
await fieldFlows();
await troubleFlows();
await accessFlows();
await languageFlows();
await firstUserFlows();
await guideFlows();
await finish();
