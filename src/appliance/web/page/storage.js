// Disks: what takes their space, and how long it lasts at the measured rate of growth.

import { bytes, el, renew, svg } from "./dom.js";
import { state } from "./store.js";
import { t, wordOf } from "./text.js";

/** `usage`: that of the archive, where there is one. */
export function storage(node, usage) {
  const parts = [];
  for (const disk of disks()) parts.push(diskBar(disk, usage));
  if (usage) {
    const rate = usage.bytes_per_day;
    parts.push(el("h3", {}, t("storage.title")), el("dl", { class: "facts" }, ...[
      [t("storage.clips"), bytes(usage.clip_bytes)],
      [t("storage.pictures"), bytes(usage.snapshot_bytes)],
      [t("recording.continuous"), bytes(usage.continuous_bytes)],
      [t("storage.pinned"), bytes(usage.pinned_bytes)],
      [t("storage.growth"), rate ? t("storage.perDay", { size: bytes(rate) }) : t("storage.notMeasured")],
      [t("storage.left"), usage.is_full ? t("storage.full") : daysLeft(usage.days_left)],
    ].map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))));
  }
  renew(node, ...(parts.length > 0 ? parts : [el("p", { class: "quiet" }, t("figures.later"))]));
}

export function daysLeft(days) {
  if (days === null || days === undefined) return t("storage.notKnown");
  if (days >= 365) return t("storage.year");
  if (days >= 2) return t("storage.days", { count: Math.floor(days) });
  return days >= 1 / 12 ? t("storage.hours", { count: Math.round(days * 24) }) : t("storage.lessHours");
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
    kinds.push(["clips", usage.clip_bytes], ["pictures", usage.snapshot_bytes], ["continuous", usage.continuous_bytes]);
  }
  const { spool } = state.stats || {};
  if (disk.names.includes("spool") && spool && spool.state_bytes) kinds.push(["waiting", spool.state_bytes]);
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
  const title = t("disk.free", { disk: disk.names.map((name) => wordOf("disk", name)).join(", "), free: bytes(disk.free_bytes), total: bytes(disk.total_bytes) });
  return el("figure", { class: "disk" },
    el("figcaption", {}, title),
    svg("svg", { viewBox: "0 0 1000 10", preserveAspectRatio: "none", class: "bar-of-disk", role: "img", "aria-label": `${title}; ${shown.map(([name, size]) => `${t(`use.${name}`)} ${bytes(size)}`).join(", ")}` }, ...rects),
    el("ul", { class: "legend" }, ...shown.map(([name, size], index) => el("li", {}, el("span", { class: `swatch ${swatch(name, index)}` }), `${t(`use.${name}`)} ${bytes(size)}`))));
}

function swatch(name, index) {
  if (name === "free") return "free";
  return name === "other" ? "s7" : `s${index}`;
}
