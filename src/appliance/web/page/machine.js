// The machine: loads, clocks, temperatures, power, memory and disks; the broker; stage times; warnings; what support needs.

import { bytes, clock, dateAndTime, el, notify, renew, span } from "./dom.js";
import { get, post } from "./api.js";
import { OVERLOAD, droppedShare, may, on, state } from "./store.js";
import { plot } from "./plot.js";
import { showChecks } from "./checks.js";
import { storage } from "./storage.js";
import { asNumber, asPercent, asUnit, t, wordOf } from "./text.js";

export function show(main) {
  const parts = Object.fromEntries(["problems", "overview", "machine", "storage", "delivery", "plots", "log", "checks", "support"].map((name) => [name, el("div", { class: name })]));
  const sections = [
    el("h1", {}, t("tab.machine")),
    el("section", { class: "panel" }, el("h2", {}, t("machine.attention")), parts.problems),
    el("section", { class: "panel" }, el("h2", {}, t("machine.daemon")), parts.overview),
    el("section", { class: "panel" }, el("h2", {}, t("machine.loads")), parts.machine),
    el("section", { class: "panel" }, el("h2", {}, t("machine.disks")), parts.storage),
    el("section", { class: "panel" }, el("h2", {}, t("machine.messages")), parts.delivery),
    el("section", { class: "panel" }, el("h2", {}, t("machine.hour")), parts.plots),
    el("section", { class: "panel" }, el("h2", {}, t("machine.warnings")), parts.log),
    may("administrator") && el("section", { class: "panel" }, el("h2", {}, t("machine.checks")), parts.checks),
    el("section", { class: "panel" }, el("h2", {}, t("machine.support")), parts.support),
  ];
  main.replaceChildren(...sections.filter(Boolean));
  parts.problems.setAttribute("role", "status");
  let usage;
  const refresh = () => {
    problems(parts.problems, usage);
    overview(parts.overview);
    machine(parts.machine);
    storage(parts.storage, usage);
    delivery(parts.delivery);
    actions(parts.support);
  };
  const refreshSlow = async () => {
    try {
      const [info, history, log] = await Promise.all([get("info"), get("history"), get("log")]);
      state.info = info;
      const kept = info.has_media ? await get("media?limit=1") : { is_ready: false };
      usage = kept.is_ready ? kept.usage : undefined;
      plots(parts.plots, history.points);
      warnings(parts.log, log);
      refresh();
    } catch {
      // Shown by the state of the connection.
    }
  };
  refresh();
  refreshSlow();
  const ends = ["stats", "reload", "throttling", "detector", "source"].map((kind) => on(kind, refresh));
  if (may("administrator")) ends.push(showChecks(parts.checks));
  const timer = setInterval(refreshSlow, 10000);
  return () => {
    ends.forEach((end) => end());
    clearInterval(timer);
  };
}

/** Share of free space and of available memory beyond which something needs attention. */
const FREE = 0.05;
const AVAILABLE = 0.1;

/** What is wrong, and what to do, the worst first. `usage`: that of the archive; null: it cannot be used, undefined: nothing is kept. */
function problems(node, usage) {
  const { stats, detector, reload, info } = state;
  const found = [];
  const add = (kind, told) => found.push([kind, told]);
  if (detector && detector.state !== "ready") add(detector.state === "building" ? "warning" : "bad", t(detector.reason ? "problem.detector" : "live.detector", { state: wordOf("detector", detector.state), reason: detector.reason }));
  for (const source of state.sources.values()) {
    if (source.state === "offline") add("bad", t(source.reason ? "problem.offlineBy" : "problem.offline", { source: source.name, reason: source.reason }));
  }
  if (usage === null) add("bad", t("problem.closed"));
  else if (usage && usage.is_full) add("bad", t("problem.full"));
  if (reload && reload.state !== "applied") add("bad", t("problem.reload", { state: wordOf("reload", reload.state) }));
  for (const { name } of state.sources.values()) {
    const share = droppedShare(name);
    if (share > OVERLOAD) add("warning", t("problem.dropped", { source: name, share: asPercent(share) }));
  }
  const throttled = stats && stats.machine ? stats.machine.throttled_by : [];
  if (throttled.length > 0) add("warning", t("problem.throttled", { causes: throttled.map((cause) => cause.name).join(", ") }));
  const before = state.previousStats;
  if (stats && before && before.messages.queued > 0 && stats.messages.queued > 0 && stats.messages.delivered === before.messages.delivered) add("bad", t("problem.waiting", { count: stats.messages.queued }));
  if (stats && stats.messages.dropped > 0) add("warning", t("problem.givenUp", { count: stats.messages.dropped }));
  for (const disk of (info && info.disks) || []) {
    if (disk.total_bytes > 0 && disk.free_bytes / disk.total_bytes < FREE) add("warning", t("disk.free", { disk: wordOf("disk", disk.name), free: bytes(disk.free_bytes), total: bytes(disk.total_bytes) }));
  }
  const memory = info && info.memory;
  if (memory && memory.total_bytes > 0 && memory.available_bytes / memory.total_bytes < AVAILABLE) add("warning", t("problem.memory", { available: bytes(memory.available_bytes), total: bytes(memory.total_bytes) }));
  renew(node, found.length === 0
    ? el("p", { class: "good" }, stats ? t("problem.none") : t("figures.later"))
    : el("ul", { class: "log problems" }, ...found.map(([kind, told]) => el("li", {}, el("strong", { class: kind }, `${t(`problem.${kind}`)} `), told))));
}

/** Names with values; those without a value are left out. */
function table(rows) {
  return el("dl", { class: "facts" }, ...rows.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function meter(name, percent, note) {
  const value = percent === null || percent === undefined ? null : Math.max(0, Math.min(100, percent));
  return el("div", { class: "gauge" },
    el("span", {}, name),
    value === null ? el("span", { class: "quiet" }, "–") : el("meter", { min: 0, max: 100, low: 70, high: 90, optimum: 0, value: value.toFixed(1), "aria-label": `${name} ${asPercent(value / 100)}` }),
    el("span", { class: "value" }, [value === null ? null : asPercent(value / 100), note].filter(Boolean).join(" · ")));
}

function overview(node) {
  const { info, stats, detector } = state;
  renew(node, table([
    [t("machine.device"), info && info.device],
    [t("machine.model"), info && info.model],
    [t("machine.version"), info && info.version],
    [t("machine.uptime"), stats && span(stats.uptime_ms)],
    [t("machine.detector"), (detector && detector.state === "ready" && detector.runs) || (detector && wordOf("detector", detector.state)) || (info && info.detector)],
    [t("machine.fps"), stats && asNumber(stats.fps, 1)],
    [t("machine.inferenceFps"), stats && asNumber(stats.inference_fps, 1)],
    [t("machine.cpuTime"), stats && asUnit(stats.cpu_ms_per_frame, "millisecond", 2)],
    [t("machine.rss"), stats && t("machine.rssPeak", { now: bytes(stats.rss_bytes), peak: bytes(stats.peak_rss_bytes) })],
  ]));
}

function machine(node) {
  const found = state.stats && state.stats.machine;
  const groups = [];
  if (found) {
    const throttled = found.throttled_by.map((cause) => cause.name).join(", ");
    groups.push(el("p", { class: throttled ? "warning" : "quiet" }, throttled ? t("machine.throttled", { causes: throttled }) : t("machine.notThrottled", { count: found.throttled_times })));
    const { throttling } = state;
    if (throttling) groups.push(el("p", { class: "quiet" }, t("machine.lastChange", { time: dateAndTime(throttling.at), text: throttling.text })));
    const mhz = (one) => (one.mhz === null ? null : one.max_mhz ? t("machine.mhz", { now: asNumber(one.mhz, 0), max: asNumber(one.max_mhz, 0) }) : `${asNumber(one.mhz, 0)} MHz`);
    const cpus = found.cpus.map((cpu) => meter(`CPU ${cpu.cpu}`, cpu.online ? cpu.load_percent : null, cpu.online ? mhz(cpu) : t("machine.cpuOff")));
    const engines = found.engines.map((engine) => meter(engine.engine.toUpperCase(), engine.load_percent, mhz(engine)));
    const memory = state.info && state.info.memory;
    const used = memory && memory.total_bytes > 0 ? [meter(t("machine.memory"), (1 - memory.available_bytes / memory.total_bytes) * 100, t("machine.available", { available: bytes(memory.available_bytes), total: bytes(memory.total_bytes) }))] : [];
    groups.push(el("div", { class: "gauges" }, ...cpus, ...engines, ...used));
    // `gpu-throttle-alert` belongs to the zone `GPU-therm`.
    const part = (name) => name.toLowerCase().split("-")[0];
    const hot = new Set(found.throttled_by.filter((cause) => cause.cause === "heat").map((cause) => part(cause.name)));
    const temperatures = found.temperatures.filter((zone) => zone.celsius !== null)
      .map((zone) => [zone.zone, asUnit(zone.celsius, "celsius", 1), hot.has(part(zone.zone))])
      .map(([zone, value, isHot]) => [zone, isHot ? t("machine.throttles", { value }) : value]);
    if (temperatures.length > 0) groups.push(el("h3", {}, t("machine.temperatures")), table(temperatures));
    const rails = found.rails.filter((rail) => rail.mw !== null).map((rail) => [rail, `${asNumber(rail.mw / 1000, 2)} W`])
      .map(([rail, value]) => [rail.rail, rail.alarm ? t("machine.overLimit", { value }) : value]);
    const counted = found.over_current.filter((counter) => counter.count > 0).map((counter) => [counter.counter, t("machine.overCurrentTimes", { count: counter.count })]);
    if (counted.length > 0) groups.push(el("h3", {}, t("machine.overCurrent")), table(counted));
    if (rails.length > 0) groups.push(el("h3", {}, t("machine.power")), table(rails));
  } else {
    groups.push(el("p", { class: "quiet" }, t("figures.later")));
  }
  renew(node, ...groups);
}

function delivery(node) {
  const { stats } = state;
  if (!stats) {
    renew(node, el("p", { class: "quiet" }, t("figures.later")));
    return;
  }
  const { messages, spool } = stats;
  renew(node, table([
    [t("delivery.delivered"), asNumber(messages.delivered)],
    [t("delivery.waiting"), asNumber(messages.queued)],
    [t("delivery.givenUp"), asNumber(messages.dropped)],
    [t("delivery.spoolMemory"), spool && bytes(spool.runtime_bytes)],
    [t("delivery.spoolDisk"), spool && spool.state_bytes !== null ? bytes(spool.state_bytes) : null],
    [t("delivery.oldest"), spool && spool.oldest_age_ms ? span(spool.oldest_age_ms) : null],
  ]));
}

function plots(node, points) {
  const series = (name, read) => ({ name, values: points.map((point) => [point.at_ms, read(point)]).filter(([, value]) => value !== null && value !== undefined) });
  const names = [...new Set(points.flatMap((point) => point.stages.map(([name]) => name)))];
  const stage = (name) => series(name, (point) => (point.stages.find(([found]) => found === name) || [])[1]);
  const isWork = (name) => name !== "batch" && !/_stay$|_wait$/.test(name);
  const stages = names.filter(isWork).map(stage).filter((one) => one.values.some(([, value]) => value >= 0.05))
    .sort((a, b) => b.values[b.values.length - 1][1] - a.values[a.values.length - 1][1]).slice(0, 8);
  renew(node,
    plot(t("plot.stages"), stages, (value) => asUnit(value, "millisecond", value >= 10 ? 0 : 1)),
    plot(t("plot.fps"), [series(t("plot.all"), (point) => point.fps)], (value) => asNumber(value, value < 10 ? 1 : 0)),
    plot(t("plot.load"), [series("CPU", (point) => point.cpu_percent), series("GPU", (point) => point.gpu_percent)], (value) => asPercent(value / 100)),
    plot(t("machine.rss"), [series(t("plot.resident"), (point) => point.rss_bytes)], bytes),
  );
}

function warnings(node, lines) {
  if (lines.length === 0) {
    renew(node, el("p", { class: "quiet" }, t("machine.noWarnings")));
    return;
  }
  // The same text again, but for its numbers, is one line with a count.
  const groups = new Map();
  for (const line of lines) {
    const key = `${line.level}/${line.source || ""}/${line.text.replace(/\d+/g, "0")}`;
    const known = groups.get(key);
    groups.delete(key);
    groups.set(key, { line, count: (known ? known.count : 0) + 1, first: known ? known.first : line.at });
  }
  renew(node, el("ul", { class: "log" }, ...[...groups.values()].slice(-100).reverse().map(({ line, count, first }) =>
    el("li", { class: line.level }, el("strong", {}, `${wordOf("level", line.level)} `), el("span", { class: "quiet" }, `${clock(line.at)} ${line.source || ""} `), el("span", { lang: "en" }, line.text),
      count > 1 ? el("span", { class: "quiet" }, ` ${t("machine.repeated", { count, time: clock(first) })}`) : null))));
}

function actions(node) {
  const { reload } = state;
  if (!node.firstChild) node.append(el("div", {}), actionButtons());
  const result = reload
    ? el("p", { class: reload.state === "applied" ? "good" : "warning" }, `${t("reload.last", { time: dateAndTime(reload.at), state: wordOf("reload", reload.state) })}${summary(reload)}`)
    : el("p", { class: "quiet" }, t("reload.never"));
  const problems = reload && reload.problems.length > 0 ? el("ul", { class: "log" }, ...reload.problems.map((problem) =>
    el("li", { lang: "en" }, [problem.file && `${problem.file}${problem.line ? `:${problem.line}` : ""}`, problem.key, problem.text].filter(Boolean).join(": ")))) : null;
  renew(node.firstChild, ...[result, problems].filter(Boolean));
}

/** They are made once. */
function actionButtons() {
  const buttons = el("div", { class: "actions" });
  if (may("operator")) {
    buttons.append(el("button", { type: "button", onclick: async () => {
      try {
        await post("reload");
        notify(t("reload.requested"));
      } catch (error) {
        notify(error.message, "bad");
      }
    } }, t("reload.begin")));
  }
  if (may("administrator")) buttons.append(el("a", { class: "button", href: "api/support", download: "jetwatch-support.json" }, t("support.download")));
  return buttons;
}

function summary(reload) {
  const parts = [["added", reload.added], ["changed", reload.changed], ["removed", reload.removed]].filter(([, names]) => names.length > 0);
  return parts.length > 0 ? ` (${parts.map(([word, names]) => t(`reload.${word}`, { names: names.join(", ") })).join("; ")})` : "";
}
