// SPDX-License-Identifier: Apache-2.0
// The page behind nginx, Caddy and Traefik with the examples of docs/src/guide/web.md, and behind a double of Home Assistant's ingress.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request as plainRequest } from "node:http";
import { createServer, request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createDeflate } from "node:zlib";

import { PASSWORD, freePort, start } from "./daemon.mjs";
import { LIMIT, binary, flow, logIn } from "./harness.mjs";
import { PATH, certify, example, get, nginx, openPage, startProxy } from "./nginx.mjs";

const INGRESS = "/api/hassio_ingress/a-token";

const caddy = (target) => startProxy("caddy", (folder, port, certificate, key) => {
  const site = example("caddyfile", [
    ["home.example {", `home.example:${port} {\n    bind 127.0.0.1\n    tls ${certificate} ${key}`],
    ["127.0.0.1:8080", `127.0.0.1:${target}`],
  ]);
  writeFileSync(join(folder, "Caddyfile"), `{\n    admin off\n    auto_https disable_redirects\n}\n${site}`);
  return [process.env.CADDY, ["run", "--config", join(folder, "Caddyfile"), "--adapter", "caddyfile"], { XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }];
});

const traefik = (target) => startProxy("traefik", (folder, port, certificate, key) => {
  const routes = example("toml", [["127.0.0.1:8080", `127.0.0.1:${target}`]]);
  writeFileSync(join(folder, "jetwatch.toml"), `${routes}\n[[tls.certificates]]\ncertFile = "${certificate}"\nkeyFile = "${key}"\n`);
  return [process.env.TRAEFIK, ["--log.level=ERROR", "--global.checknewversion=false", "--global.sendanonymoususage=false",
    `--entrypoints.websecure.address=127.0.0.1:${port}`, `--providers.file.filename=${join(folder, "jetwatch.toml")}`]];
});

/** Whether Home Assistant compresses an answer of this type, which keeps parts of it until more comes. */
const isCompressed = (type) => !/^(text\/event-stream|image|video|audio|font)/.test(type) && (!type.startsWith("application/") || /json|xml|javascript/.test(type));

/**
 * A double of the ingress: Home Assistant (homeassistant/components/hassio/ingress.py) and its supervisor (supervisor/api/ingress.py) remove the
 * path and set these headers. Another page of the same host has the page in a frame, as the panel of Home Assistant.
 */
async function ingress(target) {
  const folder = mkdtempSync(join(tmpdir(), "jetwatch-ingress-"));
  const port = await freePort();
  const [certificate, key] = certify(folder).map((path) => readFileSync(path));
  const server = createServer({ cert: certificate, key }, (incoming, answer) => {
    if (incoming.url === "/panel/") {
      answer.setHeader("Content-Type", "text/html");
      answer.end(`<!doctype html><title>panel</title><iframe src="${INGRESS}/" width="1200" height="800"></iframe>`);
      return;
    }
    if (!incoming.url.startsWith(`${INGRESS}/`)) {
      answer.writeHead(404).end();
      return;
    }
    const before = incoming.headers["x-forwarded-for"];
    const headers = {
      ...incoming.headers,
      "x-hass-source": "core.ingress",
      "x-ingress-path": INGRESS,
      // Home Assistant appends its client, and the supervisor appends Home Assistant.
      "x-forwarded-for": `${before ? `${before}, ` : ""}${incoming.socket.remoteAddress}, 127.0.0.1`,
      "x-forwarded-host": incoming.headers["x-forwarded-host"] || incoming.headers.host,
      "x-forwarded-proto": incoming.headers["x-forwarded-proto"] || "https",
      "x-remote-user-id": "0123456789abcdef",
      "x-remote-user-name": "anna",
      "x-remote-user-display-name": "Anna",
    };
    const outgoing = plainRequest({ host: "127.0.0.1", port: target, path: incoming.url.slice(INGRESS.length), method: incoming.method, headers }, (found) => {
      const { "content-length": length, ...rest } = found.headers;
      if (/deflate/.test(incoming.headers["accept-encoding"]) && isCompressed(found.headers["content-type"] || "") && length !== "0") {
        answer.writeHead(found.statusCode, { ...rest, "content-encoding": "deflate" });
        found.pipe(createDeflate()).pipe(answer);
      } else {
        answer.writeHead(found.statusCode, found.headers);
        found.pipe(answer);
      }
    });
    outgoing.on("error", () => answer.destroy());
    answer.on("close", () => outgoing.destroy());
    incoming.pipe(outgoing);
  });
  await new Promise((done) => server.listen(port, "127.0.0.1", done));
  return { port, stop: async () => { server.closeAllConnections(); server.close(); rmSync(folder, { recursive: true }); } };
}

/** The answer to a POST of JSON from the client `localAddress`: status, and the first cookie. */
function post({ port, path }, what, body, headers = {}, localAddress = "127.0.0.1") {
  const host = `home.example:${port}`;
  const options = { host: "127.0.0.1", port, path: path + what, method: "POST", localAddress, rejectUnauthorized: false, agent: false,
    servername: "home.example", headers: { Host: host, Origin: `https://${host}`, "Content-Type": "application/json", ...headers } };
  return new Promise((done, failed) => {
    const asked = request(options, (answer) => {
      answer.resume();
      answer.on("end", () => done({ status: answer.statusCode, cookie: answer.headers["set-cookie"]?.[0] }));
    });
    asked.on("error", failed);
    asked.end(JSON.stringify(body));
  });
}

/** What each proxy must keep: `clients` are the last bytes of two addresses that nobody else uses. */
async function checks(name, place, clients) {
  const logInAs = (user, headers, address) => post(place, "/api/login", { user, password: user === "anna" ? PASSWORD : "a wrong password" }, headers, address);
  let cookie = "";

  await flow(`behind ${name}: log-in and changes by the host's name over HTTPS, and none from another site`, async () => {
    const { status, cookie: set } = await logInAs("anna");
    assert.equal(status, 204);
    assert.match(set, /^__Host-jetwatch=.*Secure/);
    cookie = set.split(";")[0];
    assert.equal((await post(place, "/api/reload", {}, { Cookie: cookie })).status, 204);
    assert.equal((await post(place, "/api/reload", {}, { Cookie: cookie, Origin: "https://evil.example" })).status, 403);
    assert.equal((await post(place, "/api/reload", {}, { Cookie: cookie, Origin: `http://home.example:${place.port}` })).status, 403);
  });

  await flow(`behind ${name}: messages and pictures arrive as they are made`, async () => {
    const headers = { Cookie: cookie, Host: `home.example:${place.port}` };
    let [text, pieces] = ["", new Set()];
    await get(place.port, `${place.path}/api/live`, headers, (piece, at) => {
      if (text.includes("event: complete")) pieces.add(at);
      text += piece;
      return pieces.size >= 4;
    });
    let [bytes, ends] = ["", []];
    await get(place.port, `${place.path}/api/sources/gate/mjpeg`, headers, (piece, at) => {
      bytes += piece.toString("latin1");
      const count = bytes.split("\r\n--jetwatch-picture\r\n").length - 1;
      while (ends.length < count) ends.push(at);
      return ends.length >= 4;
    });
    assert.ok(ends[3] > ends[1], `all at once: ${ends}`);
  });

  await flow(`behind ${name}: attempts count for the real client, whatever X-Forwarded-For it sends`, async () => {
    const [one, other] = clients.map((last) => `127.0.0.${last}`);
    const found = [];
    for (let count = 0; count < 11; count += 1) {
      const invented = { "X-Forwarded-For": `203.0.113.${count + 1}`, "X-Real-Ip": `203.0.113.${count + 1}` };
      found.push((await logInAs(`nobody-${count}`, invented, one)).status);
    }
    assert.deepEqual(found, [...Array(10).fill(401), 429]);
    assert.equal((await logInAs("nobody", { "X-Forwarded-For": one }, other)).status, 401);
  });
}

/** In the browser: log-in, pictures. `frame` finds the frame that has the page. */
async function inBrowser(name, origin, frame = (page) => page) {
  await flow(`behind ${name}: log-in and pictures in the browser`, async () => {
    const page = await openPage(origin);
    const place = await frame(page);
    await logIn(place, "anna");
    await place.waitForFunction(() => Number(document.querySelector(".tile")?.dataset.pictures) >= 3, LIMIT);
    const cookies = await page.browserContext().cookies();
    assert.deepEqual(cookies.map(({ name: found }) => found), ["__Host-jetwatch"]);
    await page.browserContext().close();
  });
}

export async function proxyFlows() {
  const web = ["trusted_proxies: [127.0.0.1]", "hosts: [home.example]"];
  const users = [["anna", "administrator"]];
  const daemon = await start(binary, { users, web: [`base_path: ${PATH}`, ...web] });
  try {
    for (const [name, run, clients] of [["nginx", nginx, [2, 3]], ["Caddy", caddy, [4, 5]], ["Traefik", traefik, [6, 7]]]) {
      if (name === "Traefik" && !existsSync(process.env.TRAEFIK)) {
        console.log("left out: Traefik is for x86-64 here");
        continue;
      }
      const proxy = await run(daemon.port);
      try {
        await checks(name, { port: proxy.port, path: PATH }, clients);
        await inBrowser(name, `https://home.example:${proxy.port}${PATH}`);
      } finally {
        await proxy.stop();
      }
    }
  } finally {
    await daemon.stop();
  }
  const box = await start(binary, { users, web });
  const double = await ingress(box.port);
  try {
    await checks("a double of Home Assistant's ingress", { port: double.port, path: INGRESS }, [8, 9]);
    await inBrowser("a double of Home Assistant's ingress, in a frame", `https://home.example:${double.port}/panel`,
      (page) => page.waitForFrame((found) => found.url().includes(INGRESS), LIMIT));
  } finally {
    await double.stop();
    await box.stop();
  }
}
