// SPDX-License-Identifier: Apache-2.0
// Accessibility: no finding of axe, all by the keyboard, no sideways scrolling from a small phone to a large screen.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { PASSWORD, VIDEO_CONFIG, start } from "./daemon.mjs";
import { LIMIT, PHONE, binary, flow, logIn, model, open, press, shoot } from "./harness.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const READY = { live: ".tile[data-pictures]", events: ".list .event", "zones/gate": ".shape", machine: ".plots svg", cameras: ".found" };

/** Findings, as texts. */
export async function findings(page) {
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const run = () => window.axe.run(document, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
    // axe ends with an error where the page takes an element away that it has a finding or a check for: it looked at no state of the page then.
    let isRemoved = false;
    const observer = new MutationObserver((changes) => { isRemoved ||= changes.some((change) => change.removedNodes.length); });
    observer.observe(document.body, { childList: true, subtree: true });
    let found = null;
    while (!found) {
      isRemoved = false;
      found = await run().catch((error) => {
        if (!isRemoved) throw error;
      });
    }
    observer.disconnect();
    return found.violations
      .map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html.slice(0, 160)} ${node.any.map((check) => check.message).join("; ")}`).join(" | ")}`);
  });
}

async function go(page, tab) {
  await page.evaluate((hash) => { location.hash = hash; }, tab);
  await page.waitForSelector(READY[tab], LIMIT);
}

export async function accessFlows() {
  const box = await start(binary, { users: [["anna", "administrator"], ["otto", "operator"]] });
  try {
    // The longest words, and the widest letters.
    for (const [scheme, language] of [["light", "en"], ["dark", "en"], ["light", "de"], ["dark", "ja"]]) {
      for (const [name, view] of [["large screen", { width: 1920, height: 1080 }], ["phone", PHONE]]) {
        await flow(`axe has no finding, ${scheme}, ${name}, ${language}`, async () => {
          const page = await open(box.origin, { scheme, view, languages: [language] });
          await page.waitForSelector(".login input[name=user]", LIMIT);
          const found = (await findings(page)).map((text) => `login: ${text}`);
          await logIn(page, "anna");
          await page.waitForSelector(".tile[data-pictures]", LIMIT);
          for (const tab of Object.keys(READY)) {
            await go(page, tab);
            found.push(...(await findings(page)).map((text) => `${tab}: ${text}`));
          }
          await page.click("#user");
          await page.waitForSelector("#account[open]", LIMIT);
          found.push(...(await findings(page)).map((text) => `account: ${text}`));
          assert.deepEqual(found, []);
          await page.browserContext().close();
        });
      }
    }

    await flow("focus, selection and what is typed stay in every view while messages come", async () => {
      const page = await open(box.origin);
      await logIn(page, "anna");
      await page.waitForSelector(".tile[data-pictures]", LIMIT);
      // In each view: what has the focus, and what is typed there.
      const views = [
        ["live", ".tile .actions button:not([hidden])"], ["events", ".past .event .thumb"], ["events", "select[name=label]"], ["events", "input[name=from]"],
        ["zones/gate", ".shapes input", "abc"], ["zones/gate", ".shapes summary"], ["zones/gate", ".shapes .fields input[type=number]", "7"], ["zones/gate", ".drawing"],
        ["machine", ".actions button"], ["machine", ".checks button"], ["cameras", "input[name=address]", "192.0.2"], ["cameras", "input[name=password]", "half"],
      ];
      const changed = [];
      page.on("dialog", (dialog) => dialog.accept());
      for (const [tab, selector, typed = ""] of views) {
        await go(page, tab);
        await page.waitForSelector(selector, LIMIT);
        const before = await page.evaluate(async (wanted) => {
          const node = document.querySelector(wanted);
          const details = node.closest("details");
          if (details) details.open = true;
          node.focus();
          return [document.activeElement === node, node.value];
        }, selector);
        if (!before[0]) changed.push(`${tab} ${selector}: cannot have the focus`);
        if (typed) await page.keyboard.type(typed);
        // A stream of its own shows how many have come.
        const after = await page.evaluate(async (wanted) => {
          await new Promise((done) => {
            const stream = new EventSource("api/live");
            let left = 5;
            stream.addEventListener("message", (event) => {
              if (JSON.parse(event.data).kind !== "stats") return;
              left -= 1;
              if (left === 0) {
                stream.close();
                done();
              }
            });
          });
          return [document.activeElement.matches(wanted), document.activeElement.value];
        }, selector);
        const isKept = after[0] && (typed === "" ? after[1] === before[1] : after[1].endsWith(typed));
        if (!isKept) changed.push(`${tab} ${selector}: ${JSON.stringify([before, after])}`);
      }
      // The name of the device is selected, as for a copy.
      await go(page, "machine");
      await page.evaluate(() => getSelection().selectAllChildren([...document.querySelectorAll(".overview dd")].find((value) => value.textContent === "test-box")));
      const first = await page.$$eval(".overview dd", (values) => values.map((value) => value.textContent).join());
      await page.waitForFunction((text) => [...document.querySelectorAll(".overview dd")].map((value) => value.textContent).join() !== text, LIMIT, first);
      assert.equal(await page.evaluate(() => String(getSelection())), "test-box");
      assert.deepEqual(changed, []);
      await page.browserContext().close();
    });

    for (const language of ["en", "de", "fr", "ja"]) {
      await flow(`no page scrolls sideways from 320 to 1920 pixels, ${language}`, async () => {
        const page = await open(box.origin, { languages: [language] });
        await logIn(page, "anna");
        await page.waitForSelector(".tile", LIMIT);
        for (const width of [320, 390, 768, 1024, 1920]) {
          await page.setViewport({ width, height: 800 });
          for (const tab of Object.keys(READY)) {
            await go(page, tab);
            const [wide, which] = await page.evaluate(() => {
              const { scrollWidth, clientWidth } = document.documentElement;
              const beyond = [...document.querySelectorAll("body *:not(.now .cards *)")].filter((node) => node.getBoundingClientRect().right > clientWidth + 0.5);
              return [scrollWidth - clientWidth, beyond.slice(0, 5).map((node) => node.cloneNode().outerHTML)];
            });
            assert.ok(wide <= 0, `${tab} at ${width}: ${wide} px too wide: ${which.join(" ")}`);
          }
        }
        await page.browserContext().close();
      });

      await flow(`the header of a phone has two rows, whatever the names of the box and of the user, ${language}`, async () => {
        const page = await open(box.origin, { view: PHONE, languages: [language] });
        await logIn(page, "anna");
        await page.waitForSelector(".tile", LIMIT);
        for (const width of [320, 390, 600]) {
          await page.setViewport({ ...PHONE, width });
          for (const long of [false, true]) {
            const found = await page.evaluate((isLong) => {
              if (isLong) {
                document.getElementById("device").textContent = "parking-deck-of-the-third-building-north";
                document.getElementById("user").textContent = "a-user-with-a-long-name (administrator)";
              }
              const shown = [...document.querySelectorAll(".brand, #link, #user, #logout, nav a")].filter((node) => node.checkVisibility());
              const boxes = shown.map((node) => node.getBoundingClientRect());
              // Rows: boxes that share no height.
              const rows = [];
              for (const { top, bottom } of boxes.sort((one, other) => one.top - other.top)) {
                const row = rows.at(-1);
                if (row && top < row.bottom) row.bottom = Math.max(row.bottom, bottom);
                else rows.push({ bottom });
              }
              const isInside = boxes.every(({ left, right }) => left >= 0 && right <= document.documentElement.clientWidth);
              return [rows.length, isInside];
            }, long);
            assert.deepEqual(found, [2, true], `${width} pixels, long names: ${long}`);
          }
        }
        await shoot(page, "phone-header");
        await page.browserContext().close();
      });
    }

    await flow("all is done by the keyboard: log-in, pages, all controls, a zone, log-out", async () => {
      const page = await open(box.origin);
      await page.waitForFunction(() => document.activeElement && document.activeElement.name === "user", LIMIT);
      await page.keyboard.type("otto");
      await page.keyboard.press("Tab");
      await page.keyboard.type(PASSWORD);
      await page.keyboard.press("Enter");
      await page.waitForSelector(".tile[data-pictures]", LIMIT);
      /** Presses Tab until `wanted` has the focus. */
      const reach = async (wanted, key = "Tab") => {
        for (let count = 0; count < 120; count += 1) {
          if (await page.evaluate(wanted)) return;
          if (key === "Tab") await page.keyboard.press("Tab");
          else await page.keyboard.press(key);
        }
        assert.fail(`${wanted} is not reached`);
      };
      for (const tab of ["events", "machine", "live", "zones"]) {
        await reach(`document.activeElement.getAttribute("href") === "#${tab}"`);
        await page.keyboard.press("Enter");
        await page.waitForSelector(READY[tab] || READY["zones/gate"], LIMIT);
        // Each control has the focus once, on one way through.
        await page.evaluate(() => {
          window.seen = new Set();
          document.addEventListener("focusin", (event) => window.seen.add(event.target));
          document.querySelector(".skip").focus();
        });
        for (let count = 0; count < 150; count += 1) await page.keyboard.press("Tab");
        const missed = await page.evaluate(() => [...document.querySelectorAll("a[href], button, input, select, [tabindex='0']")]
          .filter((node) => node.checkVisibility() && !node.disabled && !window.seen.has(node) && !node.closest("dialog, .list, .now"))
          .map((node) => node.outerHTML.slice(0, 120)));
        assert.deepEqual(missed, [], tab);
        if (tab === "events") {
          // All cards are one stop of Tab; arrows go from one to the next.
          await page.waitForFunction(() => document.querySelectorAll(".list .event").length > 1 && document.querySelectorAll(".list .thumb[tabindex='0']").length === 1, LIMIT);
          await page.focus(".list .thumb[tabindex='0']");
          const first = await page.evaluate(() => document.activeElement.closest(".event").dataset.id);
          await page.keyboard.press("ArrowRight");
          assert.notEqual(await page.evaluate(() => document.activeElement.closest(".event").dataset.id), first);
        }
      }
      const button = (label) => `document.activeElement.textContent === ${JSON.stringify(label)}`;
      await reach(button("Draw a zone"));
      await page.keyboard.press("Enter");
      assert.ok(await page.evaluate(() => document.activeElement.classList.contains("drawing")));
      const step = async (key, count) => {
        await page.keyboard.down("Shift");
        for (let at = 0; at < count; at += 1) await page.keyboard.press(key);
        await page.keyboard.up("Shift");
      };
      await page.keyboard.press("Space");
      await step("ArrowRight", 4);
      await page.keyboard.press("Space");
      await step("ArrowDown", 4);
      await page.keyboard.press("Space");
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => /coordinates: "0\.5,0\.5,0\.7,0\.5,0\.7,0\.7"/.test(document.querySelector("pre")?.textContent), LIMIT);
      await page.keyboard.press("n");
      await page.keyboard.press("ArrowUp");
      await page.waitForFunction(() => /coordinates: "0\.5,0\.5,0\.7,0\.495,0\.7,0\.7"/.test(document.querySelector("pre")?.textContent), LIMIT);
      await shoot(page, "zones-keyboard");
      await reach(button("Save and reload"));
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => document.querySelector(".result")?.textContent === "Saved and in effect.", LIMIT);
      await reach(button("Log out"));
      await page.keyboard.press("Enter");
      await page.waitForSelector(".login input[name=user]", LIMIT);
      await page.browserContext().close();
    }, { onlyChromium: "in Firefox, Tab leaves the page for the browser's own controls" });
  } finally {
    await box.stop();
  }

  const camera = await start(binary, { config: VIDEO_CONFIG(binary, model), web: ["without_users: operator"] });
  try {
    await flow("a clip is opened and closed by the keyboard, and axe has no finding", async () => {
      const page = await open(camera.origin, { hash: "#events?kind=&from=2000-01-01T00:00:00Z" });
      await page.waitForFunction(() => [...document.querySelectorAll(".list .event")].some((card) => card.textContent.includes("clip")), { timeout: 90000 });
      const found = await findings(page);
      await page.evaluate(() => [...document.querySelectorAll(".list .event")].find((card) => card.textContent.includes("clip")).querySelector("button").focus());
      await page.keyboard.press("Enter");
      await page.waitForSelector("dialog.viewer[open] video:not([hidden])", LIMIT);
      assert.ok(await page.evaluate(() => document.querySelector("dialog.viewer").contains(document.activeElement)));
      found.push(...await findings(page));
      assert.deepEqual(found, []);
      await page.keyboard.press("Escape");
      await page.waitForFunction(() => !document.querySelector("dialog.viewer")?.open, LIMIT);
      await press(page, "Clear the filter");
      await page.browserContext().close();
    });
  } finally {
    await camera.stop();
  }
}
