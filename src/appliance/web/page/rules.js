// The keys of zones, lines, directions and of the rule of rest: their fields, and which objects of the last hour they are about.

import { el } from "./dom.js";
import { t } from "./text.js";

const number = (label, min, max, step, hint = "") => ({ label, type: "number", min, max, step, hint });
const FIELDS = {
  objects: { label: "rule.objects", type: "text", list: "rule-labels", hint: "rule.objectsHint" },
  inertia_frames: number("rule.inertia", 1, 1000, 1),
  loitering_time_s: number("rule.loitering", 1, 86400, 1, "rule.notReported"),
  object_threshold: number("rule.threshold", 1, 10000, 1, "rule.notReported"),
  allow_overlap: { label: "rule.overlap", type: "checkbox" },
  tolerance_degrees: number("rule.tolerance", 0, 180, "any"),
  min_distance: number("rule.distance", 0, 1, "any"),
  threshold_s: number("rule.rest", 1, 86400, 1),
  min_iou: number("rule.iou", 0, 1, "any"),
  schedule: { label: "rule.schedule", type: "select" },
};

/** The keys of each kind, in the order of their fields. */
const KEYS = {
  zone: ["objects", "inertia_frames", "loitering_time_s", "object_threshold", "allow_overlap", "schedule"],
  line: ["objects", "inertia_frames", "schedule"],
  direction: ["tolerance_degrees", "min_distance", "schedule"],
  stationary: ["threshold_s", "min_iou", "inertia_frames", "objects", "schedule"],
};

/** What a new rule has without its keys. */
const DEFAULTS = {
  zone: { inertia_frames: 3 }, line: { inertia_frames: 3 }, direction: { tolerance_degrees: 45, min_distance: 0.05 },
  stationary: { threshold_s: 10, min_iou: 0.8, inertia_frames: 3 },
};

/** The value of a key of a shape, changed or as it was read. */
export function valueOf(shape, key) {
  const changed = shape.keys[key];
  const found = changed === undefined ? shape.rule && shape.rule[key] : changed;
  const value = found === null || found === undefined ? DEFAULTS[shape.kind][key] : found;
  // Single precision of the daemon.
  return typeof value === "number" ? Number(value.toFixed(4)) : value;
}

/** The fields of a shape; `schedules` are names. Changes go into `shape.keys`; empty ones are left out of the configuration. */
export function fieldsOf(shape, schedules, onChange) {
  return KEYS[shape.kind].map((key) => {
    const { label, type, hint, ...attributes } = FIELDS[key];
    const value = valueOf(shape, key);
    const set = (next) => {
      shape.keys[key] = next;
      onChange();
    };
    if (type === "select") return el("label", {}, t(label), scheduleField(value, schedules, set));
    if (type === "checkbox") {
      const field = el("input", { type, checked: Boolean(value), onchange: () => set(field.checked || null) });
      return el("label", { class: "tick" }, field, t(label));
    }
    const shown = Array.isArray(value) ? value.join(", ") : value;
    const read = (text) => (key === "objects" ? namesIn(text) : Number(text));
    const field = el("input", { type, ...attributes, value: shown === undefined ? "" : String(shown), oninput: () => {
      const isEmpty = field.value.trim() === "";
      if (!isEmpty || !field.validity.badInput) set(isEmpty ? null : read(field.value));
    } });
    return el("label", {}, t(label), field, hint ? el("span", { class: "quiet" }, t(hint)) : null);
  });
}

const namesIn = (text) => text.split(",").map((name) => name.trim()).filter(Boolean);

/** Always, one of the named schedules, or the windows that the file has. */
function scheduleField(value, schedules, set) {
  const own = value && typeof value !== "string" ? value : null;
  const names = typeof value === "string" && !schedules.includes(value) ? [value, ...schedules] : schedules;
  const field = el("select", { onchange: () => set(field.value === "own" ? own : field.value.slice(1) || null) },
    el("option", { value: "" }, t("rule.always")), own ? el("option", { value: "own" }, t("rule.ownSchedule")) : null,
    ...names.map((name) => el("option", { value: `=${name}` }, name)));
  field.value = own ? "own" : value ? `=${value}` : "";
  return field;
}

/** The keys of a rule in words. */
export function wordsOf(shape) {
  const of = (key) => valueOf(shape, key);
  const objects = of("objects") || [];
  const about = objects.length > 0 ? t("words.of", { objects: objects.join(", ") }) : t("words.ofAll");
  const schedule = of("schedule");
  const when = typeof schedule === "string" ? t("words.schedule", { name: schedule }) : schedule || (shape.rule && shape.rule.has_schedule && shape.keys.schedule === undefined) ? t("words.hasSchedule") : null;
  const frames = t("words.frames", { count: of("inertia_frames") });
  const parts = {
    zone: () => [about, frames, of("loitering_time_s") ? t("words.loitering", { count: of("loitering_time_s") }) : null, of("object_threshold") ? t("words.crowd", { count: of("object_threshold") }) : null],
    line: () => [about, frames, t("words.arrow")],
    direction: () => [t("words.within", { count: of("tolerance_degrees") })],
    stationary: () => [t("words.after", { count: of("threshold_s") }), about],
  }[shape.kind]();
  return [...parts, when].filter(Boolean).join(" · ");
}

/** The trajectory of an object: times in ms, its boxes, and the centers of their lower sides, which zones and lines are about. */
export function trajectoryOf(object) {
  const path = object.path || [];
  return { label: object.label, times: path.map(([at]) => at), boxes: path.map(([, ...box]) => box), points: path.map(([, left, , right, bottom]) => [(left + right) / 2, bottom]) };
}

/**
 * What objects would have caused: `{hits, words}`, with the trajectories that count and what they did. The trajectories have a box of every few frames:
 * `inertia_frames` is not counted. `aspect` is the image's width by its height.
 */
export function preview(shape, trajectories, groups, aspect) {
  const wanted = valueOf(shape, "objects") || [];
  const labels = new Set(wanted.flatMap((name) => groups[name] || [name]));
  const about = shape.kind === "direction" || labels.size === 0 ? trajectories : trajectories.filter((trajectory) => labels.has(trajectory.label));
  return { zone: inZone, line: overLine, direction: inDirection, stationary: atRest }[shape.kind](shape, about, aspect);
}

function inZone(shape, trajectories) {
  const limit = valueOf(shape, "loitering_time_s");
  const threshold = valueOf(shape, "object_threshold");
  const changes = [];
  let loiterers = 0;
  const hits = trajectories.filter((trajectory) => {
    let since = null;
    let longest = 0;
    let isIn = false;
    trajectory.points.forEach((point, index) => {
      const at = trajectory.times[index];
      const isInside = contains(shape.points, point);
      isIn = isIn || isInside;
      if (isInside && since === null) changes.push([at, 1]);
      if (!isInside && since !== null) changes.push([at, -1]);
      since = isInside ? since ?? at : null;
      if (isInside) longest = Math.max(longest, at - since);
    });
    if (since !== null) changes.push([trajectory.times[trajectory.times.length - 1] + 1, -1]);
    if (limit && longest >= limit * 1000) loiterers += 1;
    return isIn;
  });
  let [count, most] = [0, 0];
  for (const [, change] of changes.sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    count += change;
    most = Math.max(most, count);
  }
  return { hits, words: [t("preview.entered", { count: hits.length }), limit ? t("preview.loitered", { count: loiterers }) : null, threshold ? t(most >= threshold ? "preview.crowd" : "preview.most", { count: most }) : null].filter(Boolean).join(", ") };
}

function overLine(shape, trajectories) {
  const [from, to] = shape.points;
  const side = ([x, y], [ax, ay], [bx, by]) => (bx - ax) * (y - ay) - (by - ay) * (x - ax);
  let [left, right] = [0, 0];
  const hits = trajectories.filter(({ points }) => {
    const before = left + right;
    for (let index = 1; index < points.length; index += 1) {
      const [a, b] = [points[index - 1], points[index]];
      const [begin, end] = [side(a, from, to), side(b, from, to)];
      if (begin > 0 === end > 0 || side(from, a, b) > 0 === side(to, a, b) > 0) continue;
      if (end > 0) right += 1;
      else left += 1;
    }
    return left + right > before;
  });
  return { hits, words: t("preview.crossed", { left, right }) };
}

function inDirection(shape, trajectories, aspect) {
  const [from, to] = shape.points;
  const angle = ([ax, ay], [bx, by]) => Math.atan2(by - ay, (bx - ax) * aspect);
  const wanted = angle(from, to);
  const hits = trajectories.filter(({ points }) => {
    let [origin] = points;
    return points.some((point) => {
      if (Math.hypot(point[0] - origin[0], point[1] - origin[1]) < valueOf(shape, "min_distance")) return false;
      const turn = Math.abs(angle(origin, point) - wanted);
      origin = point;
      return (Math.min(turn, 2 * Math.PI - turn) * 180) / Math.PI <= valueOf(shape, "tolerance_degrees");
    });
  });
  return { hits, words: t("preview.moved", { count: hits.length }) };
}

function atRest(shape, trajectories) {
  const hits = trajectories.filter(({ boxes, times }) => {
    let first = 0;
    return boxes.some((box, index) => {
      if (overlap(boxes[first], box) < valueOf(shape, "min_iou")) first = index;
      return times[index] - times[first] >= valueOf(shape, "threshold_s") * 1000;
    });
  });
  return { hits, words: t("preview.rested", { count: hits.length }) };
}

function contains(points, [x, y]) {
  let isIn = false;
  points.forEach(([ax, ay], index) => {
    const [bx, by] = points[(index + 1) % points.length];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) isIn = !isIn;
  });
  return isIn;
}

function overlap(a, b) {
  const area = ([left, top, right, bottom]) => Math.max(0, right - left) * Math.max(0, bottom - top);
  const both = area([Math.max(a[0], b[0]), Math.max(a[1], b[1]), Math.min(a[2], b[2]), Math.min(a[3], b[3])]);
  return both / (area(a) + area(b) - both || 1);
}
