// What is drawn over a picture, at the resolution of the display: boxes, labels, trajectories, zones and lines. Names never overlap.

import { el } from "./dom.js";
import { asPercent } from "./text.js";

const COLORS = ["#34d399", "#fbbf24", "#60a5fa", "#f472b6", "#a78bfa", "#fb923c", "#22d3ee", "#a3e635"];
const ZONE = "#fde047";
const LINE = "#f472b6";

/** The same color for the same label, everywhere. */
export function colorOf(label) {
  let sum = 0;
  for (const letter of String(label)) sum = (sum * 31 + letter.codePointAt(0)) >>> 0;
  return COLORS[sum % COLORS.length];
}

/** A canvas that lies over a picture of the same size. */
export function makeLayer() {
  return el("canvas", { class: "layer", "aria-hidden": "true" });
}

/**
 * Draws on a layer, all from 0 to 1: `objects` `{box, label, score, isLost}`, `trajectories` `{label, points, isLost}`, and `zones` and `lines`
 * `{name, coordinates}`. Names leave room for `title`, an element over the picture. Returns their places, in pixels of the layer.
 */
export function drawLayer(layer, { objects = [], trajectories = [], zones = [], lines = [], title }) {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.round(layer.clientWidth * ratio);
  const height = Math.round(layer.clientHeight * ratio);
  if (width === 0 || height === 0) return [];
  if (layer.width !== width || layer.height !== height) {
    layer.width = width;
    layer.height = height;
  }
  const context = layer.getContext("2d");
  context.clearRect(0, 0, width, height);
  const at = ([x, y]) => [x * width, y * height];
  const names = makeNames(context, width, height, ratio, title && title.checkVisibility() ? [placeOf(title, layer, ratio)] : []);
  const path = (points, isClosed) => {
    context.beginPath();
    points.map(at).forEach(([x, y], index) => (index === 0 ? context.moveTo(x, y) : context.lineTo(x, y)));
    if (isClosed) context.closePath();
  };
  const stroke = (color, size) => {
    context.lineJoin = "round";
    context.strokeStyle = "rgb(0 0 0 / .55)";
    context.lineWidth = (size + 2) * ratio;
    context.stroke();
    context.strokeStyle = color;
    context.lineWidth = size * ratio;
    context.stroke();
  };
  for (const { coordinates } of zones) {
    path(coordinates, true);
    context.fillStyle = "rgb(253 224 71 / .1)";
    context.fill();
    stroke(ZONE, 1.5);
  }
  for (const { coordinates } of lines) {
    path(coordinates, false);
    stroke(LINE, 2);
  }
  // Those that are there come last, on top of those that may not be.
  const sorted = [...objects].sort((a, b) => Number(b.isLost) - Number(a.isLost));
  for (const { label, points, isLost } of trajectories) {
    if (points.length < 2) continue;
    context.globalAlpha = isLost ? 0.4 : 1;
    path(points, false);
    stroke(colorOf(label), 1);
  }
  for (const { box, label, isLost } of sorted) {
    const color = colorOf(label);
    context.globalAlpha = isLost ? 0.4 : 1;
    const [left, top] = at(box);
    const [right, bottom] = at(box.slice(2));
    context.setLineDash(isLost ? [4 * ratio, 4 * ratio] : []);
    context.beginPath();
    context.rect(left, top, right - left, bottom - top);
    stroke(color, 2);
    context.setLineDash([]);
  }
  context.globalAlpha = 1;
  // Names come last, above all boxes.
  for (const [rules, color] of [[zones, ZONE], [lines, LINE]]) {
    for (const { name, coordinates } of rules) {
      const [x, y] = at(coordinates[0]);
      names.add(name, color, [[x, y], [x, y + 22 * ratio], [x, y + 44 * ratio]]);
    }
  }
  // Near objects first: they keep their names where there is no room for all. What is lost has none.
  const named = objects.filter((one) => !one.isLost && one.label).sort((a, b) => b.box[3] - a.box[3]);
  for (const { box, label, score } of named) {
    const [left, top] = at(box);
    const [right, bottom] = at(box.slice(2));
    const line = 20 * ratio;
    const wanted = [[left, top - line], [right, top - line, true], [left, bottom], [right, bottom, true], [left, top], [left, bottom - line]];
    const text = score === null || score === undefined ? label : `${label} ${asPercent(score)}`;
    if (!names.add(text, colorOf(label), wanted)) names.add(label, colorOf(label), wanted);
  }
  layer.dataset.zones = String(zones.length + lines.length);
  layer.dataset.trajectories = String(trajectories.length);
  layer.dataset.boxes = String(objects.filter((one) => !one.isLost).length);
  layer.dataset.lost = String(objects.filter((one) => one.isLost).length);
  return names.places;
}

/** The place of an element on a layer, in pixels of the layer. */
function placeOf(node, layer, ratio) {
  const [area, from] = [node.getBoundingClientRect(), layer.getBoundingClientRect()];
  return { left: (area.left - from.left) * ratio, top: (area.top - from.top) * ratio, right: (area.right - from.left) * ratio, bottom: (area.bottom - from.top) * ratio };
}

/** Writes names where nothing is yet: each tries its places in turn, and is left out where none is free. */
function makeNames(context, width, height, ratio, taken) {
  const places = [];
  context.font = `600 ${12 * ratio}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  /** The name, or as much of it as is not wider than the picture. */
  const fit = (name) => {
    const measure = (text) => context.measureText(text).width + 10 * ratio;
    if (measure(name) <= width) return name;
    const letters = [...name];
    while (letters.length > 1 && measure(`${letters.join("")}…`) > width) letters.pop();
    return `${letters.join("")}…`;
  };
  const add = (name, color, wanted) => {
    const text = fit(name);
    const wide = context.measureText(text).width + 10 * ratio;
    const high = 18 * ratio;
    for (const [x, y, isRight] of wanted) {
      const left = Math.max(0, Math.min(width - wide, isRight ? x - wide : x));
      const top = Math.max(0, Math.min(height - high, y));
      const isFree = [...taken, ...places].every((other) => left >= other.right || left + wide <= other.left || top >= other.bottom || top + high <= other.top);
      if (!isFree) continue;
      places.push({ text, left, top, right: left + wide, bottom: top + high });
      context.fillStyle = "rgb(8 12 16 / .82)";
      context.fillRect(left, top, wide, high);
      context.fillStyle = color;
      context.fillRect(left, top, 3 * ratio, high);
      context.fillStyle = "#fff";
      context.fillText(text, left + 6 * ratio, top + high / 2);
      return true;
    }
    return false;
  };
  return { add, places };
}
