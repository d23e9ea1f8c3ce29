// A day of each source, or less: when objects came, and of when there is video. A pointer or the keyboard moves a cursor over it. While
// it is moved only the cursor changes, so that each frame of the display has its place.

import { get, now, withQuery } from "./api.js";
import { clock, el, svg, text } from "./dom.js";
import { asTime, asUnit, byName, fromNow, t } from "./text.js";

const DAY_MS = 86400000;
const PARTS = 288;

/** Spans that can be shown in place of a day. */
const SPANS = [21600000, 3600000, 600000];

/** A window begins at, and has marks for, whole parts of its span. */
const partOf = (span) => span / (span < 3600000 ? 5 : 6);

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

/** The name of the day of a time. */
export function dayName(ms) {
  const days = Math.round((dayOf(now()) - dayOf(ms)) / DAY_MS);
  const name = days === 0 || days === 1 ? fromNow(-days, "day", { numeric: "auto" }) : asTime(ms, { weekday: "long", year: "numeric", month: "long", day: "numeric" });
  return name.charAt(0).toUpperCase() + name.slice(1);
}

/**
 * A timeline. `onMove(source, ms)` while the cursor is moved, `onPick(source, ms)` where it is left; `onShow(names, begin, end)` with what
 * is shown. `sources()`: those that have a row in any case; `only`: one source, without its name; `span`: what is shown first, 0 is a day.
 */
export function makeTimeline({ onMove = () => {}, onPick, onShow = () => {}, sources = () => [], only = null, span = 0 }) {
  const rows = el("div", { class: "rows" });
  const scale = el("div", { class: "scale", "aria-hidden": "true" });
  const title = el("h2", {});
  const before = el("button", { type: "button", onclick: () => step(-1) }, "‹");
  const after = el("button", { type: "button", onclick: () => step(1) }, "›");
  const pick = el("select", { "aria-label": t("export.form"), onchange: () => zoom(Number(pick.value)) },
    ...[0, ...SPANS].map((ms) => el("option", { value: ms }, ms === 600000 ? asUnit(10, "minute") : asUnit((ms || DAY_MS) / 3600000, "hour"))));
  const node = el("div", { class: `timeline${only ? " of-one" : ""}` }, el("div", { class: "line" }, before, title, after, pick), rows,
    el("div", { class: "row" }, only ? null : el("span", { class: "source" }), scale));
  const tracks = new Map();
  /** What is shown. */
  let day = dayOf(now());
  let length = DAY_MS;
  /** Where the cursor was moved to last. */
  let last = null;

  const row = (source) => {
    const area = svg("svg", { viewBox: `0 0 ${PARTS} 20`, preserveAspectRatio: "none", "aria-hidden": "true" });
    const cursor = el("span", { class: "cursor", hidden: true });
    const bubble = el("span", { class: "bubble" });
    cursor.append(bubble);
    const track = el("div", { class: "track", role: "slider", tabindex: 0, "aria-label": t("timeline.of", { source }), "aria-valuemin": 0, "aria-valuenow": 0 }, area, cursor);
    const one = { source, area, cursor, bubble, track, at: null };
    const move = (ms) => {
      if (span && (ms < day || ms >= day + length)) show(ms);
      one.at = last = Math.max(day, Math.min(day + length - 1000, ms));
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
      const from = one.at === null ? Math.min(now(), day + length) : one.at;
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
    one.track.setAttribute("aria-valuemax", String(length / 1000));
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

  /** Chooses what is shown, so that a time is in it. */
  const choose = (ms) => {
    const part = partOf(span);
    day = span ? Math.floor((ms - span / 2) / part) * part : dayOf(ms);
    length = span || dayOf(day, 1) - day;
  };

  const load = async () => {
    const [begin, end] = [day, day + length];
    text(title, [dayName(begin + length / 2), span && `${shortTime(begin)} – ${shortTime(end)}`].filter(Boolean).join(", "));
    before.setAttribute("aria-label", t(span ? "player.older" : "events.dayBefore"));
    after.setAttribute("aria-label", t(span ? "player.newer" : "events.dayAfter"));
    after.disabled = end > now();
    const hours = [0, 3, 6, 9, 12, 15, 18, 21].map((hour) => [new Date(begin).setHours(hour), String(hour).padStart(2, "0")]);
    const parts = Array.from({ length: span ? span / partOf(span) : 0 }, (_, part) => begin + part * partOf(span)).map((ms) => [ms, shortTime(ms)]);
    scale.replaceChildren(...(span ? parts : hours).map(([ms, name]) => {
      const mark = el("span", {}, name);
      // A day on which the clock is changed has another number of hours.
      mark.style.left = `${((ms - begin) / length) * 100}%`;
      return mark;
    }));
    try {
      const query = { from: new Date(begin).toISOString(), to: new Date(end).toISOString(), parts: PARTS };
      const found = (await get(withQuery("activity", query))).sources || {};
      if (begin !== day || end !== day + length) return;
      const names = namesOf(found);
      fillRows(names, found);
      onShow(names, begin, end);
    } catch {
      // The next look tries again; the cursor can be moved all the same.
    }
  };

  const namesOf = (found) => (only ? [only] : [...new Set([...sources(), ...Object.keys(found)])].sort(byName));

  const fillRows = (names, found) => {
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
  };

  /** Shows what is around a time. */
  const show = (ms) => {
    choose(ms);
    fillRows(namesOf({}), {});
    return load();
  };
  const step = (direction) => show(span ? day + length / 2 + (direction * span) / 2 : dayOf(day, direction));
  const zoom = (wanted) => {
    const middle = last !== null && last >= day && last < day + length ? last : now() < day + length ? now() : day + length / 2;
    span = wanted;
    show(middle);
  };
  pick.value = String(span);

  return {
    node,
    show,
    /** Reads again what is shown. */
    load,
    /** Moves the cursor of a source, as where its video plays. */
    point: (source, ms) => {
      last = ms;
      if (ms < day || ms >= day + length) show(ms);
      const one = tracks.get(source);
      if (!one) return;
      one.at = ms;
      place(one);
    },
  };
}

const shortTime = (ms) => asTime(ms, { timeStyle: "short" });
