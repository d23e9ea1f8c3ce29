// Disks: what takes their space, and how long it lasts at the measured rate of growth.

import { bytes, el, svg } from "./dom.js";
import { state } from "./store.js";

/** `usage`: that of the archive, or null where nothing is kept. */
export function storage(node, usage) {
  const parts = [];
  for (const disk of disks()) parts.push(diskBar(disk, usage));
  if (usage) {
    const rate = usage.bytes_per_day;
    parts.push(el("h3", {}, "Video and pictures"), el("dl", { class: "facts" }, ...[
      ["Clips", bytes(usage.clip_bytes)],
      ["Pictures", bytes(usage.snapshot_bytes)],
      ["Continuous recording", bytes(usage.continuous_bytes)],
      ["Of these kept for good", bytes(usage.pinned_bytes)],
      ["Growth", rate ? `${bytes(rate)} a day` : "not measured yet"],
      ["Until the oldest must go", usage.is_full ? "the disk is full: recording has stopped" : daysLeft(usage.days_left)],
    ].map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))));
  }
  node.replaceChildren(...(parts.length > 0 ? parts : [el("p", { class: "quiet" }, "Figures appear with the next statistics.")]));
}

export function daysLeft(days) {
  if (days === null || days === undefined) return "not known yet";
  if (days >= 365) return "more than a year";
  if (days >= 2) return `${Math.floor(days)} days`;
  return days >= 1 / 12 ? `${Math.round(days * 24)} hours` : "less than 2 hours";
}

/** File systems with all that the daemon has on them. */
function disks() {
  const found = new Map();
  for (const disk of (state.info && state.info.disks) || []) {
    const known = found.get(disk.filesystem);
    if (known) known.names.push(disk.name);
    else found.set(disk.filesystem, { ...disk, names: [disk.name] });
  }
  return [...found.values()];
}

function diskBar(disk, usage) {
  const kinds = [];
  if (disk.names.includes("recordings") && usage) {
    kinds.push(["clips", usage.clip_bytes], ["pictures", usage.snapshot_bytes], ["continuous recording", usage.continuous_bytes]);
  }
  const { spool } = state.stats || {};
  if (disk.names.includes("spool") && spool && spool.state_bytes) kinds.push(["messages that wait", spool.state_bytes]);
  const used = Math.max(0, disk.total_bytes - disk.free_bytes);
  const known = kinds.reduce((sum, [, size]) => sum + size, 0);
  kinds.push(["other", Math.max(0, used - known)], ["free", disk.free_bytes]);
  const shown = kinds.filter(([, size]) => size > 0);
  let at = 0;
  const rects = shown.map(([name, size], index) => {
    const width = (size / Math.max(1, disk.total_bytes)) * 1000;
    const rect = svg("rect", { x: at, y: 0, width: Math.max(0, width), height: 10, class: `fill ${swatch(name, index)}` });
    at += width;
    return rect;
  });
  const title = `${disk.names.join(", ")}: ${bytes(disk.free_bytes)} free of ${bytes(disk.total_bytes)}`;
  return el("figure", { class: "disk" },
    el("figcaption", {}, title),
    svg("svg", { viewBox: "0 0 1000 10", preserveAspectRatio: "none", class: "bar-of-disk", role: "img", "aria-label": `${title}; ${shown.map(([name, size]) => `${name} ${bytes(size)}`).join(", ")}` }, ...rects),
    el("ul", { class: "legend" }, ...shown.map(([name, size], index) => el("li", {}, el("span", { class: `swatch ${swatch(name, index)}` }), `${name} ${bytes(size)}`))));
}

function swatch(name, index) {
  if (name === "free") return "free";
  return name === "other" ? "s7" : `s${index}`;
}
