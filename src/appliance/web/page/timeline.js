// A day of each source: when objects came, and of when there is video. A pointer or the keyboard moves a cursor over it. While it is
// moved only the cursor changes, so that each frame of the display has its place.

import { get, withQuery } from "./api.js";
import { clock, el, svg, text } from "./dom.js";
import { t } from "./text.js";

const DAY_MS = 86400000;
const PARTS = 288;

/** Steps of the keyboard. */
const STEP_MS = 60000;
const FAR_MS = 3600000;

/** The begin of the day of a time, or of one that many days later, in the time zone of the browser. */
export function dayOf(ms, days = 0) {
  const day = new Date(ms);
  day.setDate(day.getDate() + days);
  // Last: where the clock is changed at midnight, a day begins at one.
  day.setHours(0, 0, 0, 0);
  return day.getTime();
}

/** What `api/activity` says of each source on a day. */
export async function readActivity(day) {
  const [from, to] = [day, dayOf(day, 1)].map((ms) => new Date(ms).toISOString());
  return (await get(withQuery("activity", { from, to, parts: PARTS }))).sources || {};
}

/**
 * A timeline. `onMove(source, ms)` while the cursor is moved, `onPick(source, ms)` where it is left. `show(day, sources)` fills it with
 * the answer of `api/activity`; `only`: one source, without its name.
 */
export function makeTimeline({ onMove = () => {}, onPick, only = null }) {
  const rows = el("div", { class: "rows" });
  const hours = [0, 3, 6, 9, 12, 15, 18, 21].map((hour) => [hour, el("span", {}, `${String(hour).padStart(2, "0")}`)]);
  const scale = el("div", { class: "scale", "aria-hidden": "true" }, ...hours.map(([, mark]) => mark));
  const node = el("div", { class: `timeline${only ? " of-one" : ""}` }, rows, el("div", { class: "row" }, only ? null : el("span", { class: "source" }), scale));
  const tracks = new Map();
  let day = dayOf(Date.now());
  let length = DAY_MS;

  const row = (source) => {
    const area = svg("svg", { viewBox: `0 0 ${PARTS} 20`, preserveAspectRatio: "none", "aria-hidden": "true" });
    const cursor = el("span", { class: "cursor", hidden: true });
    const bubble = el("span", { class: "bubble" });
    cursor.append(bubble);
    const track = el("div", { class: "track", role: "slider", tabindex: 0, "aria-label": t("timeline.of", { source }), "aria-valuemin": 0, "aria-valuemax": DAY_MS / 1000, "aria-valuenow": 0 }, area, cursor);
    const one = { source, area, cursor, bubble, track, at: null };
    const move = (ms) => {
      one.at = Math.max(day, Math.min(day + length - 1000, ms));
      place(one);
      onMove(source, one.at);
    };
    const ofPointer = (event) => {
      const area = track.getBoundingClientRect();
      return day + Math.min(1, Math.max(0, (event.clientX - area.left) / area.width)) * length;
    };
    let isDown = false;
    let waiting = null;
    track.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      isDown = true;
      track.setPointerCapture(event.pointerId);
      move(ofPointer(event));
    });
    track.addEventListener("pointermove", (event) => {
      if (!isDown) return;
      // Once for each frame of the display.
      if (waiting === null) {
        requestAnimationFrame(() => {
          move(waiting);
          waiting = null;
        });
      }
      waiting = ofPointer(event);
    });
    const leave = (event) => {
      if (!isDown) return;
      isDown = false;
      if (event.type === "pointerup") onPick(source, ofPointer(event));
    };
    track.addEventListener("pointerup", leave);
    track.addEventListener("pointercancel", leave);
    track.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -STEP_MS, ArrowRight: STEP_MS, PageDown: -FAR_MS, PageUp: FAR_MS }[event.key];
      const from = one.at === null ? Math.min(Date.now(), day + length) : one.at;
      if (step) move(from + step);
      else if (event.key === "Home") move(day);
      else if (event.key === "End") move(day + length);
      else if (event.key === "Enter" || event.key === " ") onPick(source, from);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    tracks.set(source, one);
    rows.append(el("div", { class: "row", "data-source": source }, only ? null : el("span", { class: "source" }, source), track));
    return one;
  };

  const place = (one) => {
    one.cursor.hidden = one.at === null || one.at < day || one.at >= day + length;
    if (one.cursor.hidden) return;
    const share = (one.at - day) / length;
    one.cursor.style.transform = `translateX(${share * one.track.clientWidth}px)`;
    one.cursor.classList.toggle("left", share > 0.8);
    text(one.bubble, clock(one.at));
    one.track.setAttribute("aria-valuenow", String(Math.round((one.at - day) / 1000)));
    one.track.setAttribute("aria-valuetext", clock(one.at));
  };

  const fill = (one, found) => {
    const most = Math.max(1, ...found.objects.map(([, count]) => count));
    const x = (ms) => Math.max(0, Math.min(PARTS, ((ms - day) / length) * PARTS));
    // One path for each kind: a day has some hundred marks of each.
    const video = found.video.map(([from, to]) => `M${x(from).toFixed(2)},17h${Math.max(0.3, x(to) - x(from)).toFixed(2)}v3H${x(from).toFixed(2)}z`).join("");
    const objects = found.objects.map(([part, count]) => {
      const high = 3 + (Math.log1p(count) / Math.log1p(most)) * 12;
      return `M${part},16v${-high.toFixed(1)}h1v${high.toFixed(1)}z`;
    }).join("");
    one.area.replaceChildren(svg("path", { d: video, class: "video" }), svg("path", { d: objects, class: "objects" }));
    one.track.dataset.objects = String(found.objects.reduce((sum, [, count]) => sum + count, 0));
    one.track.dataset.video = String(found.video.length);
  };

  return {
    node,
    /** Shows a day (the time of its begin) of these sources, with what `api/activity` says of each. */
    show: (begin, names, found) => {
      day = begin;
      length = dayOf(begin, 1) - begin;
      // A day on which the clock is changed has another number of hours.
      for (const [hour, mark] of hours) mark.style.left = `${((new Date(begin).setHours(hour) - begin) / length) * 100}%`;
      for (const [source, one] of tracks) {
        if (names.includes(source)) continue;
        one.track.parentElement.remove();
        tracks.delete(source);
      }
      for (const source of names) {
        const one = tracks.get(source) || row(source);
        fill(one, found[source] || { objects: [], video: [] });
        place(one);
      }
    },
    /** Moves the cursor of a source, as where its video plays. */
    point: (source, ms) => {
      const one = tracks.get(source);
      if (!one) return;
      one.at = ms;
      place(one);
    },
  };
}
