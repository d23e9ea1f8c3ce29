// Live view: a tile for each source. What was found is drawn over the pictures by this page, at the resolution of the display.

import { age, el, renew, text } from "./dom.js";
import { get } from "./api.js";
import { drawLayer, makeLayer } from "./layer.js";
import { paint, readPictures } from "./pictures.js";
import { OVERLOAD, droppedShare, keep, on, rates, recall, sourceNames, state } from "./store.js";
import { asNumber, asPercent, byName, t, wordOf } from "./text.js";
import { playStream } from "./video.js";

/** A picture that is older than this is not live. */
const OLD_MS = 4000;

/** Points of the trajectory of an object that are drawn. */
const MAX_POINTS = 48;

/** What can be drawn, and whether it is. */
const SHOWN = { boxes: "live.boxes", tracks: "live.tracks", zones: "zones.lines" };

function readShown() {
  try {
    return { boxes: true, tracks: true, zones: true, wall: false, ...JSON.parse(recall("jetwatch.live")) };
  } catch {
    return { boxes: true, tracks: true, zones: true, wall: false };
  }
}

export function show(main) {
  const grid = el("div", { class: "tiles", id: "tiles" });
  const summary = el("p", { class: "summary", role: "status" });
  const overload = el("p", { class: "banner", role: "status", hidden: true });
  const heading = el("h1", { class: "hidden" }, t("live.title"));
  const shown = readShown();
  const toggle = (key, label, onChange) => {
    const button = el("button", { type: "button", "aria-pressed": String(shown[key]), "data-toggle": key }, label);
    button.addEventListener("click", () => {
      shown[key] = !shown[key];
      button.setAttribute("aria-pressed", String(shown[key]));
      keep("jetwatch.live", JSON.stringify(shown));
      onChange();
    });
    return button;
  };
  const redraw = () => tiles.forEach((tile) => redrawTile(tile, shown));
  const setWall = () => {
    grid.classList.toggle("wall", shown.wall);
    redraw();
  };
  const full = el("button", { type: "button", onclick: () => (document.fullscreenElement ? document.exitFullscreen() : grid.requestFullscreen()) }, t("live.all"));
  const tools = el("div", { class: "tools", role: "group", "aria-label": t("live.shown") },
    ...Object.entries(SHOWN).map(([key, label]) => toggle(key, t(label), redraw)), toggle("wall", t("live.wall"), setWall), full);
  main.replaceChildren(heading, el("div", { class: "head" }, summary, tools), overload, grid);
  const tiles = new Map();
  setWall();
  let reading = null;
  let names = "";

  const onPicture = async (name, jpeg, head, tracks) => {
    const tile = tiles.get(name);
    if (!tile) return;
    // The daemon's clock and this one may differ: what counts is the time since the picture left, and its age by then.
    tile.seenAt = performance.now() - Math.max(0, head.sent - head.captured);
    if (tile.busy) return;
    tile.busy = true;
    try {
      await paint(tile.canvas, jpeg);
      tile.frame.style.setProperty("--aspect", String(tile.canvas.width / tile.canvas.height));
      takeTracks(tile, tracks);
      tile.pictures += 1;
      tile.node.dataset.pictures = tile.pictures;
    } finally {
      tile.busy = false;
    }
    redrawTile(tile, shown);
    refresh(tile);
  };

  const build = () => {
    // After a lost connection the sources come one after the other: no tile is made again.
    if (tiles.size > 0 && !state.connected) return;
    const wanted = sourceNames().sort(byName);
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
        readRules(tile, shown);
      }
      refresh(tiles.get(name));
    }
    grid.dataset.count = String(Math.min(wanted.length, 5));
    // As near to a square as the number allows.
    const columns = Math.ceil(Math.sqrt(Math.max(1, wanted.length)));
    grid.style.setProperty("--columns", String(columns));
    grid.style.setProperty("--rows", String(Math.ceil(wanted.length / columns)));
    if (wanted.length === 0 && state.connected) text(summary, t("sources.none"));
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
      const building = () => (state.detector.progress === null ? t("live.building") : t("live.progress", { share: asPercent(state.detector.progress) }));
      parts.push(state.detector.state === "building" ? building() : t("live.detector", { state: wordOf("detector", state.detector.state) }));
    }
    if (sources.length > 0) parts.push(t("live.online", { online, count: sources.length }));
    if (state.stats) parts.push(t("live.fps", { fps: asNumber(state.stats.fps, 1) }));
    if (parts.length > 0) text(summary, parts.join(" · "));
    const problem = overloadText(sources.map(({ name }) => name));
    overload.hidden = problem === "";
    text(overload, problem);
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
  ends.push(on("reload", () => tiles.forEach((tile) => readRules(tile, shown))));
  const timer = setInterval(refreshAll, 1000);
  // Streams begin some time after their sources.
  const readInfo = () => get("info").then((info) => { state.info = info; }, () => {});
  const infoTimer = setInterval(readInfo, 5000);
  readInfo();
  const resized = new ResizeObserver(redraw);
  resized.observe(grid);
  return () => {
    clearInterval(infoTimer);
    ends.forEach((end) => end());
    clearInterval(timer);
    resized.disconnect();
    if (reading) reading.abort();
    for (const tile of tiles.values()) tile.stopVideo();
  };
}

/** Which sources lose frames, how busy the processor is, and what to do; empty: none. */
function overloadText(names) {
  const worst = names.map((name) => [name, droppedShare(name)]).filter(([, share]) => share > OVERLOAD);
  if (worst.length === 0) return "";
  const told = worst.map(([name, share]) => `${name} ${asPercent(share)}`).join(", ");
  const cpus = ((state.stats && state.stats.machine && state.stats.machine.cpus) || []).filter((cpu) => cpu.load_percent !== null);
  const busy = cpus.filter((cpu) => cpu.load_percent >= 85).length;
  return [t("overload.dropped", { sources: told }), cpus.length > 0 ? t("overload.cores", { busy, count: cpus.length }) : "", t("overload.advice")].join(" ");
}

/** Reads the zones and lines of a source, which are drawn over its pictures. */
async function readRules(tile, shown) {
  try {
    tile.rules = await get(`sources/${tile.name}/rules`);
    redrawTile(tile, shown);
  } catch {
    // Read again with the next reload.
  }
}

/** Takes the tracks of a picture, and goes on with the trajectory of each. */
function takeTracks(tile, tracks) {
  const trajectories = new Map();
  for (const track of tracks) {
    const [left, , right, bottom] = track.box;
    const points = tile.trajectories.get(track.id) || [];
    if (!track.is_lost) points.push([(left + right) / 2, bottom]);
    trajectories.set(track.id, points.slice(-MAX_POINTS));
  }
  tile.trajectories = trajectories;
  tile.tracks = tracks;
}

function redrawTile(tile, shown) {
  // Of a picture that stands still they stay, gray as it is.
  const objects = tile.tracks;
  drawLayer(tile.layer, {
    objects: shown.boxes ? objects.map((track) => ({ ...track, isLost: track.is_lost })) : [],
    trajectories: shown.tracks ? objects.map((track) => ({ label: track.label, points: tile.trajectories.get(track.id), isLost: track.is_lost })) : [],
    zones: shown.zones ? tile.rules.zones : [],
    lines: shown.zones ? tile.rules.lines : [],
    title: tile.title,
  });
}

function makeTile(name) {
  const canvas = el("canvas", { width: 640, height: 360, role: "img", "aria-label": t("picture.of", { source: name }) });
  const layer = makeLayer();
  const hint = el("p", { class: "hint" }, t("picture.waiting"));
  const updated = el("span", { class: "updated" });
  const badge = el("span", { class: "state" });
  const figures = el("dl", { class: "figures" });
  const counts = el("p", { class: "counts" });
  const reason = el("p", { class: "reason", lang: "en", hidden: true });
  const dropped = el("p", { class: "warning", hidden: true });
  const title = el("span", { class: "title", "aria-hidden": "true" }, name);
  const frame = el("div", { class: "frame" }, el("div", { class: "stage" }, canvas, layer), hint, updated, title);
  const tile = { name, canvas, layer, title, hint, updated, badge, figures, counts, reason, dropped, frame, seenAt: null, busy: false, pictures: 0, tracks: [], trajectories: new Map(), rules: { zones: [], lines: [] }, stopVideo: () => {} };
  const toFull = () => (document.fullscreenElement === frame ? document.exitFullscreen() : frame.requestFullscreen());
  // One tap; the button is for the keyboard, and says so.
  frame.addEventListener("click", toFull);
  const full = el("button", { class: "plain", type: "button", onclick: toFull }, t("live.full"));
  const actions = el("div", { class: "actions" }, full);
  const video = el("button", { class: "plain", type: "button", "aria-pressed": "false", hidden: true }, t("live.stream"));
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
    el("div", { class: "about" }, el("div", { class: "line" }, el("h2", {}, name), badge), reason, dropped, figures, counts, actions));
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
  text(tile.hint, source.state === "online" ? t("picture.waiting") : `${t("picture.none")} · ${wordOf("state", source.state)}`);
  // Of a live picture the age says nothing.
  text(tile.updated, frozen && old !== null ? t("live.updated", { age: age(old) }) : "");
  tile.updated.hidden = !(frozen && old !== null);
  const label = source.detecting ? wordOf("state", source.state) : t("live.off", { state: wordOf("state", source.state) });
  text(tile.badge, label);
  tile.badge.dataset.state = source.state;
  tile.reason.hidden = !source.reason || source.state === "online";
  text(tile.reason, source.reason || "");
  const stats = state.stats && state.stats.sources.find((found) => found.source === tile.name);
  const rate = rates(tile.name);
  const share = droppedShare(tile.name);
  tile.dropped.hidden = share <= OVERLOAD;
  text(tile.dropped, share > OVERLOAD ? t("overload.source", { share: asPercent(share) }) : "");
  const rows = [];
  if (rate) {
    rows.push([t("rate.received"), asNumber(rate.received, 1), t("fps")], [t("rate.detected"), asNumber(rate.detected, 1), t("fps")], [t("rate.dropped"), asNumber(rate.dropped, 1), `${t("fps")}, ${t("rate.total", { count: stats.dropped_frames })}`]);
    if (stats.skipped_frames > 0) rows.push([t("rate.skipped"), asNumber(rate.skipped, 1), t("fps")]);
  } else if (stats) {
    rows.push([t("rate.mean"), asNumber(stats.fps, 1), t("fps")]);
  }
  if (stats && stats.reconnects > 0) rows.push([t("rate.reconnects"), asNumber(stats.reconnects), ""]);
  renew(tile.figures, ...rows.map(([name, value, unit]) => el("div", {}, el("dt", {}, name), el("dd", {}, value, unit && el("span", { class: "unit" }, ` ${unit}`)))));
  const present = [...source.counts].filter(([, count]) => count > 0).map(([label, count]) => `${asNumber(count)} × ${label}`);
  text(tile.counts, present.length > 0 ? t("live.now", { objects: present.join(", ") }) : t("live.nothing"));
}
