// Events: an object is one card, whatever happened to it. What is in view, and what was seen, the newest first, page by page, with the day
// of each source above. Kept pictures and clips come from the daemon's archive, which also has those of earlier runs.

import { bytes, dateAndTime, el, notify, setTime, span, text, timeField, timeOf } from "./dom.js";
import { get, now, post, withQuery } from "./api.js";
import { setArgument, where } from "./address.js";
import { drawLive, makeCard, rove } from "./cards.js";
import { makeFilter } from "./filter.js";
import { paint, readPictures } from "./pictures.js";
import { makePlayer } from "./player.js";
import { keep, may, on, recall, state } from "./store.js";
import { partsOf, t } from "./text.js";
import { makeStills } from "./stills.js";
import { dayName, dayOf, makeTimeline } from "./timeline.js";

/** Objects, and pieces of continuous recording, of a page. */
const PAGE = 50;

/** Most cards; the oldest leave. */
const MAX_CARDS = 2000;

/** Time after which a store that is not open yet is asked again. */
const RETRY_MS = 2000;

/** Time in which pictures and clips that become ready are asked for together. */
const MEDIA_MS = 700;

/** Time between two looks at the day, and between two live pictures of what is in view. */
const DAY_MS = 30000;
const LIVE_MS = 2000;

/** Time after which one that has come into view has its picture. */
const SOON_MS = 300;

/** Most live pictures of objects that are kept after their end. */
const MAX_LIVE = 200;

/** The span of time that is offered to be saved. */
const SAVED_MS = 600000;
const MAX_SAVED_MS = 3600000;

/** When the events were looked at last, in this browser. */
const LOOKED = "jetwatch.looked";

/** Grid or list. */
const LOOK = "jetwatch.events";

/** One card in place of another, which keeps the focus. */
function replace(known, node) {
  const hadFocus = known.contains(document.activeElement);
  known.replaceWith(node);
  if (hadFocus) node.querySelector("button").focus();
}

export function show(main) {
  const looked = Number(recall(LOOKED)) || now();
  const nowList = el("ol", { class: "cards", "aria-label": t("events.view") });
  const nowEmpty = el("p", { class: "quiet" }, t("events.empty"));
  const makeList = () => el("div", { class: `list ${look}` });
  let look = recall(LOOK) === "rows" ? "rows" : "grid";
  let list = makeList();
  let visible = list;
  const more = el("button", { type: "button", class: "more" }, t("events.more"));
  const empty = el("p", { class: "empty", hidden: true }, t("events.none"));
  const usage = el("p", { class: "summary" });
  const filter = makeFilter(() => begin());
  const asGrid = el("button", { type: "button", onclick: () => setLook("grid") }, t("events.grid"));
  const asRows = el("button", { type: "button", onclick: () => setLook("rows") }, t("events.rows"));
  const seen = el("button", { type: "button", hidden: !may("operator"), onclick: () => markSeen() }, t("events.seen"));
  const fresh = el("p", { class: "summary fresh", role: "status" });
  // The day.
  const saver = makeExport();
  const timeline = makeTimeline({ onPick: (source, ms) => player.openMoment(source, ms), onShow: saver.learn, sources: () => state.sources.keys() });
  /** Cards by the identity of their objects: `{object, node}`. */
  const shown = new Map();
  /** Objects in view, and live pictures of objects. */
  const open = new Map();
  const live = new Map();
  const stills = makeStills(({ id }) => shown.has(id) && put(shown.get(id).object));
  const player = makePlayer({
    neighbor: (object, step) => {
      const nodes = [...list.querySelectorAll(".event[data-kind=object]")];
      const at = nodes.findIndex((node) => node.dataset.id === object.id);
      const neighbor = at < 0 ? null : nodes[at - step];
      // The page of the next one may not be there yet.
      if (at === nodes.length - 1 && next) load();
      return neighbor ? shown.get(neighbor.dataset.id).object : null;
    },
    onShow: (object) => {
      // What was open at the end of the session is open again after the next log-in.
      if (hasLeft || where().page !== "events") return;
      setArgument("events", object ? object.id : null);
      if (object && may("operator") && !object.reviewed) review([object], true).catch(() => {});
    },
    onPinned: (object) => put(object),
  });
  main.replaceChildren(
    el("div", { class: "head" }, el("h1", {}, t("tab.events")), el("div", { class: "tools" }, asGrid, asRows, seen)),
    filter.node,
    el("section", { class: "panel day" }, timeline.node, state.info && state.info.has_media ? saver.node : null),
    el("section", { class: "panel now" }, el("h2", {}, t("events.now")), nowList, nowEmpty),
    el("section", { class: "panel past" }, el("h2", { class: "hidden" }, t("events.history")), usage, fresh, list, empty, more),
    player.node,
  );
  const hasMedia = () => Boolean(state.info && state.info.has_media);
  /** Where the next page begins; undefined: at the first one, null: there is none. */
  let next;
  let generation = 0;
  /** The filter of the address that is shown. */
  let query = "";
  let isBusy = false;
  let hasLeft = false;
  let retry = null;
  // At the end of the list, the next page comes by itself.
  const watcher = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && load(), { rootMargin: "300px" });

  /** Shows the list that was begun last; until its first page is there, the one before stays in view. */
  const reveal = () => {
    if (visible !== list) visible.replaceWith(list);
    visible = list;
  };

  const setLook = (wanted) => {
    look = wanted;
    keep(LOOK, wanted);
    for (const node of [list, visible]) node.className = `list ${look}`;
    asGrid.setAttribute("aria-pressed", String(look === "grid"));
    asRows.setAttribute("aria-pressed", String(look === "rows"));
  };

  const card = (object) => makeCard(object, {
    live: live.get(object.id) || stills.get(object.id),
    isNew: !object.reviewed && object.started_ms > looked,
    onOpen: (wanted) => player.open(wanted),
  });

  /** The list of the day of a time, where days are in their order. */
  const dayList = (ms) => {
    const key = String(dayOf(ms));
    const known = [...list.children].find((section) => section.dataset.day === key);
    if (known) return known.querySelector("ol");
    const cards = el("ol", { class: "cards" });
    const section = el("section", { "data-day": key }, el("h2", {}, dayName(ms)), cards);
    const later = [...list.children].find((other) => Number(other.dataset.day) < Number(key));
    list.insertBefore(section, later || null);
    return cards;
  };

  const add = (entry, ms) => {
    const cards = dayList(ms);
    const later = [...cards.children].reverse().find((node) => Number(node.dataset.at) >= ms);
    // Most come in their order: at the end, or at the begin.
    if (later) later.after(entry.node);
    else cards.prepend(entry.node);
  };

  /** Shows an object that has ended: in its place, or in place of the card before. */
  const put = (object) => {
    const known = shown.get(object.id);
    const entry = { object, node: card(object) };
    shown.set(object.id, entry);
    if (known) replace(known.node, entry.node);
    else add(entry, object.started_ms);
    if (!live.has(object.id)) stills.want(object, entry.node);
    player.refresh(object);
    empty.hidden = true;
  };

  const refreshFresh = () => {
    const count = [...shown.values()].filter(({ object }) => object && !object.reviewed && object.started_ms > looked).length;
    text(fresh, count > 0 ? t(next ? "events.freshMore" : "events.fresh", { count, time: dateAndTime(looked) }) : "");
    seen.disabled = ![...shown.values()].some(({ object }) => object && !object.reviewed);
  };

  /** Cards of what is in view, by identity: only what has changed is made again, so that a press or the focus is not lost. */
  const nowCards = new Map();
  const refreshNow = () => {
    const wanted = [...open.values()].filter((object) => !filter.isContinuous() && filter.admits(object)).sort((a, b) => Number(a.is_lost || false) - Number(b.is_lost || false) || b.started_ms - a.started_ms);
    const ids = new Set(wanted.map((object) => object.id));
    for (const [id, known] of nowCards) {
      if (ids.has(id)) continue;
      known.node.remove();
      nowCards.delete(id);
    }
    wanted.forEach((object, index) => {
      const about = JSON.stringify([object.label, object.zones, object.happened.length, object.is_lost, live.has(object.id), Math.round((object.score || 0) * 20)]);
      let known = nowCards.get(object.id);
      if (!known || known.about !== about) {
        const node = card({ ...object, duration_ms: null, is_open: true });
        if (known) replace(known.node, node);
        known = { node, about };
        nowCards.set(object.id, known);
      }
      if (nowList.children[index] !== known.node) nowList.insertBefore(known.node, nowList.children[index] || null);
      text(known.node.querySelector(".badge"), object.is_lost ? t("events.lost", { span: span(Math.max(0, now() - object.started_ms)) }) : span(Math.max(0, now() - object.started_ms)));
    });
    nowEmpty.hidden = wanted.length > 0;
  };

  /** A page of objects. */
  const readObjects = async () => {
    const found = await get(withQuery("objects", { ...filter.values(), new: filter.isNew() ? 1 : null, before: next, limit: PAGE }));
    if (!found.is_ready) return { isWaiting: true };
    if (next === undefined) {
      for (const object of found.open) open.set(object.id, { ...(open.get(object.id) || {}), ...object });
      refreshNow();
      readLive();
    }
    return {
      // Of a track that is in view there may be a file already.
      rows: found.objects.filter((object) => !shown.has(object.id) && !open.has(object.id)).map((object) => () => put(object)),
      next: found.next,
    };
  };

  /** A page of pieces of continuous recording. */
  const readPieces = async () => {
    const found = await get(withQuery("media", { ...filter.values(), label: null, zone: null, kind: "continuous", before: next, limit: PAGE }));
    if (found.usage === null) return { isWaiting: true };
    const rows = found.items.filter((item) => !shown.has(item.clip)).map((item) => () => {
      const about = t("events.recordingOf", { source: item.source, time: dateAndTime(item.started_ms) });
      const node = el("li", { class: "event", "data-source": item.source, "data-kind": "piece", "data-at": item.started_ms },
        el("button", { class: "thumb", type: "button", tabindex: -1, "aria-label": t("events.play", { what: about }), onclick: () => player.openMoment(item.source, item.started_ms) }, el("span", { class: "crop" }, el("span", { class: "none", "data-letter": "▶" }))),
        el("div", { class: "what" }, el("p", { class: "name" }, ...partsOf("events.recordingName", { recording: el("strong", {}, t("events.recording")), source: item.source })),
          el("p", { class: "quiet" }, [dateAndTime(item.started_ms), item.ended_ms ? span(item.ended_ms - item.started_ms) : null, bytes(item.bytes)].filter(Boolean).join(" · "))));
      const entry = { object: null, node };
      shown.set(item.clip, entry);
      add(entry, item.started_ms);
    });
    return { rows, next: found.next };
  };

  const load = async () => {
    if (isBusy || next === null) return;
    isBusy = true;
    const own = generation;
    let isRead = false;
    try {
      for (let added = 0; added === 0 && next !== null;) {
        const page = await (filter.isContinuous() ? readPieces() : readObjects());
        // The filter has changed meanwhile.
        if (own !== generation) return;
        // The daemon has not opened its archive yet, as just after a start.
        if (page.isWaiting) {
          clearTimeout(retry);
          retry = setTimeout(load, RETRY_MS);
          more.hidden = true;
          return;
        }
        next = page.next;
        page.rows.forEach((row) => row());
        added = page.rows.length;
      }
      more.hidden = next === null;
      empty.hidden = shown.size > 0;
      refreshFresh();
      // Observing again reports whether the end of the list is still in view.
      watcher.unobserve(more);
      watcher.observe(more);
      isRead = true;
    } catch (error) {
      if (own === generation) notify(error.message, "bad");
    } finally {
      if (own === generation) {
        isBusy = false;
        reveal();
      }
    }
    // It may ask for one more page; not after a failure.
    if (isRead) player.refresh();
  };

  const readUsage = async () => {
    if (!hasMedia()) return;
    try {
      const found = await get("media?limit=1");
      text(usage, found.usage ? usageText(found.usage) : found.is_ready ? t("problem.closed") : "");
    } catch {
      // Shown by the state of the connection.
    }
  };

  const begin = async () => {
    generation += 1;
    query = String(where().query);
    clearTimeout(retry);
    isBusy = false;
    next = undefined;
    const held = document.activeElement.closest(".event[data-id]");
    shown.clear();
    list = makeList();
    more.hidden = false;
    refreshNow();
    await load();
    const again = held && !held.isConnected && main.querySelector(`.event[data-id="${CSS.escape(held.dataset.id)}"] button`);
    if (again && document.activeElement === document.body) again.focus();
    readUsage();
  };

  const review = async (objects, reviewed) => {
    const ids = objects.map((object) => object.id);
    const answer = await post("objects/reviewed", { ids, reviewed });
    if (answer.error) throw new Error(answer.error);
    for (const object of objects) {
      object.reviewed = reviewed;
      if (shown.has(object.id)) put(object);
    }
    refreshFresh();
  };

  const markSeen = async () => {
    const objects = [...shown.values()].map(({ object }) => object).filter((object) => object && !object.reviewed);
    try {
      for (let at = 0; at < objects.length; at += 500) await review(objects.slice(at, at + 500), true);
    } catch (error) {
      notify(error.message, "bad");
    }
  };

  const takeEvent = (message) => {
    const known = open.get(message.id);
    const at = Date.parse(message.frame_at);
    const object = known || { id: message.id, source: message.source, label: message.label, started_ms: Date.parse(message.started_at), ended_ms: null, zones: [], happened: [], path: [], snapshot: null, clips: [], pinned: false, reviewed: false };
    object.label = message.label;
    object.score = message.after.top_score;
    object.duration_ms = message.duration_ms;
    object.is_lost = message.after.state === "lost";
    if (message.after.box_normalized) object.path.push([at, ...message.after.box_normalized]);
    filter.learn([object.source], [object.label], object.zones);
    if (message.type !== "end") {
      open.set(object.id, object);
      if (!known) soon ??= setTimeout(readLive, SOON_MS);
      return;
    }
    open.delete(object.id);
    object.ended_ms = Date.parse(message.ended_at);
    const hadFocus = nowCards.has(object.id) && nowCards.get(object.id).node.contains(document.activeElement);
    refreshNow();
    if (!filter.isContinuous() && filter.admits(object) && isLoaded(object.started_ms)) {
      put(object);
      refreshFresh();
      // What was not drawn here may have its picture there.
      if (!live.has(object.id)) readAgain([object.id]);
    }
    // The focus follows the object, or stays in the list.
    const heir = shown.has(object.id) ? shown.get(object.id).node : nowList.firstElementChild;
    if (hadFocus && heir) heir.querySelector("button").focus();
    if (shown.size > MAX_CARDS) begin();
  };

  /** Whether the page that a time belongs to was read; one that was not comes with that page. */
  const isLoaded = (ms) => next === null || [...shown.values()].some((entry) => Number(entry.node.dataset.at) <= ms) || shown.size === 0;

  const takeAnalytics = (message) => {
    const object = open.get(message.id);
    if (!object) return;
    if (message.name && !object.zones.includes(message.name)) object.zones.push(message.name);
    object.happened.push({ type: message.type, name: message.name, to: message.to, duration_ms: message.duration_ms, at: message.at });
    filter.learn([], [], object.zones);
  };

  /** A file was deleted: its cards do not offer it any more. */
  const dropMedia = ({ id, tracks }) => {
    for (const { object } of tracks.map((track) => shown.get(track)).filter((entry) => entry && entry.object)) {
      const { snapshot, clips } = object;
      put({ ...object, snapshot: snapshot && snapshot.id === id ? null : snapshot, clips: clips.filter((clip) => clip.id !== id) });
    }
  };

  /** Objects have pictures or clips that their cards do not show yet. */
  let pending = null;
  const waiting = new Set();
  const readAgain = (ids) => {
    ids.forEach((id) => waiting.add(id));
    if (pending) return;
    pending = setTimeout(async () => {
      pending = null;
      const cards = [...waiting].map((id) => shown.get(id)).filter((entry) => entry && entry.object);
      waiting.clear();
      if (cards.length === 0) return;
      const times = cards.map(({ object }) => object.started_ms);
      try {
        const time = (ms) => new Date(ms).toISOString();
        const found = await get(withQuery("objects", { from: time(Math.min(...times) - 1), to: time(Math.max(...times) + 2), limit: 200 }));
        for (const object of found.objects) {
          if (shown.has(object.id)) put(object);
        }
        readUsage();
      } catch {
        // The next one tries again.
      }
    }, MEDIA_MS);
  };

  const takeMedia = (message) => {
    if (message.state === "removed") dropMedia(message);
    if (message.state === "ready") readAgain(message.tracks);
  };

  /** Pictures of what is in view: one of each source, again and again. */
  let reading = null;
  let soon = null;
  const readLive = async () => {
    clearTimeout(soon);
    soon = null;
    const sources = [...new Set([...open.values()].filter((object) => filter.admits(object)).map((object) => object.source))];
    if (reading || sources.length === 0 || document.hidden) return;
    reading = new AbortController();
    const [first, left] = [new Set(sources), new Set(sources)];
    const stop = reading;
    const timer = setTimeout(() => stop.abort(), 5 * LIVE_MS);
    const canvas = document.createElement("canvas");
    let busy = Promise.resolve();
    await readPictures(sources, (name, jpeg, head, tracks) => {
      if (!left.has(name)) return;
      // The first one may be kept from the time of the last look: what came since is in the next one.
      if (!first.delete(name) || head.sent - head.captured < SOON_MS) left.delete(name);
      busy = busy.then(async () => {
        await paint(canvas, jpeg);
        for (const object of open.values()) {
          const track = object.source === name && tracks.find((one) => !one.is_lost && object.id.endsWith(`-${name}-${one.id}`));
          if (!track) continue;
          if (!live.has(object.id)) live.set(object.id, document.createElement("canvas"));
          drawLive(live.get(object.id), canvas, object, track.box);
        }
        while (live.size > MAX_LIVE) live.delete(live.keys().next().value);
      }).catch(() => {});
      if (left.size === 0) stop.abort();
    }, stop.signal);
    await busy;
    clearTimeout(timer);
    reading = null;
    refreshNow();
  };

  /** The object that the address names is opened. */
  const openNamed = async () => {
    const { argument } = where();
    if (!argument) return;
    try {
      const { objects } = await get(withQuery("objects", { id: argument, limit: 1 }));
      if (objects.length > 0) player.open(objects[0]);
      else notify(t("events.gone"), "bad");
    } catch (error) {
      notify(error.message, "bad");
    }
  };

  more.addEventListener("click", load);
  const ends = [on("event", takeEvent), on("analytics", takeAnalytics), on("media", takeMedia), on("connection", (isConnected) => {
    if (!isConnected) return;
    open.clear();
    begin();
    timeline.load();
  })];
  for (const area of main.querySelectorAll(".panel.now, .panel.past")) ends.push(rove(area));
  setLook(look);
  begin();
  timeline.show(now());
  filter.refresh();
  openNamed();
  const timers = [setInterval(refreshNow, 1000), setInterval(readLive, LIVE_MS), setInterval(timeline.load, DAY_MS)];
  readLive();
  const note = () => keep(LOOKED, String(now()));
  window.addEventListener("pagehide", note);
  const leave = () => {
    generation += 1;
    hasLeft = true;
    note();
    window.removeEventListener("pagehide", note);
    watcher.disconnect();
    ends.forEach((end) => end());
    timers.forEach(clearInterval);
    clearTimeout(pending);
    clearTimeout(retry);
    clearTimeout(soon);
    stills.end();
    if (reading) reading.abort();
    if (player.node.open) player.node.close();
  };
  /** The address has changed: where only what is open differs, the list stays as it is. */
  leave.follows = () => {
    const { page, argument } = where();
    if (page !== "events" || String(where().query) !== query) return false;
    if (!argument) player.node.close();
    else if (argument !== player.node.dataset.id || !player.node.open) openNamed();
    return true;
  };
  return leave;
}

/** Saves what there is of a source in a span of time as one video. */
function makeExport() {
  const source = el("select", { name: "export-source" });
  const from = timeField("export-from", now() - SAVED_MS);
  const to = timeField("export-to", now());
  const link = el("a", { class: "button", download: "" }, t("export.save"));
  const note = el("p", { class: "problem", role: "status" });
  /** The begin of what the timeline has shown last. */
  let offered = null;
  const changed = () => {
    const [begin, end] = [from, to].map(timeOf);
    const isSpan = end > begin && end - begin <= MAX_SAVED_MS;
    text(note, isSpan || !source.value ? "" : t("export.wrong"));
    link.hidden = !isSpan || !source.value;
    if (!link.hidden) link.href = `api/${withQuery(`sources/${source.value}/export.mp4`, { from: new Date(begin).toISOString(), to: new Date(end).toISOString() })}`;
  };
  for (const field of [source, from, to]) field.addEventListener("change", changed);
  const node = el("details", { class: "export" }, el("summary", {}, t("export.title")),
    el("form", { class: "filter", "aria-label": t("export.form"), onsubmit: (event) => event.preventDefault() },
      el("label", {}, t("source"), source), el("label", {}, t("from"), from), el("label", {}, t("to"), to), el("div", { class: "clear" }, link, note)));
  return {
    node,
    /** Offers the sources of the timeline, and its span where it is one that can be saved. */
    learn: (names, begin, end) => {
      if (begin !== offered && end - begin <= MAX_SAVED_MS) {
        setTime(from, begin);
        setTime(to, end);
      }
      offered = begin;
      const known = [...source.options].map((option) => option.value);
      source.append(...names.filter((name) => !known.includes(name)).map((name) => el("option", { value: name }, name)));
      changed();
    },
  };
}

function usageText(usage) {
  const parts = [t("usage.clips", { size: bytes(usage.clip_bytes) }), t("usage.pictures", { size: bytes(usage.snapshot_bytes) })];
  if (usage.continuous_bytes > 0) parts.push(t("usage.continuous", { size: bytes(usage.continuous_bytes) }));
  if (usage.pinned_bytes > 0) parts.push(t("usage.pinned", { size: bytes(usage.pinned_bytes) }));
  if (usage.is_full) parts.push(t("usage.full"));
  return t("usage.recorded", { parts: parts.join(", ") });
}
