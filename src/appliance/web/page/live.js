// Live view: a tile for each source. The pictures of all sources come in one stream: a browser opens few connections to a host.

import { age, el, text } from "./dom.js";
import { get, withQuery } from "./api.js";
import { on, rates, state } from "./store.js";
import { playStream } from "./video.js";

/** A picture that is older than this is not live. */
const OLD_MS = 4000;

/** Reads the stream of pictures and calls back with each; ends when the signal is aborted. */
export async function readPictures(sources, onPicture, signal) {
  let wait = 500;
  while (!signal.aborted) {
    try {
      const answer = await fetch(withQuery("api/pictures", { source: sources }), { signal, credentials: "same-origin" });
      if (!answer.ok) throw new Error(String(answer.status));
      wait = 500;
      await readStream(answer.body.getReader(), onPicture);
    } catch {
      // Tried again below.
    }
    if (signal.aborted) return;
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, 10000);
  }
}

async function readStream(reader, onPicture) {
  let chunks = [];
  let length = 0;
  const take = (count) => {
    const bytes = new Uint8Array(count);
    let at = 0;
    while (at < count) {
      const chunk = chunks[0];
      const part = chunk.subarray(0, count - at);
      bytes.set(part, at);
      at += part.length;
      if (part.length === chunk.length) chunks.shift();
      else chunks[0] = chunk.subarray(part.length);
    }
    length -= count;
    return bytes;
  };
  let head = null;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    chunks.push(value);
    length += value.length;
    for (;;) {
      if (!head) {
        if (length < 24) break;
        const view = new DataView(take(24).buffer);
        head = { name: view.getUint32(0), jpeg: view.getUint32(4), captured: Number(view.getBigUint64(8)), sent: Number(view.getBigUint64(16)) };
      }
      if (length < head.name + head.jpeg) break;
      const name = new TextDecoder().decode(take(head.name));
      const jpeg = take(head.jpeg);
      if (head.jpeg > 0) onPicture(name, jpeg, head);
      head = null;
    }
  }
}

export function show(main) {
  const grid = el("div", { class: "tiles", id: "tiles" });
  const summary = el("p", { class: "summary", role: "status" });
  const heading = el("h1", { class: "hidden" }, "Live view");
  main.replaceChildren(heading, summary, grid);
  const tiles = new Map();
  let reading = null;
  let names = "";

  const onPicture = async (name, jpeg, head) => {
    const tile = tiles.get(name);
    if (!tile) return;
    // The daemon's clock and this one may differ: what counts is the time since the picture left, and its age by then.
    tile.seenAt = performance.now() - Math.max(0, head.sent - head.captured);
    if (tile.busy) return;
    tile.busy = true;
    try {
      const bitmap = await createImageBitmap(new Blob([jpeg], { type: "image/jpeg" }));
      if (tile.canvas.width !== bitmap.width || tile.canvas.height !== bitmap.height) {
        tile.canvas.width = bitmap.width;
        tile.canvas.height = bitmap.height;
      }
      tile.canvas.getContext("2d").drawImage(bitmap, 0, 0);
      bitmap.close();
      tile.pictures += 1;
      tile.node.dataset.pictures = tile.pictures;
    } finally {
      tile.busy = false;
    }
    refresh(tile);
  };

  const build = () => {
    const wanted = [...state.sources.values()].filter((source) => source.state !== "ended" || source.reason !== "taken out by a change of the configuration").map((source) => source.name).sort();
    for (const [name, tile] of tiles) {
      if (!wanted.includes(name)) {
        tile.node.remove();
        tiles.delete(name);
      }
    }
    for (const name of wanted) {
      if (!tiles.has(name)) {
        const tile = makeTile(name);
        tiles.set(name, tile);
        grid.append(tile.node);
      }
      refresh(tiles.get(name));
    }
    grid.dataset.count = String(Math.min(wanted.length, 5));
    if (wanted.length === 0 && state.connected) text(summary, "No source is running yet.");
    if (wanted.join() !== names) {
      names = wanted.join();
      if (reading) reading.abort();
      reading = null;
      if (wanted.length > 0) {
        reading = new AbortController();
        readPictures(wanted, onPicture, reading.signal);
      }
    }
    refreshSummary();
  };

  const refreshSummary = () => {
    const sources = [...state.sources.values()].filter((source) => tiles.has(source.name));
    const online = sources.filter((source) => source.state === "online").length;
    const parts = [];
    if (state.detector && state.detector.state !== "ready") {
      const share = state.detector.progress === null ? "" : ` (${Math.round(state.detector.progress * 100)} %)`;
      parts.push(state.detector.state === "building" ? `The engine is being built${share}` : `Detector: ${state.detector.state}`);
    }
    if (sources.length > 0) parts.push(`${online} of ${sources.length} ${sources.length === 1 ? "source" : "sources"} online`);
    if (state.stats) parts.push(`${state.stats.fps.toFixed(1)} frames/s in all`);
    if (parts.length > 0) text(summary, parts.join(" · "));
  };

  const refreshAll = () => {
    for (const tile of tiles.values()) refresh(tile);
    refreshSummary();
  };
  build();
  let pending = false;
  const later = () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      build();
    });
  };
  const ends = ["source", "count", "stats", "connection", "switch", "detector"].map((kind) => on(kind, later));
  const timer = setInterval(refreshAll, 1000);
  // Streams begin some time after their sources.
  const readInfo = () => get("info").then((info) => { state.info = info; }, () => {});
  const infoTimer = setInterval(readInfo, 5000);
  readInfo();
  return () => {
    clearInterval(infoTimer);
    ends.forEach((end) => end());
    clearInterval(timer);
    if (reading) reading.abort();
    for (const tile of tiles.values()) tile.stopVideo();
  };
}

function makeTile(name) {
  const canvas = el("canvas", { width: 640, height: 360, role: "img", "aria-label": `Picture of ${name}` });
  const hint = el("p", { class: "hint" }, "Waiting for a picture");
  const updated = el("span", { class: "updated" });
  const badge = el("span", { class: "state" });
  const figures = el("dl", { class: "figures" });
  const counts = el("p", { class: "counts" });
  const reason = el("p", { class: "reason", hidden: true });
  const frame = el("div", { class: "frame" }, canvas, hint, updated);
  const tile = { name, canvas, hint, updated, badge, figures, counts, reason, frame, seenAt: null, busy: false, pictures: 0, stopVideo: () => {} };
  const full = el("button", { class: "plain", type: "button", onclick: () => (document.fullscreenElement ? document.exitFullscreen() : frame.requestFullscreen()) }, "Full screen");
  const actions = el("div", { class: "actions" }, full);
  const video = el("button", { class: "plain", type: "button", "aria-pressed": "false", hidden: true }, "Camera stream");
  video.addEventListener("click", () => {
    const playing = video.getAttribute("aria-pressed") === "true";
    video.setAttribute("aria-pressed", String(!playing));
    if (playing) tile.stopVideo();
    else tile.stopVideo = playStream(name, frame, () => video.setAttribute("aria-pressed", "false"));
  });
  tile.video = video;
  actions.prepend(video);
  tile.node = el("article", { class: "tile", "data-source": name, "aria-label": name },
    frame,
    el("div", { class: "about" }, el("div", { class: "line" }, el("h2", {}, name), badge, actions), reason, figures, counts));
  return tile;
}

function refresh(tile) {
  const source = state.sources.get(tile.name);
  if (!source) return;
  tile.video.hidden = !state.info || !(state.info.streams || []).includes(tile.name);
  const old = tile.seenAt === null ? null : performance.now() - tile.seenAt;
  const frozen = old === null || old > OLD_MS;
  tile.frame.classList.toggle("frozen", frozen && old !== null);
  tile.hint.hidden = old !== null;
  text(tile.hint, source.state === "online" ? "Waiting for a picture" : "No picture");
  text(tile.updated, old === null ? "" : `updated ${age(old)}`);
  tile.updated.hidden = old === null;
  const label = source.detecting ? source.state : `${source.state}, detection off`;
  text(tile.badge, label);
  tile.badge.dataset.state = source.state;
  tile.reason.hidden = !source.reason || source.state === "online";
  text(tile.reason, source.reason || "");
  const stats = state.stats && state.stats.sources.find((found) => found.source === tile.name);
  const rate = rates(tile.name);
  const figure = (value) => (rate ? value(rate).toFixed(1) : "–");
  const rows = [
    ["in", figure(({ received }) => received), "frames/s"],
    ["detected", figure(({ detected }) => detected), "frames/s"],
    ["dropped", stats ? `${figure(({ dropped }) => dropped)}` : "–", stats ? `frames/s, ${stats.dropped_frames.toLocaleString()} in all` : ""],
  ];
  if (stats && stats.skipped_frames > 0) rows.push(["skipped", figure(({ skipped }) => skipped), "frames/s"]);
  if (stats && stats.reconnects > 0) rows.push(["reconnects", stats.reconnects.toLocaleString(), ""]);
  const shown = rows.map((row) => row.join(":")).join();
  if (tile.figures.dataset.shown !== shown) {
    tile.figures.dataset.shown = shown;
    tile.figures.replaceChildren(...rows.map(([name, value, unit]) => el("div", {}, el("dt", {}, name), el("dd", {}, value, unit && el("span", { class: "unit" }, ` ${unit}`)))));
  }
  const present = [...source.counts].filter(([, count]) => count > 0).map(([label, count]) => `${count} ${label}`);
  text(tile.counts, present.length > 0 ? `Now: ${present.join(", ")}` : "Now: nothing");
}
