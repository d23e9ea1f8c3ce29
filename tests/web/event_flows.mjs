// SPDX-License-Identifier: Apache-2.0
// Flows of the events: pages, filters, the address, what is kept of earlier runs.

import assert from "node:assert/strict";

import { KEPT_CONFIG, busyConfig, start } from "./daemon.mjs";
import { LIMIT, PHONE, binary, browser, click, flow, focus, isFirefox, model, open, press, shoot } from "./harness.mjs";

const rows = (page) => page.$$eval(".list .event", (found) => found.map((row) => ({ ...row.dataset, text: row.textContent })));

export async function eventFlows() {
  const busy = await start(binary, { config: busyConfig });
  try {
    await flow("earlier events come page by page, by scrolling and by the button", async () => {
      const page = await open(busy.origin);
      await page.waitForFunction(async () => (await (await fetch("api/objects?limit=200")).json()).objects.length >= 120, { timeout: 240000, polling: 1000 });
      await page.evaluate(() => { location.hash = "events?to=" + new Date().toISOString(); });
      await page.waitForFunction(() => document.querySelectorAll(".list .event").length >= 50, LIMIT);
      // Messages about the last moments may still be on their way, and belong into the list.
      const first = (await rows(page)).length;
      assert.ok(first >= 50 && first < 80, String(first));
      await page.evaluate(() => document.querySelector(".more").scrollIntoView());
      await page.waitForFunction(() => document.querySelectorAll(".list .event").length >= 100, LIMIT);
      await page.evaluate(() => window.scrollTo(0, 0));
      const second = (await rows(page)).length;
      await page.evaluate(() => document.querySelector(".more").focus());
      await page.keyboard.press("Enter");
      // Of tracks that are still in view, the last message is after that time.
      await page.waitForFunction((before) => document.querySelectorAll(".list .event").length > before, LIMIT, second);
      const ids = await page.evaluate(async () => {
        const all = [];
        const to = new Date().toISOString();
        for (let before = ""; before !== null;) {
          const found = await (await fetch(`api/objects?limit=37&to=${to}&before=${encodeURIComponent(before)}`)).json();
          all.push(...found.objects.map(({ id, started_ms: at }) => [at, id]));
          before = found.next;
        }
        return all;
      });
      assert.ok(ids.length >= 120 && new Set(ids.map(([, id]) => id)).size === ids.length, "each object once");
      assert.deepEqual(ids.map(([at]) => at), ids.map(([at]) => at).sort((a, b) => b - a));
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

    await flow("the player goes on beyond the objects that the list has", async () => {
      const page = await open(busy.origin);
      await page.waitForFunction(async () => (await (await fetch("api/objects?limit=200")).json()).objects.length >= 60, { timeout: 240000, polling: 1000 });
      await page.waitForSelector(".tile[data-pictures]", LIMIT);
      await page.evaluate(() => { location.hash = `events?to=${new Date().toISOString()}`; });
      await page.waitForFunction(() => document.querySelectorAll(".list .event").length >= 50, LIMIT);
      await page.evaluate(() => [...document.querySelectorAll(".list .event .thumb")].at(-1).click());
      const last = await page.$eval("dialog.viewer", (dialog) => dialog.dataset.id);
      await page.waitForFunction((id) => {
        [...document.querySelectorAll("dialog[open] button")].find((button) => button.textContent === "‹ Earlier" && document.querySelector("dialog.viewer").dataset.id === id)?.click();
        return document.querySelector("dialog.viewer").dataset.id !== id;
      }, LIMIT, last);
      await page.waitForFunction((id) => {
        const nodes = [...document.querySelectorAll(".list .event")].map((node) => node.dataset.id);
        return nodes.indexOf(document.querySelector("dialog.viewer").dataset.id) === nodes.indexOf(id) + 1;
      }, LIMIT, last);
      await page.browserContext().close();
    });

    await flow("an object has its picture after it has left, where nothing is kept", async () => {
      const page = await open(busy.origin, { hash: "#events" });
      const pictures = ".list .event[data-kind=object] img[src$='/picture.jpg']";
      await page.waitForFunction((wanted) => [...document.querySelectorAll(wanted)].filter((image) => image.naturalWidth === 240).length > 5, LIMIT, pictures);
      // Not those that were seen in a few frames only.
      const found = await page.evaluate(async () => (await (await fetch("api/objects?limit=50")).json()).objects.filter((object) => object.duration_ms > 2000));
      assert.ok(found.length > 5 && found.filter((object) => object.thumbnail).length >= found.length * 0.9, JSON.stringify(found.map((object) => [object.duration_ms, object.thumbnail])));
      await page.$eval(pictures, (image) => image.closest(".event").querySelector("button.thumb").click());
      await page.waitForFunction(() => document.querySelector("dialog[open] img")?.naturalWidth === 240 && document.querySelector("dialog .layer")?.dataset.boxes === "1", LIMIT);
      await shoot(page, "events-cut");
      await page.browserContext().close();
    });

    await flow("the player shows another source at the same time (frigate#6762)", async () => {
      const page = await open(busy.origin, { hash: "#events?source=gate" });
      await page.waitForFunction(() => document.querySelector(".list .event[data-source=gate] .thumb")?.click() ?? document.querySelector("dialog.viewer")?.open, LIMIT);
      const time = () => page.waitForFunction(() => document.querySelector("dialog .track")?.getAttribute("aria-valuetext"), LIMIT).then((found) => found.jsonValue());
      const before = await time();
      await page.select("dialog.viewer .actions select", "yard");
      await page.waitForFunction(() => document.querySelector("#player-title").textContent === "Recording of yard" && document.querySelector("dialog .track").getAttribute("aria-label") === "Time of yard", LIMIT);
      assert.equal(await time(), before);
      // Its keys are its own.
      await focus(page, "dialog.viewer .actions select");
      await page.keyboard.press("b");
      assert.equal(await page.$eval("#player-title", (title) => title.textContent), "Recording of yard");
      await page.browserContext().close();
    });

    await flow("the filter is in the address, and tracks are found by their zones", async () => {
      const page = await open(busy.origin, { hash: "#events?source=gate&zone=left" });
      await page.waitForFunction(() => document.querySelectorAll(".list .event[data-kind=object]").length > 0, LIMIT);
      assert.deepEqual(await page.$$eval(".filter select", (found) => found.map((select) => select.value).slice(0, 3)), ["gate", "", "left"]);
      for (const row of await rows(page)) {
        assert.equal(row.source, "gate");
        assert.ok(row.rules.split(" ").includes("left"), row.text);
      }
      const [{ label }] = await rows(page);
      // What there is, not all that the network knows.
      const labels = await page.evaluate(async () => {
        const { objects } = await (await fetch("api/objects?limit=200")).json();
        const offered = [...document.querySelector("select[name=label]").options].map((option) => option.value).filter(Boolean);
        return { offered, seen: new Set(objects.map((object) => object.label)).size, known: (await (await fetch("api/info")).json()).sources[0].labels.length };
      });
      assert.ok(labels.offered.includes(label) && labels.offered.length >= labels.seen, JSON.stringify(labels));
      await page.select("select[name=label]", label);
      await page.waitForFunction((wanted) => location.hash === `#events?source=gate&label=${wanted}&zone=left`, LIMIT, label);
      await page.waitForFunction((wanted) => {
        const found = [...document.querySelectorAll(".list .event")];
        return found.length > 0 && found.every((row) => row.dataset.label === wanted);
      }, LIMIT, label);
      await shoot(page, "events-filtered");
      await page.reload();
      await page.waitForFunction((wanted) => document.querySelector("select[name=label]") && document.querySelector("select[name=label]")?.value === wanted, LIMIT, label);
      // The tab leads back to the filter.
      await page.click("#tabs a[href='#live']");
      await page.waitForSelector(".tile", LIMIT);
      await page.click("#tabs a[href^='#events']");
      await page.waitForFunction((wanted) => location.hash === `#events?source=gate&label=${wanted}&zone=left` && document.querySelector("select[name=label]")?.value === wanted, LIMIT, label);
      await page.evaluate(() => [...document.querySelectorAll("button")].find((button) => button.textContent === "Clear the filter").click());
      await page.waitForFunction(() => location.hash === "#events" && new Set([...document.querySelectorAll(".list .event")].map((row) => row.dataset.source)).size > 1, LIMIT);
      await page.browserContext().close();
    });

    await flow("times limit the list, and a time that is past gets no new events", async () => {
      const page = await open(busy.origin);
      const [from, to] = await page.evaluate(async () => {
        const { objects } = await (await fetch("api/objects?limit=120")).json();
        const times = objects.map((object) => object.started_ms).sort((a, b) => a - b);
        // The fields of the page hold whole seconds.
        const second = (at, more) => new Date((Math.floor(at / 1000) + more) * 1000).toISOString();
        return [second(times[60], 0), second(times[100], 1)];
      });
      await page.evaluate((hash) => { location.hash = hash; }, `events?from=${from}&to=${to}`);
      const outside = async () => (await rows(page)).filter((row) => Number(row.at) < Date.parse(from) || Number(row.at) > Date.parse(to));
      // The list without the filter goes first.
      await page.waitForFunction((first, last) => {
        const times = [...document.querySelectorAll(".list .event")].map((row) => Number(row.dataset.at));
        return times.length > 0 && times.every((at) => at >= first && at <= last);
      }, LIMIT, Date.parse(from), Date.parse(to));
      const newest = async () => page.evaluate(async () => (await (await fetch("api/objects?limit=1")).json()).objects[0].started_ms);
      const before = await newest();
      await page.waitForFunction(async (time) => (await (await fetch("api/objects?limit=1")).json()).objects[0].started_ms > time, { ...LIMIT, polling: 200 }, before);
      assert.deepEqual(await outside(), []);
      await page.browserContext().close();
    });

    await flow("an object is one card, with what happened to it inside, below the heading of its day", async () => {
      const page = await open(busy.origin, { hash: "#events" });
      await page.waitForFunction(() => document.querySelectorAll(".list .event").length > 20, LIMIT);
      const found = await rows(page);
      assert.equal(new Set(found.map((row) => row.id)).size, found.length);
      assert.equal(await page.$eval(".list h2", (heading) => heading.textContent), "Today");
      // Names are whole.
      assert.deepEqual(await page.$$eval(".event .name", (names) => names.filter((name) => name.scrollHeight > name.clientHeight || name.scrollWidth > name.clientWidth).map((name) => name.textContent)), []);
      await press(page, "List");
      await page.waitForFunction(() => [...document.querySelectorAll(".list .happened li")].some((item) => item.checkVisibility() && /line crossed: line-\d, to the (left|right)/.test(item.textContent)), LIMIT);
      await shoot(page, "events-rows");
      await page.waitForFunction(() => document.querySelectorAll(".now .event canvas").length > 3, LIMIT);
      await press(page, "Grid");
      await shoot(page, "events-grid");
      await page.browserContext().close();
    });

    await flow("a day of each source is scrubbed by the pointer and the keyboard", async () => {
      const page = await open(busy.origin, { hash: "#events" });
      await page.waitForFunction(() => [...document.querySelectorAll(".day .track")].length === 2 && [...document.querySelectorAll(".day .track")].every((track) => Number(track.dataset.objects) > 0), LIMIT);
      const area = await (await page.$(".day .row[data-source=gate] .track")).boundingBox();
      await page.mouse.move(area.x + area.width * 0.25, area.y + 10);
      await page.mouse.down();
      await page.mouse.move(area.x + area.width * 0.5, area.y + 10, { steps: 8 });
      await page.waitForFunction(() => document.querySelector(".day .row[data-source=gate] .bubble") && document.querySelector(".day .row[data-source=gate] .bubble")?.textContent !== "" && Math.abs(Number(document.querySelector(".day .row[data-source=gate] .track")?.getAttribute("aria-valuenow")) - 43200) < 600, LIMIT);
      await page.mouse.up();
      // Nothing is kept: the player says so.
      await page.waitForFunction(() => document.querySelector("dialog.viewer")?.open && /no video of gate/.test(document.querySelector("dialog.viewer")?.textContent), LIMIT);
      await page.keyboard.press("Escape");
      await focus(page, ".day .row[data-source=yard] .track");
      await page.keyboard.press("Home");
      await page.keyboard.press("ArrowRight");
      assert.equal(await page.$eval(".day .row[data-source=yard] .track", (track) => track.getAttribute("aria-valuenow")), "60");
      const today = await page.$eval(".day h2", (heading) => heading.textContent);
      await page.click(".day button[aria-label='The day before']");
      await page.waitForFunction(() => document.querySelector(".day h2")?.textContent === "Yesterday" && document.querySelector(".day .track")?.dataset.objects === "0", LIMIT);
      assert.equal(today, "Today");
      // Of an hour, a pixel is some seconds.
      await page.reload();
      await page.waitForFunction(() => Number(document.querySelector(".day .track")?.dataset.objects) > 0, LIMIT);
      await page.select(".day .timeline select", "3600000");
      await page.waitForFunction(() => / – /.test(document.querySelector(".day h2")?.textContent) && Number(document.querySelector(".day .track")?.dataset.objects) > 0, LIMIT);
      assert.equal(await page.$eval(".day .track", (track) => track.getAttribute("aria-valuemax")), "3600");
      const hour = await page.$eval(".day h2", (heading) => heading.textContent);
      await page.click(".day button[aria-label='‹ Earlier']");
      await page.waitForFunction((before) => document.querySelector(".day h2").textContent !== before, LIMIT, hour);
      await page.browserContext().close();
    });

    await flow("the filter of a phone leaves room for events", async () => {
      const page = await open(busy.origin, { hash: "#events", view: PHONE });
      await page.waitForSelector(".list .event", LIMIT);
      assert.equal(await page.$eval(".filters", (details) => details.open), false);
      const high = await page.$eval(".filters", (details) => details.getBoundingClientRect().height);
      assert.ok(high < 80, `${high} px`);
      await page.click(".filters summary");
      await page.waitForFunction(() => document.querySelector("select[name=label]")?.checkVisibility(), LIMIT);
      await shoot(page, "events-phone");
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
      await page.waitForFunction(() => document.querySelectorAll(".list .event[data-kind=object] button.thumb img").length >= 2, { timeout: 90000 });
      await page.waitForFunction(() => [...document.querySelectorAll(".list .event[data-kind=object]")].some((card) => card.textContent.includes("clip")), { timeout: 90000 });
      // What an operator opens is marked as seen; the others are marked together.
      await click(page, ".list .event[data-kind=object] button.thumb");
      await page.waitForFunction(() => document.querySelectorAll(".list .event.is-seen").length >= 1, LIMIT);
      await page.keyboard.press("Escape");
      await press(page, "Mark all as seen");
      await page.waitForFunction(async () => (await (await fetch("api/objects?limit=200")).json()).objects.filter((object) => object.reviewed).length >= 2, LIMIT);
      await page.browserContext().close();
    });
    await flow("the video of an object goes on in its next clip", async () => {
      const page = await open(first.origin, { hash: "#events" });
      const wanted = await (await page.waitForFunction(async () => {
        const { objects } = await (await fetch("api/objects?limit=200")).json();
        return objects.find(({ clips }) => clips.length > 1 && clips[1].to_ms);
      }, { timeout: 90000, polling: 500 })).jsonValue();
      await page.evaluate((id) => { location.hash = `events/${encodeURIComponent(id)}`; }, wanted.id);
      const shows = (clip) => page.waitForFunction((id) => {
        const video = document.querySelector("dialog.viewer[open] video");
        return document.querySelector("dialog.viewer").dataset.file === id && video?.readyState > 1 && !video.seeking;
      }, LIMIT, clip.id);
      await shows(wanted.clips[0]);
      await page.$eval("dialog.viewer video", (video) => { video.currentTime = video.duration - 0.3; });
      await shows(wanted.clips[1]);
      await page.browserContext().close();
    });
    await flow("a clip and a picture are shared by links that open without a log-in", async () => {
      const page = await open(first.origin, { hash: "#events" });
      const context = page.browserContext();
      if (!isFirefox) await context.overridePermissions(first.origin, ["clipboard-read", "clipboard-sanitized-write"]);
      await page.waitForFunction(() => [...document.querySelectorAll(".list .event[data-kind=object]")].some((card) => card.textContent.includes("clip")), { timeout: 90000 });
      await page.evaluate(() => [...document.querySelectorAll(".list .event[data-kind=object]")].find((card) => card.textContent.includes("clip")).querySelector("button.thumb").click());
      await page.waitForFunction(() => document.querySelector("dialog.viewer video")?.readyState > 1, LIMIT);
      const shared = async (hours) => {
        await press(page, "Share");
        await page.waitForSelector("dialog[open] select[name=hours]", LIMIT);
        await page.select("select[name=hours]", String(hours));
        await press(page, "Copy a link");
        await page.waitForFunction(() => /holds until/.test(document.querySelector("dialog:has(select[name=hours]) p[role=status]")?.textContent) && document.querySelector("input[name=link]")?.value, LIMIT);
        const link = await page.$eval("input[name=link]", (input) => input.value);
        if (!isFirefox) assert.equal(await page.evaluate(() => navigator.clipboard.readText()), link);
        await shoot(page, "events-shared");
        await page.keyboard.press("Escape");
        await page.waitForFunction(() => !document.querySelector("select[name=hours]") && document.querySelector("dialog.viewer").open, LIMIT);
        return new URL(link);
      };
      const clip = await shared(24);
      const until = Number(clip.searchParams.get("until")) * 1000 - Date.now();
      assert.ok(until > 23 * 3600e3 && until <= 24 * 3600e3, String(until));
      assert.match(clip.pathname, /\/clip\.mp4$/);
      await press(page, "Picture");
      await page.waitForFunction(() => document.querySelector("dialog.viewer img")?.naturalWidth > 0, LIMIT);
      const picture = await shared(1);
      assert.match(picture.pathname, /\/snapshot\.jpg$/);
      // As a browser shows it that has never seen the page.
      const other = await browser.createBrowserContext();
      const guest = await other.newPage();
      await guest.goto(clip.href);
      await guest.waitForFunction(() => document.querySelector("video")?.videoWidth > 0 && document.querySelector("video").readyState > 1, LIMIT);
      await guest.goto(picture.href);
      await guest.waitForFunction(() => document.querySelector("img")?.naturalWidth > 0, LIMIT);
      const changed = await guest.goto(clip.href.replace("until=1", "until=2"));
      assert.equal(changed.status(), 403);
      assert.match(await guest.evaluate(() => document.body.textContent), /This link is not valid/);
      await other.close();
      await context.close();
    });
  } finally {
    await first.stop();
  }
  const second = await start(binary, { config: kept.config, web: ["without_users: operator"] });
  try {
    await flow("what is kept of earlier runs follows the events of this one, each once", async () => {
      const page = await open(second.origin, { hash: "#events" });
      await page.waitForFunction(() => document.querySelectorAll(".list .event[data-kind=object] button.thumb img").length > 0, { timeout: 90000 });
      const pictures = await page.$$eval(".list .event img", (found) => found.map((image) => image.src));
      assert.equal(new Set(pictures).size, pictures.length);
      const started = (await (await fetch(`${second.origin}/api/info`)).json()).started_ms;
      const earlier = (await rows(page)).filter((row) => Number(row.at) < started);
      assert.ok(earlier.length > 0 && earlier.some((row) => /clip/.test(row.text) && /\d%/.test(row.text)), JSON.stringify(earlier.slice(0, 3)));
      await shoot(page, "events-kept-earlier");
      await page.select("select[name=kind]", "continuous");
      await page.waitForFunction(() => [...document.querySelectorAll(".list .event")].length > 0 && [...document.querySelectorAll(".list .event strong")].every((title) => title.textContent === "Recording"), { timeout: 90000 });
      // What is kept of a span of time is one video, which plays over all its files.
      const saved = await page.evaluate(async () => {
        const { items } = await (await fetch("api/media?kind=continuous&limit=200")).json();
        const whole = items.filter((item) => item.ended_ms);
        const [first, last] = [Math.min(...whole.map((item) => item.started_ms)), Math.max(...whole.map((item) => item.ended_ms))];
        const time = (ms) => new Date(ms).toISOString();
        const endOf = async (answer) => {
          const video = document.createElement("video");
          video.muted = true;
          video.src = URL.createObjectURL(await answer.blob());
          await new Promise((done, failed) => { video.onloadedmetadata = done; video.onerror = () => failed(new Error("it cannot be played")); });
          video.currentTime = 1e6;
          await new Promise((done) => { video.onseeked = done; });
          return video.currentTime;
        };
        const answer = await fetch(`api/sources/camera/export.mp4?from=${time(first)}&to=${time(last)}`);
        const name = answer.headers.get("content-disposition");
        const end = await endOf(answer);
        // A busy machine plays the source slower than the clock: the files say how much there is.
        let kept = 0;
        for (const item of whole) kept += await endOf(await fetch(`api/media/${item.clip}/clip.mp4`));
        return { name, end, kept, files: whole.length, none: (await fetch("api/sources/camera/export.mp4?from=2001-01-01T00:00:00Z&to=2001-01-01T00:10:00Z")).status };
      });
      assert.match(saved.name, /^attachment; filename="camera-\d+\.mp4"$/);
      assert.ok(saved.files > 0 && Math.abs(saved.end - saved.kept) < 3 + saved.files, JSON.stringify(saved));
      assert.equal(saved.none, 404);
      // A piece plays from its begin, and the day goes on from there.
      await click(page, ".list .event button.thumb");
      await page.waitForFunction(() => document.querySelector("dialog video")?.readyState > 1 && !document.querySelector("dialog video")?.hidden, LIMIT);
      await page.waitForFunction(() => document.querySelector("dialog .track")?.dataset.video > 0, LIMIT);
      await page.browserContext().close();
    });
  } finally {
    await second.stop();
    kept.remove();
  }
}
