// Events: what happens now, and what has happened, the newest first, page by page. Kept pictures and clips come from the daemon's
// archive, which also has those of earlier runs.

import { bytes, el, notify, span, text } from "./dom.js";
import { get, withQuery } from "./api.js";
import { makeFilter } from "./filter.js";
import { makeRows, keyOf } from "./rows.js";
import { on, state } from "./store.js";

/** Events, and kept items, of a page. */
const PAGE = 50;

/** Most rows; the oldest leave. */
const MAX_ROWS = 2000;

/** Time after which a store of pictures and clips that is not open yet is asked again. */
const RETRY_MS = 2000;

/** Time in which pictures and clips that become ready are asked for together. */
const MEDIA_MS = 700;

export function show(main) {
  const now = el("ul", { class: "now", tabindex: 0, "aria-label": "Happening now" });
  const makeList = () => el("ol", { class: "list", "aria-label": "Events" });
  let list = makeList();
  let visible = list;
  const more = el("button", { type: "button", class: "more" }, "Show earlier events");
  const empty = el("p", { class: "empty", hidden: true }, "No events match.");
  const usage = el("p", { class: "summary" });
  const filter = makeFilter(() => begin());
  const rows = makeRows();
  main.replaceChildren(
    el("h1", {}, "Events"),
    el("section", { class: "panel" }, el("h2", {}, "Happening now"), now),
    el("section", { class: "panel" }, el("h2", {}, "History"), filter.node, usage, list, empty, more),
    rows.viewer,
  );
  /** Tracks of now, and the zones and lines of each. */
  const open = new Map();
  const rulesOf = new Map();
  const shown = new Map();
  const hasMedia = () => Boolean(state.info && state.info.has_media);
  /** Where the next page begins; `phase` is `events` of this run, then `kept` items of earlier ones, then `end`. */
  let next = { phase: "events" };
  let generation = 0;
  let isBusy = false;
  let retry = null;
  // At the end of the list, the next page comes by itself.
  const watcher = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && load(), { rootMargin: "300px" });

  /** Shows the list that was begun last; until its first page is there, the one before stays in view. */
  const reveal = () => {
    if (visible !== list) visible.replaceWith(list);
    visible = list;
  };

  const refreshNow = () => {
    const items = [...open.values()].map((event) => {
      const rules = rulesOf.get(keyOf(event)) || [];
      return el("li", { "data-source": event.source }, el("strong", {}, event.label), ` at ${event.source}`, rules.length > 0 ? `, ${rules.join(", ")} ` : " ",
        el("span", { class: "quiet age" }, `for ${span(Math.max(0, Date.now() - Date.parse(event.started_at)))}`));
    });
    now.replaceChildren(...(items.length > 0 ? items : [el("li", { class: "quiet" }, "Nothing is in view.")]));
  };

  const add = (row) => {
    shown.set(row.key, row);
    list.append(row.node);
  };

  /** Puts a row into its place by time; one that belongs to a page that was not read yet comes with that page. */
  const insert = (row) => {
    const later = [...list.children].find((node) => Number(node.dataset.at) <= Number(row.node.dataset.at));
    if (!later && next.phase !== "end" && list.children.length > 0) return;
    list.insertBefore(row.node, later || null);
    shown.set(row.key, row);
  };

  /** The page of events of this run, with what is kept of them. */
  const readEvents = async (wanted) => {
    const found = await get(withQuery("events", { ...wanted, before: next.before, limit: PAGE }));
    const messages = found.events.map(({ message }) => message);
    if (hasMedia() && messages.length > 0) {
      const starts = messages.map((message) => Date.parse(message.started_at || message.at));
      const ends = messages.map((message) => Date.parse(message.ended_at || message.frame_at || message.at));
      const time = (ms) => new Date(ms).toISOString();
      rows.learn((await get(withQuery("media", { source: wanted.source, label: wanted.label, from: time(Math.min(...starts)), to: time(Math.max(...ends)), limit: 200 }))).items);
    }
    const rest = hasMedia() ? { phase: "kept", to: found.oldest } : { phase: "end" };
    return {
      rows: found.events.map(({ message, rules }) => rows.ofEvent(message, rules)),
      next: found.next === null ? rest : { phase: "events", before: found.next },
    };
  };

  /** The page of kept items, without those of events of this run. */
  const readKept = async (wanted) => {
    const kind = filter.isContinuous() ? "continuous" : null;
    const limits = [wanted.to, next.to].filter(Boolean).sort();
    const found = await get(withQuery("media", { ...wanted, kind, to: limits[0], before: next.before, limit: PAGE }));
    text(usage, usageText(found.usage));
    // The daemon has not opened its archive yet, as just after a start.
    if (found.usage === null) return { rows: [], next, isWaiting: true };
    const items = found.items.filter((item) => !item.events.some((id) => shown.has(id)));
    return {
      rows: items.map((item) => rows.ofItem(item)),
      next: found.next === null ? { phase: "end" } : { ...next, before: found.next },
    };
  };

  const load = async () => {
    if (isBusy) return;
    isBusy = true;
    const own = generation;
    try {
      for (let added = 0; added === 0 && next.phase !== "end";) {
        const page = await (next.phase === "events" ? readEvents : readKept)(filter.values());
        // The filter has changed meanwhile.
        if (own !== generation) return;
        next = page.next;
        if (page.isWaiting) {
          clearTimeout(retry);
          retry = setTimeout(load, RETRY_MS);
          more.hidden = true;
          return;
        }
        const fresh = page.rows.filter((row) => !shown.has(row.key));
        fresh.forEach(add);
        added = fresh.length;
      }
      more.hidden = next.phase === "end";
      empty.hidden = list.children.length > 0;
      // Observing again reports whether the end of the list is still in view.
      watcher.unobserve(more);
      watcher.observe(more);
    } catch (error) {
      if (own === generation) notify(error.message, "bad");
    } finally {
      if (own === generation) {
        isBusy = false;
        reveal();
      }
    }
  };

  const begin = async () => {
    generation += 1;
    clearTimeout(retry);
    isBusy = false;
    next = filter.isContinuous() ? { phase: "kept" } : { phase: "events" };
    shown.clear();
    list = makeList();
    more.hidden = false;
    await load();
    if (hasMedia()) get("media?limit=1").then((found) => text(usage, usageText(found.usage)), () => {});
  };

  const takeEvent = (message) => {
    const key = keyOf(message);
    if (message.kind === "event") {
      if (message.type === "end") open.delete(key);
      else open.set(key, message);
      refreshNow();
    } else if (message.id && message.name) {
      const rules = rulesOf.get(message.id) || [];
      if (!rules.includes(message.name)) rulesOf.set(message.id, [...rules, message.name]);
      const track = open.get(message.id);
      if (track) put(track);
    }
    if (message.type !== "update") put(message);
    if (message.kind === "event" && message.type === "end") rulesOf.delete(key);
  };

  /** The row of something that happens now: a new one, or in place of the one before. */
  const put = (message) => {
    const key = keyOf(message);
    const known = shown.get(key);
    const rules = [...new Set([...((known && known.rules) || []), ...(rulesOf.get(key) || [])])];
    if (!filter.admits(message, rules)) return;
    const row = rows.ofEvent(message, rules);
    if (known) {
      known.node.replaceWith(row.node);
      shown.set(key, row);
    } else {
      insert(row);
    }
    empty.hidden = true;
    if (list.children.length > MAX_ROWS) begin();
  };

  /** A picture or clip has become ready: rows of its tracks show it. */
  let pending = null;
  const takeMedia = (message) => {
    if (message.state !== "ready" || !hasMedia() || pending) return;
    pending = setTimeout(async () => {
      pending = null;
      try {
        const found = await get("media?limit=30");
        text(usage, usageText(found.usage));
        for (const item of rows.learn(found.items)) {
          for (const id of item.events) {
            const known = shown.get(id);
            if (!known || !known.message) continue;
            const row = rows.ofEvent(known.message, known.rules);
            known.node.replaceWith(row.node);
            shown.set(id, row);
          }
        }
      } catch {
        // The next one tries again.
      }
    }, MEDIA_MS);
  };

  const connected = async () => {
    try {
      const found = await get("now");
      open.clear();
      for (const message of found) open.set(keyOf(message), message);
      refreshNow();
    } catch {
      // The next connection tries again.
    }
  };
  more.addEventListener("click", load);
  const ends = [on("event", takeEvent), on("analytics", takeEvent), on("media", takeMedia), on("connection", (isConnected) => {
    if (isConnected) {
      connected();
      begin();
    }
  })];
  connected();
  begin();
  const timer = setInterval(refreshNow, 1000);
  return () => {
    generation += 1;
    watcher.disconnect();
    ends.forEach((end) => end());
    clearInterval(timer);
    clearTimeout(pending);
    clearTimeout(retry);
  };
}

function usageText(usage) {
  if (!usage) return "";
  const parts = [`${bytes(usage.clip_bytes)} of clips`, `${bytes(usage.snapshot_bytes)} of pictures`];
  if (usage.continuous_bytes > 0) parts.push(`${bytes(usage.continuous_bytes)} of continuous recording`);
  if (usage.pinned_bytes > 0) parts.push(`${bytes(usage.pinned_bytes)} kept for good`);
  if (usage.is_full) parts.push("the disk is full");
  return `Recorded: ${parts.join(", ")}`;
}
