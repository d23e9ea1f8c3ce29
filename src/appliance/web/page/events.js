// Events: what happens now, and what has happened, the newest first. Kept pictures and clips come from the daemon's archive.

import { bytes, dateAndTime, el, notify, span, text } from "./dom.js";
import { get, post, withQuery } from "./api.js";
import { may, on, state } from "./store.js";

const PAGE = 50;

export function show(main) {
  const now = el("ul", { class: "now", "aria-label": "Happening now" });
  const list = el("ol", { class: "list", "aria-label": "Events" });
  const more = el("button", { type: "button", hidden: true }, "Show earlier events");
  const empty = el("p", { class: "empty", hidden: true }, "No events match.");
  const usage = el("p", { class: "summary" });
  const filter = makeFilter(() => load());
  const viewer = el("dialog", { class: "viewer", "aria-label": "Recording" });
  main.replaceChildren(
    el("h1", {}, "Events"),
    el("section", { class: "panel" }, el("h2", {}, "Happening now"), now),
    el("section", { class: "panel" }, el("h2", {}, "History"), filter.node, usage, list, empty, more),
    viewer,
  );
  const open = new Map();
  const rows = new Map();
  let oldest = null;
  let media = [];
  let generation = 0;

  const refreshNow = () => {
    const items = [...open.values()].map((event) =>
      el("li", {}, el("strong", {}, event.label), ` at ${event.source} `, el("span", { class: "quiet" }, `for ${span(Math.max(0, Date.now() - Date.parse(event.started_at)))}`)));
    now.replaceChildren(...(items.length > 0 ? items : [el("li", { class: "quiet" }, "Nothing is in view.")]));
  };

  const load = async (before) => {
    const own = before === undefined ? (generation += 1) : generation;
    const wanted = filter.values();
    try {
      const found = await get(withQuery("events", { ...wanted, before, limit: PAGE }));
      if (own !== generation) return;
      if (before === undefined) {
        list.replaceChildren();
        rows.clear();
        if (state.info && state.info.has_media) {
          const kept = await get(withQuery("media", { ...wanted, limit: 200 }));
          if (own !== generation) return;
          media = kept.items;
          text(usage, usageText(kept.usage));
        }
      }
      for (const { number, message } of found.events) {
        oldest = number;
        const row = makeRow(message);
        rows.set(keyOf(message), row);
        list.append(row);
      }
      if (before === undefined) appendKept(found.events.map(({ message }) => message));
      more.hidden = found.events.length < PAGE;
      empty.hidden = list.children.length > 0;
    } catch (error) {
      notify(error.message, "bad");
    }
  };

  /** Kept items of earlier runs, which are not in the list of this one. */
  const appendKept = (messages) => {
    const known = new Set(messages.map((message) => message.id));
    const rest = media.filter((item) => !item.events.some((id) => known.has(id)));
    if (rest.length === 0) return;
    list.append(...rest.slice(0, PAGE).map((item) => makeKeptRow(item)));
  };

  const itemOf = (message) => media.find((item) => item.events.includes(message.id));

  const makeKeptRow = (item) =>
    el("li", { class: "event" },
      item.snapshot ? snapshot(item) : el("div", { class: "thumb", "aria-hidden": "true" }, "R"),
      el("div", { class: "what" },
        el("p", {}, el("strong", {}, item.label || "recording"), ` at ${item.source}`),
        el("p", { class: "quiet" }, dateAndTime(item.started_ms))),
      keptActions(item));

  const makeRow = (message) => {
    const item = itemOf(message);
    const title = message.kind === "event" ? message.label : describe(message);
    const at = message.started_at || message.at;
    const details = message.kind === "event"
      ? `${message.ended_at ? `for ${span(message.duration_ms)}` : "in view"}, score ${Math.round(message.after.top_score * 100)} %`
      : "";
    return el("li", { class: "event", "data-source": message.source, "data-kind": message.kind },
      item && item.snapshot ? snapshot(item) : el("div", { class: `thumb of-${message.kind}`, "aria-hidden": "true" }, (title || "?").slice(0, 1).toUpperCase()),
      el("div", { class: "what" },
        el("p", {}, el("strong", {}, title), ` at ${message.source}`),
        el("p", { class: "quiet" }, [at && dateAndTime(at), details].filter(Boolean).join(" · "))),
      item ? keptActions(item) : null);
  };

  const snapshot = (item) =>
    el("button", { class: "thumb", type: "button", "aria-label": "Show the picture", onclick: () => openViewer(item) },
      el("img", { src: `api/media/${item.snapshot}/snapshot.jpg`, alt: "", loading: "lazy" }));

  const keptActions = (item) => {
    const actions = el("div", { class: "actions" });
    if (item.clip) {
      actions.append(
        el("button", { type: "button", onclick: () => openViewer(item) }, "Play"),
        el("a", { class: "button", href: `api/media/${item.clip}/clip.mp4?download=1`, download: "" }, "Download"));
    }
    if (may("operator")) {
      const pin = el("button", { type: "button", "aria-pressed": String(Boolean(item.pinned)) }, item.pinned ? "Kept" : "Keep");
      pin.addEventListener("click", async () => {
        try {
          const pinned = !item.pinned;
          for (const id of [item.clip, item.snapshot].filter(Boolean)) {
            const answer = await post(`media/${id}/pin`, { pinned });
            if (answer.error) throw new Error(answer.error);
          }
          item.pinned = pinned;
          pin.setAttribute("aria-pressed", String(item.pinned));
          text(pin, item.pinned ? "Kept" : "Keep");
        } catch (error) {
          notify(error.message, "bad");
        }
      });
      actions.append(pin);
    }
    return actions;
  };

  const openViewer = (item) => {
    const close = el("button", { type: "button", onclick: () => viewer.close() }, "Close");
    const content = item.clip
      ? el("video", { src: `api/media/${item.clip}/clip.mp4`, controls: true, autoplay: true, playsinline: true })
      : el("img", { src: `api/media/${item.snapshot}/snapshot.jpg`, alt: `${item.label || "Picture"} at ${item.source}` });
    viewer.replaceChildren(el("div", { class: "line" }, el("h2", {}, `${item.label || "Recording"} at ${item.source}, ${dateAndTime(item.started_ms)}`), close), content);
    viewer.showModal();
  };
  viewer.addEventListener("close", () => viewer.replaceChildren());

  const takeEvent = (message) => {
    if (message.kind === "event") {
      const key = keyOf(message);
      if (message.type === "end") open.delete(key);
      else open.set(key, message);
      refreshNow();
      if (message.type === "update") return;
    }
    if (!filter.admits(message)) return;
    const row = makeRow(message);
    const known = rows.get(keyOf(message));
    if (known) known.replaceWith(row);
    else list.prepend(row);
    rows.set(keyOf(message), row);
    empty.hidden = true;
    while (list.children.length > 500) list.lastElementChild.remove();
  };

  more.addEventListener("click", () => load(oldest));
  const ends = [on("event", takeEvent), on("analytics", takeEvent), on("connection", (isConnected) => isConnected && begin())];
  const begin = async () => {
    try {
      const found = await get("now");
      open.clear();
      for (const message of found) open.set(keyOf(message), message);
      refreshNow();
    } catch {
      // The next connection tries again.
    }
    load();
  };
  begin();
  const timer = setInterval(refreshNow, 1000);
  return () => {
    ends.forEach((end) => end());
    clearInterval(timer);
  };
}

function keyOf(message) {
  return message.kind === "event" ? message.id : `${message.source}/${message.at}/${message.type}/${message.track_id}/${message.name}`;
}

/** An analytics event in words. */
function describe(message) {
  const about = message.label || "Objects";
  const type = (message.type || "event").replaceAll("_", " ");
  return message.name ? `${about}: ${type}, ${message.name}` : `${about}: ${type}`;
}

function usageText(usage) {
  if (!usage) return "";
  const parts = [`${bytes(usage.clip_bytes)} of clips`, `${bytes(usage.snapshot_bytes)} of pictures`];
  if (usage.pinned_bytes > 0) parts.push(`${bytes(usage.pinned_bytes)} kept for good`);
  if (usage.is_full) parts.push("the disk is full");
  return `Recorded: ${parts.join(", ")}`;
}

function makeFilter(onChange) {
  const sources = (state.info ? state.info.sources : []).map((source) => source.name);
  const labels = [...new Set((state.info ? state.info.sources : []).flatMap((source) => source.labels))].sort();
  const rules = [...new Set((state.info ? state.info.sources : []).flatMap((source) => source.rules))].sort();
  const choice = (name, all, values) =>
    el("select", { name, onchange: onChange }, el("option", { value: "" }, all), ...values.map((value) => el("option", { value }, value)));
  const source = choice("source", "All sources", sources);
  const label = choice("label", "All labels", labels);
  const zone = choice("zone", "All zones and lines", rules);
  const from = el("input", { type: "datetime-local", name: "from", onchange: onChange });
  const to = el("input", { type: "datetime-local", name: "to", onchange: onChange });
  const utc = (input) => (input.value ? new Date(input.value).toISOString() : "");
  const node = el("form", { class: "filter", onsubmit: (event) => event.preventDefault() },
    el("label", {}, "Source", source), el("label", {}, "Label", label), el("label", {}, "Zone or line", zone), el("label", {}, "From", from), el("label", {}, "To", to));
  return {
    node,
    values: () => ({ source: source.value, label: label.value, zone: zone.value, from: utc(from), to: utc(to) }),
    admits: (message) =>
      (!source.value || message.source === source.value)
      && (!label.value || message.label === label.value)
      && (!zone.value || message.name === zone.value)
      && !to.value,
  };
}
