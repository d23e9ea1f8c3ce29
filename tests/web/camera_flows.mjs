// SPDX-License-Identifier: Apache-2.0
// Flows of new cameras: found by a double of ONVIF cameras, opened from a real RTSP server, and added.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { start } from "./daemon.mjs";
import { LIMIT, PHONE, binary, flow, logIn, model, open, press, shoot } from "./harness.mjs";
import { certify } from "./nginx.mjs";

const USER = "admin";
const CAMERA_PASSWORD = "p<&>ss";

/** A program of tests/support, and the number at the end of its first line, a port. */
export async function support(name, args) {
  const child = spawn("/usr/bin/python3", [`${process.env.SUPPORT}/${name}`, ...args], { stdio: ["pipe", "pipe", "inherit"] });
  // Lines: a part of one may arrive first.
  const lines = createInterface({ input: child.stdout });
  const [line] = await once(lines, "line");
  return {
    port: /(\d+)\s*$/.exec(line)[1],
    /** The next line that matches. */
    line: (wanted) => new Promise((done) => { lines.on("line", (found) => wanted.test(found) && done()); }),
    stop: () => child.kill("SIGKILL"),
  };
}

export async function cameraFlows() {
  const server = await support("rtsp_server.py", ["--user", USER, "--password", CAMERA_PASSWORD]);
  const folder = mkdtempSync(join(tmpdir(), "jetwatch-web-camera-"));
  const [certificate, key] = certify(folder);
  const withKey = join(folder, "own.pem");
  writeFileSync(withKey, [certificate, key].map((file) => readFileSync(file)).join(""));
  const onvif = await support("onvif_camera.py", [JSON.stringify({ login: "digest", certificate: withKey, stream_host: `127.0.0.1:${server.port}` })]);
  // The scripted detector has no camera.
  const box = await start(binary, { users: [["anna", "administrator"], ["otto", "operator"]], config: (port, web) => `device: test-box
sources:
  - name: gate  # the first
    uri: synthetic://traffic?seed=1&objects=2&width=320&height=180&fps=2
# What finds.
detector: {model: ${model}}
publish:
  mqtt: off
  stats_interval_s: 1
web:
  listen: 127.0.0.1:${port}
${web.map((line) => `  ${line}\n`).join("")}` });
  try {
    await flow("an administrator finds a camera, looks at its stream, and adds it", async () => {
      const page = await open(box.origin);
      await logIn(page, "anna");
      await page.waitForSelector("#cameras:not([hidden])", LIMIT);
      await page.click("#cameras");
      await page.waitForSelector("input[name=address]", LIMIT);
      await page.type("input[name=address]", `https://127.0.0.1:${onvif.port}`);
      await press(page, "Find cameras");
      await page.waitForFunction(() => /not trusted \(unknown-ca\)/.test(document.querySelector(".found .problem")?.textContent), LIMIT);
      await page.type("input[name=ca_file]", certificate);
      await press(page, "Find cameras");
      await page.waitForFunction(() => /asks for user and password/.test(document.querySelector(".found .problem")?.textContent), LIMIT);
      await page.type("input[name=user]", USER);
      await page.type("input[name=password]", CAMERA_PASSWORD);
      await press(page, "Find cameras");
      await page.waitForFunction(() => document.querySelectorAll(".found .stream").length === 2, LIMIT);
      await shoot(page, "guide-cameras");
      // Both are there still after a look at another view; the password is not.
      await page.click("#tabs a[href='#live']");
      await page.waitForSelector(".tile", LIMIT);
      await page.click("#cameras");
      await page.waitForFunction(() => document.querySelectorAll(".found .stream").length === 2, LIMIT);
      assert.deepEqual(await page.$$eval("form input", (inputs) => inputs.slice(1, 4).map((input) => input.value)), [USER, "", certificate]);
      await page.type("input[name=password]", CAMERA_PASSWORD);
      await page.evaluate(() => [...document.querySelectorAll(".stream")].find((stream) => stream.querySelector(".chip")).querySelector("button").click());
      await page.waitForFunction(() => document.querySelector(".look .sample")?.naturalWidth > 300, LIMIT);
      const facts = await page.$eval(".look .facts", (list) => list.textContent);
      assert.match(facts, /CodecH\.264Size320×240Frames per second2[0-5]\.\d/);
      assert.equal(await page.$eval(".look input[name=max_fps]", (input) => input.value), "15");
      await page.$eval(".look input[name=name]", (input) => { input.value = ""; });
      await page.type(".look input[name=name]", "door");
      await page.click(".look input[name=motion]");
      await shoot(page, "cameras-tested");
      const followed = onvif.line(/PullMessages 200/);
      await press(page, "Add to the configuration");
      await page.waitForFunction(() => /^door is in the configuration/.test(document.querySelector(".look .result")?.textContent), LIMIT);
      await page.setViewport(PHONE);
      await shoot(page, "cameras-phone");
      // The stream needs no certificate, the events do.
      assert.match(box.text(), /# the first[\s\S]*name: door\n\s+uri: "rtsp:\/\/127[\s\S]*ca_file: "\/[\s\S]*max_fps: 15\n\s+onvif:\n\s+events: motion\n\s+address: "https:\/\/127[\s\S]*# What finds/);
      assert.equal(box.text().includes(CAMERA_PASSWORD), false);
      await page.evaluate(() => { location.hash = "#live"; });
      await page.waitForFunction(() => document.querySelector(".tile[data-source=door] .state")?.textContent === "online" && Number(document.querySelector(".tile[data-source=door]")?.dataset.pictures) > 0, LIMIT);
      // It is followed with the user and the password of the source.
      await followed;
      assert.deepEqual(page.problems.filter((problem) => !/401/.test(problem)), []);
      await page.browserContext().close();
    });

    await flow("a login within an address comes into its fields, and what is wrong is said", async () => {
      const page = await open(box.origin, { hash: "#cameras", view: PHONE });
      await logIn(page, "anna");
      await page.waitForSelector("input[name=address]", LIMIT);
      await page.type("input[name=address]", `rtsp://${USER}:wrong%21@127.0.0.1:${server.port}/video`);
      await press(page, "Test as a stream");
      await page.waitForFunction(() => document.querySelector(".look .problem")?.textContent.length > 20, LIMIT);
      assert.deepEqual(await page.evaluate(() => ["address", "user", "password"].map((name) => document.querySelector(`input[name=${name}]`).value)),
        [`rtsp://127.0.0.1:${server.port}/video`, USER, "wrong!"]);
      // As it is typed without a code for its signs.
      await page.$eval("input[name=address]", (input, port) => { input.value = `rtsp://root:100%s@re@127.0.0.1:${port}/video`; }, server.port);
      await press(page, "Test as a stream");
      assert.deepEqual(await page.evaluate(() => ["address", "user", "password"].map((name) => document.querySelector(`input[name=${name}]`).value)),
        [`rtsp://127.0.0.1:${server.port}/video`, "root", "100%s@re"]);
      await page.waitForFunction(() => document.querySelector(".look:not([hidden]) .problem")?.textContent.length > 20, LIMIT);
      await page.$eval("input[name=address]", (input) => { input.value = "file:///etc/passwd"; });
      await press(page, "Test as a stream");
      await page.waitForFunction(() => /cameras of the network/.test(document.querySelector("#notice")?.textContent), LIMIT);
      await shoot(page, "cameras-wrong");
      await page.$eval("input[name=address]", (input) => { input.value = "rtsp://127.0.0.1/1"; });
      await page.type("input[name=ca_file]", "/none.pem");
      await press(page, "Test as a stream");
      await page.waitForFunction(() => /only for addresses with https:\/\/ or rtsps:\/\//.test(document.querySelector("#notice")?.textContent), LIMIT);
      await page.browserContext().close();
    });

    await flow("a camera that says nothing is given up, with its reason", async () => {
      const silent = createServer(() => {});
      await new Promise((done) => silent.listen(0, "127.0.0.1", done));
      const page = await open(box.origin, { hash: "#cameras" });
      await logIn(page, "anna");
      await page.waitForSelector("input[name=address]", LIMIT);
      await page.type("input[name=address]", `rtsp://127.0.0.1:${silent.address().port}/1`);
      await press(page, "Test as a stream");
      await page.waitForFunction(() => /Opening the stream/.test(document.querySelector(".panel .result")?.textContent), LIMIT);
      await page.waitForFunction(() => document.querySelector(".look .problem")?.textContent.length > 20, LIMIT);
      assert.equal(await page.$eval(".panel .result", (node) => node.textContent), "");
      await page.browserContext().close();
      silent.close();
    });

    await flow("others have no tab for cameras, and their requests are refused", async () => {
      const page = await open(box.origin, { hash: "#cameras" });
      await logIn(page, "otto");
      await page.waitForFunction(() => /Only an administrator/.test(document.querySelector("main .empty")?.textContent), LIMIT);
      assert.equal(await page.$eval("#cameras", (link) => link.checkVisibility()), false);
      assert.equal(await page.evaluate(async () => (await fetch("api/cameras")).status), 403);
      await page.browserContext().close();
    });
  } finally {
    await box.stop();
    onvif.stop();
    server.stop();
    rmSync(folder, { recursive: true });
  }
}
