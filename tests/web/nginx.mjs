// SPDX-License-Identifier: Apache-2.0
// The page behind nginx, which has TLS, below a path that it keeps: the server block of docs/src/guide/web.md, as it is but for ports, certificate
// and the address of the daemon.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { VIDEO_CONFIG, freePort, start } from "./daemon.mjs";
import { DESKTOP, LIMIT, binary, browser, flow, logIn, model } from "./harness.mjs";

export const PATH = "/jetwatch";

/** The example of the guide in this language, changed by pairs of what is there and what is to be there. */
export function example(language, changes) {
  let [, text] = readFileSync(process.env.GUIDE, "utf8").match(new RegExp(`\`\`\`${language}\\n([^]*?)\`\`\``));
  for (const [from, to] of changes) {
    assert.ok(text.includes(from), `the guide has no ${from}`);
    text = text.replaceAll(from, to);
  }
  return text;
}

/** A certificate for 127.0.0.1 and home.example, and its key, in `folder`. */
export function certify(folder) {
  const [certificate, key] = ["cert.pem", "key.pem"].map((name) => join(folder, name));
  execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
    "-addext", "subjectAltName=IP:127.0.0.1,DNS:home.example", "-keyout", key, "-out", certificate], { stdio: "ignore" });
  return [certificate, key];
}

/** Starts the proxy of `make`, which gets a folder, a port, a certificate and its key; waits until it answers. */
export async function startProxy(name, make) {
  const folder = mkdtempSync(join(tmpdir(), `jetwatch-${name}-`));
  const port = await freePort();
  const [program, arguments_, env] = make(folder, port, ...certify(folder));
  const log = [];
  const child = spawn(program, arguments_, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...env } });
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => log.push(String(text)));
  const ended = new Promise((done) => child.on("exit", done));
  const until = Date.now() + 20000;
  for (;;) {
    try {
      const { status } = await get(port, `${PATH}/`, { Host: `home.example:${port}` });
      // Traefik answers before it has read what it is to pass on.
      if (status !== 404) break;
      throw new Error(`status ${status}`);
    } catch (error) {
      if (Date.now() > until || child.exitCode !== null) throw new Error(`${name} does not answer: ${error}\n${log.join("")}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  }
  return {
    port,
    stop: async () => {
      child.kill("SIGTERM");
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}

/** nginx in front of the daemon at `target`, as a user of its own, in a folder of its own. */
export const nginx = (target) => startProxy("nginx", (folder, port, certificate, key) => {
  const server = example("nginx", [
    ["listen 443 ssl", `listen 127.0.0.1:${port} ssl`],
    ["http://127.0.0.1:8080", `http://127.0.0.1:${target}`],
    ["/etc/nginx/tls/home.pem", certificate],
    ["/etc/nginx/tls/home.key", key],
  ]);
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `  ${name}_temp_path ${folder}/${name};\n`).join("");
  writeFileSync(join(folder, "nginx.conf"), `${process.getuid() === 0 ? "user root;\n" : ""}pid ${folder}/pid;\nworker_processes 1;\nevents {}\nhttp {\n  access_log off;\n${temporary}${server}}\n`);
  mkdirSync(join(folder, "logs"));
  return [process.env.NGINX || "/usr/sbin/nginx", ["-p", folder, "-c", join(folder, "nginx.conf"), "-e", "stderr", "-g", "daemon off;"]];
});

/** The answer to GET; `take` gets its body piece by piece, with the time in ms, until it returns true. */
export function get(port, path, headers, take = () => true) {
  return new Promise((done, failed) => {
    const asked = request({ host: "127.0.0.1", port, path, headers, rejectUnauthorized: false }, (answer) => {
      const from = Date.now();
      const timer = setTimeout(() => { asked.destroy(); failed(new Error(`${path}: what was waited for did not come`)); }, 30000);
      const end = () => { clearTimeout(timer); done({ status: answer.statusCode, headers: answer.headers }); };
      answer.on("data", (piece) => {
        if (take(piece, Date.now() - from)) {
          end();
          asked.destroy();
        }
      });
      answer.on("end", end);
    });
    asked.on("error", failed);
    asked.end();
  });
}

export async function openPage(origin) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  await page.setViewport(DESKTOP);
  await page.goto(`${origin}/`);
  return page;
}

export async function nginxFlows() {
  const daemon = await start(binary, {
    config: VIDEO_CONFIG(binary, model),
    users: [["anna", "administrator"]],
    web: [`base_path: ${PATH}`, "trusted_proxies: [127.0.0.1]"],
  });
  const proxy = await nginx(daemon.port);
  let cookie = "";
  try {
    await flow("behind nginx with TLS, below a path: log-in with the cookie for HTTPS, pictures, events, clips, the camera's stream", async () => {
      const page = await openPage(`https://127.0.0.1:${proxy.port}${PATH}`);
      await logIn(page, "anna");
      await page.waitForFunction(() => Number(document.querySelector(".tile")?.dataset.pictures) >= 3, LIMIT);
      const cookies = await page.browserContext().cookies();
      const [found] = cookies;
      assert.equal(cookies.length, 1);
      assert.deepEqual([found.name, found.path, found.secure, found.httpOnly, found.sameSite], ["__Host-jetwatch", "/", true, true, "Strict"]);
      cookie = `${found.name}=${found.value}`;
      await page.waitForFunction(() => [...document.querySelectorAll(".tile button")].some((button) => button.textContent === "Camera stream" && !button.hidden), LIMIT);
      await page.evaluate(() => [...document.querySelectorAll(".tile button")].find((button) => button.textContent === "Camera stream").click());
      await page.waitForFunction(() => document.querySelector(".tile video") && document.querySelector(".tile video")?.currentTime > 1.5, LIMIT);
      await page.evaluate(() => { location.hash = "events"; });
      await page.waitForSelector(".list .event", LIMIT);
      const clip = await page.waitForFunction(async () => {
        const { items } = await (await fetch("api/media")).json();
        return items.find((item) => item.clip)?.clip;
      }, { ...LIMIT, polling: 500 });
      const range = await page.evaluate(async (id) => {
        const answer = await fetch(`api/media/${id}/clip.mp4`, { headers: { Range: "bytes=4-7" } });
        return [answer.status, answer.headers.get("content-range").split("/")[0], await answer.text()];
      }, await clip.jsonValue());
      assert.deepEqual(range, [206, "bytes 4-7", "ftyp"]);
      await page.browserContext().close();
    });

    await flow("nginx passes messages, pictures and video on as they come", async () => {
      const headers = { Cookie: cookie };
      // nginx would collect pages of 4 or 8 KiB: each message is smaller, and several come one after the other.
      let [text, pieces] = ["", []];
      const live = await get(proxy.port, `${PATH}/api/live`, headers, (piece, at) => {
        const isComplete = text.includes("event: complete");
        text += piece;
        if (isComplete) pieces.push([piece.length, at]);
        return pieces.length >= 8;
      });
      assert.equal(live.status, 200);
      assert.equal(live.headers["content-type"], "text/event-stream");
      const small = pieces.filter(([length]) => length < 4000);
      assert.ok(small.length >= 6, `${pieces}`);
      assert.ok(new Set(small.map(([, at]) => at)).size >= 4, `all at once: ${pieces}`);

      // Each picture is complete before the next one is drawn.
      let bytes = Buffer.alloc(0);
      const ends = [];
      const mjpeg = await get(proxy.port, `${PATH}/api/sources/camera/mjpeg`, headers, (piece, at) => {
        bytes = Buffer.concat([bytes, piece]);
        const count = bytes.toString("latin1").split("\r\n--jetwatch-picture\r\n").length - 1;
        while (ends.length < count) ends.push(at);
        return ends.length >= 5;
      });
      assert.match(mjpeg.headers["content-type"], /^multipart\/x-mixed-replace/);
      assert.ok(ends[4] - ends[1] >= 200, `three pictures at 5 a second came within ${ends[4] - ends[1]} ms: ${ends}`);

      let first = Buffer.alloc(0);
      const video = await get(proxy.port, `${PATH}/api/sources/camera/stream.mp4`, headers, (piece) => {
        first = Buffer.concat([first, piece]);
        return first.includes("moof");
      });
      assert.equal(video.headers["content-type"], "video/mp4");
      assert.match(video.headers["x-codecs"], /^avc1\./);
      assert.equal(first.subarray(4, 8).toString(), "ftyp");
    });

    await flow("nginx gets no page for another name, and no change from another site", async () => {
      const other = await get(proxy.port, `${PATH}/`, { Host: "evil.example" });
      assert.equal(other.status, 421);
      const site = await get(proxy.port, `${PATH}/api/session`, { Cookie: cookie, Origin: "https://evil.example" });
      assert.equal(site.status, 403);
    });
  } finally {
    await proxy.stop();
    await daemon.stop();
  }
}
