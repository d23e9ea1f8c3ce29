// SPDX-License-Identifier: Apache-2.0
// A daemon with synthetic sources, for the flows of the page.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const PASSWORD = "a long password";

/** A port that is free now. */
export function freePort() {
  return new Promise((done, failed) => {
    const server = createServer();
    server.on("error", failed);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

const CONFIG = (port, web) => `# Made by the test of the page.
device: test-box
sources:
  - name: gate  # the first
    uri: synthetic://traffic?seed=1&objects=6&width=960&height=540&fps=10
    # Where cars stand.
    zones:
      - name: parking
        coordinates: 0.05,0.55,0.45,0.55,0.45,0.95  # measured
        inertia_frames: 2
    lines:
      - name: crossing
        coordinates: 0.6,0.1,0.6,0.95
  - name: yard
    uri: synthetic://traffic?seed=7&objects=4&width=640&height=360&fps=10
detector: {backend: scripted}
schedules: {day: {from: "00:00"}}
publish:
  mqtt: off
  stats_interval_s: 1
web:
  listen: 127.0.0.1:${port}
${web.map((line) => `  ${line}\n`).join("")}`;

/** The sections of a daemon that keeps pictures and clips. */
export const KEEPING = (port, web, folder) => `record:
  folder: ${join(folder, "media")}
  retention: {min_free_bytes: 1MiB, min_free_percent: 0}
  snapshots: {enabled: true}
  clips: {enabled: true, pre_roll_s: 1, post_roll_s: 1, max_s: 8}
web:
  listen: 127.0.0.1:${port}
${web.map((line) => `  ${line}\n`).join("")}`;

/** A video of the street, as a camera would send it, with pictures and clips that are kept. */
export const VIDEO_CONFIG = (binary, model) => (port, web, folder) => {
  const scene = join(folder, "scene.yaml");
  const video = join(folder, "street.mp4");
  writeFileSync(scene, "sources: [{name: scene, uri: 'synthetic://traffic?seed=3&objects=6&width=640&height=360&fps=15'}]\ndetector: {backend: scripted}\npublish: {mqtt: off}\n");
  execFileSync(binary, ["run", "--config", scene, "--record", video, "--duration", "12s"], { stdio: "ignore" });
  return `device: test-box
sources:
  - name: camera
    uri: ${video}
    playback_fps: 15
    loop: true
detector: {model: ${model}}
publish:
  mqtt: off
  stats_interval_s: 1
${KEEPING(port, web, folder)}`;
};

/** The same, with what is kept in a folder that outlives the daemon, and continuous recording. */
export function KEPT_CONFIG(binary, model) {
  const media = mkdtempSync(join(tmpdir(), "jetwatch-web-media-"));
  const config = (port, web, folder) => VIDEO_CONFIG(binary, model)(port, web, folder)
    .replace(/^ {2}folder: .*$/m, `  folder: ${media}`)
    .replace(/^ {2}clips: .*$/m, (clips) => `${clips}\n  continuous: {enabled: true}`);
  return { config, remove: () => rmSync(media, { recursive: true }) };
}

/** Two sources with many objects, zones and lines: an event follows the other. */
export const busyConfig = (port, web) => `device: test-box
sources:
${[["gate", 11], ["yard", 12]].map(([name, seed]) => `  - name: ${name}
    uri: synthetic://traffic?seed=${seed}&objects=24&width=960&height=540&fps=15
    zones:
      - {name: left, coordinates: '0,0,0.5,0,0.5,1,0,1'}
      - {name: right, coordinates: '0.5,0,1,0,1,1,0.5,1'}
    lines:
${[0.2, 0.35, 0.5, 0.65, 0.8].map((x, index) => `      - {name: line-${index}, coordinates: '${x},0.02,${x},0.98'}\n`).join("")}`).join("")}detector: {backend: scripted}
publish:
  mqtt: off
  stats_interval_s: 1
web:
  listen: 127.0.0.1:${port}
${web.map((line) => `  ${line}\n`).join("")}`;

/** Starts a daemon; `web` are further lines of its section. */
export async function start(binary, { web = [], users = [], config: text = CONFIG } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "jetwatch-web-"));
  const port = await freePort();
  const config = join(folder, "jetwatch.yaml");
  const usersFile = join(folder, "users");
  for (const [name, role] of users) {
    execFileSync(binary, ["user", "add", name, "--role", role, "--users-file", usersFile], { input: `${PASSWORD}\n` });
  }
  if (users.length > 0) web.push("users_file: users");
  writeFileSync(config, text(port, web, folder));
  const log = [];
  const child = spawn(binary, ["run", "--config", config], { stdio: ["ignore", "ignore", "pipe"] });
  child.stderr.on("data", (text) => log.push(String(text)));
  const ended = new Promise((done) => child.on("exit", done));
  const origin = `http://127.0.0.1:${port}`;
  const until = Date.now() + 60000;
  for (;;) {
    try {
      await fetch(origin);
      break;
    } catch {
      if (Date.now() > until || child.exitCode !== null) throw new Error(`the daemon does not answer:\n${log.join("")}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  }
  return {
    origin,
    port,
    log,
    config,
    text: () => readFileSync(config, "utf8"),
    /** Another text of the configuration, which is read again. */
    reconfigure: (changed) => {
      writeFileSync(config, changed);
      child.kill("SIGHUP");
    },
    previous: () => readFileSync(`${config}.previous`, "utf8"),
    /** The process stands still, with its connections open, until `resume`. */
    pause: () => child.kill("SIGSTOP"),
    resume: () => child.kill("SIGCONT"),
    /** As a power cut ends it; `stop` follows. */
    kill: () => child.kill("SIGKILL"),
    stop: async () => {
      child.kill("SIGTERM");
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}
