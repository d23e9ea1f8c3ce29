// The machine: loads, clocks, temperatures, power, memory and disks; the broker; stage times; warnings; what support needs.

import { bytes, clock, dateAndTime, el, notify, span, text } from "./dom.js";
import { get, post } from "./api.js";
import { may, on, rates, state } from "./store.js";
import { plot } from "./plot.js";
import { showChecks } from "./checks.js";
import { storage } from "./storage.js";

export function show(main) {
  const parts = Object.fromEntries(["problems", "overview", "machine", "storage", "delivery", "plots", "log", "checks", "actions"].map((name) => [name, el("div", { class: name })]));
  const sections = [
    el("h1", {}, "Machine"),
    el("section", { class: "panel" }, el("h2", {}, "What needs attention"), parts.problems),
    el("section", { class: "panel" }, el("h2", {}, "Daemon"), parts.overview),
    el("section", { class: "panel" }, el("h2", {}, "Loads, clocks, temperatures, power"), parts.machine),
    el("section", { class: "panel" }, el("h2", {}, "Disks"), parts.storage),
    el("section", { class: "panel" }, el("h2", {}, "Messages"), parts.delivery),
    el("section", { class: "panel" }, el("h2", {}, "Last hour"), parts.plots),
    el("section", { class: "panel" }, el("h2", {}, "Warnings"), parts.log),
    may("administrator") && el("section", { class: "panel" }, el("h2", {}, "Checks"), parts.checks),
    el("section", { class: "panel" }, el("h2", {}, "Configuration and support"), parts.actions),
  ];
  main.replaceChildren(...sections.filter(Boolean));
  parts.problems.setAttribute("role", "status");
  let usage = null;
  const refresh = () => {
    problems(parts.problems, usage);
    overview(parts.overview);
    machine(parts.machine);
    storage(parts.storage, usage);
    delivery(parts.delivery);
    actions(parts.actions);
  };
  const refreshSlow = async () => {
    try {
      const [info, history, log] = await Promise.all([get("info"), get("history"), get("log")]);
      state.info = info;
      usage = info.has_media ? (await get("media?limit=1")).usage : null;
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

/** Share of dropped frames, of free space and of available memory beyond which something needs attention. */
const DROPPED = 0.1;
const FREE = 0.05;
const AVAILABLE = 0.1;

/** What is wrong, and what to do, the worst first. */
function problems(node, usage) {
  const { stats, detector, reload, info } = state;
  const found = [];
  const add = (kind, told) => found.push([kind, told]);
  if (detector && detector.state !== "ready") add(detector.state === "building" ? "warning" : "bad", `Detector: ${detector.state}${detector.reason ? `, ${detector.reason}` : ""}`);
  for (const source of state.sources.values()) {
    if (source.state === "offline") add("bad", `${source.name} is offline${source.reason ? `: ${source.reason}` : ""}`);
  }
  if (usage && usage.is_full) add("bad", "The disk is full: recording has stopped. Delete or release kept files, or change record.retention.");
  if (reload && reload.state !== "applied") add("bad", `The last reload was ${reload.state}; its problems are below.`);
  for (const { name } of state.sources.values()) {
    const rate = rates(name);
    const share = rate && rate.received > 0 ? rate.dropped / rate.received : 0;
    if (share > DROPPED) add("warning", `${name}: ${Math.round(share * 100)} % of the frames are dropped. Lower its max_fps, raise interval, or use a smaller model.`);
  }
  const throttled = stats && stats.machine ? stats.machine.throttled_by : [];
  if (throttled.length > 0) add("warning", `The machine is throttled by ${throttled.map((cause) => cause.name).join(", ")}`);
  if (stats && stats.messages.dropped > 0) add("warning", `${stats.messages.dropped.toLocaleString()} messages were given up since the start`);
  for (const disk of (info && info.disks) || []) {
    if (disk.total_bytes > 0 && disk.free_bytes / disk.total_bytes < FREE) add("warning", `${disk.name}: ${bytes(disk.free_bytes)} free of ${bytes(disk.total_bytes)}`);
  }
  const memory = info && info.memory;
  if (memory && memory.total_bytes > 0 && memory.available_bytes / memory.total_bytes < AVAILABLE) add("warning", `Memory: ${bytes(memory.available_bytes)} of ${bytes(memory.total_bytes)} available`);
  const words = { bad: "Wrong", warning: "Look" };
  const about = JSON.stringify(found);
  if (node.dataset.shown === about) return;
  node.dataset.shown = about;
  node.replaceChildren(found.length === 0
    ? el("p", { class: "good" }, stats ? "✓ Nothing." : "Figures appear with the next statistics.")
    : el("ul", { class: "log problems" }, ...found.map(([kind, told]) => el("li", {}, el("strong", { class: kind }, `${words[kind]}: `), told))));
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
    value === null ? el("span", { class: "quiet" }, "–") : el("meter", { min: 0, max: 100, low: 70, high: 90, optimum: 0, value: value.toFixed(1), "aria-label": `${name} ${Math.round(value)} %` }),
    el("span", { class: "value" }, [value === null ? null : `${Math.round(value)} %`, note].filter(Boolean).join(" · ")));
}

function overview(node) {
  const { info, stats, detector } = state;
  node.replaceChildren(table([
    ["Device", info && info.device],
    ["Machine", info && info.model],
    ["Version", info && info.version],
    ["Running for", stats && span(stats.uptime_ms)],
    ["Detector", (detector && detector.state === "ready" && detector.runs) || (detector && detector.state) || (info && info.detector)],
    ["Frames/s, all sources", stats && stats.fps.toFixed(1)],
    ["Frames/s, network alone", stats && stats.inference_fps.toFixed(1)],
    ["CPU time per frame", stats && `${stats.cpu_ms_per_frame.toFixed(2)} ms`],
    ["Memory of the daemon", stats && `${bytes(stats.rss_bytes)}, at most ${bytes(stats.peak_rss_bytes)}`],
  ]));
}

function machine(node) {
  const found = state.stats && state.stats.machine;
  const groups = [];
  if (found) {
    const throttled = found.throttled_by.map((cause) => cause.name).join(", ");
    groups.push(el("p", { class: throttled ? "warning" : "quiet" }, throttled ? `Throttled now by ${throttled}` : `Not throttled now; ${found.throttled_times} times since the start`));
    const { throttling } = state;
    if (throttling) groups.push(el("p", { class: "quiet" }, `Last change, ${dateAndTime(throttling.at)}: ${throttling.text}`));
    const mhz = (one) => (one.mhz === null ? null : `${Math.round(one.mhz)}${one.max_mhz ? ` of ${Math.round(one.max_mhz)}` : ""} MHz`);
    const cpus = found.cpus.map((cpu) => meter(`CPU ${cpu.cpu}`, cpu.online ? cpu.load_percent : null, cpu.online ? mhz(cpu) : "off"));
    const engines = found.engines.map((engine) => meter(engine.engine.toUpperCase(), engine.load_percent, mhz(engine)));
    const memory = state.info && state.info.memory;
    const used = memory && memory.total_bytes > 0 ? [meter("Memory", (1 - memory.available_bytes / memory.total_bytes) * 100, `${bytes(memory.available_bytes)} of ${bytes(memory.total_bytes)} available`)] : [];
    groups.push(el("div", { class: "gauges" }, ...cpus, ...engines, ...used));
    // `gpu-throttle-alert` belongs to the zone `GPU-therm`.
    const part = (name) => name.toLowerCase().split("-")[0];
    const hot = new Set(found.throttled_by.filter((cause) => cause.cause === "heat").map((cause) => part(cause.name)));
    const temperatures = found.temperatures.filter((zone) => zone.celsius !== null)
      .map((zone) => [zone.zone, `${zone.celsius.toFixed(1)} °C${hot.has(part(zone.zone)) ? ", throttles" : ""}`]);
    if (temperatures.length > 0) groups.push(el("h3", {}, "Temperatures"), table(temperatures));
    const rails = found.rails.filter((rail) => rail.mw !== null).map((rail) => [rail.rail, `${(rail.mw / 1000).toFixed(2)} W${rail.alarm ? ", over its limit" : ""}`]);
    const counted = found.over_current.filter((counter) => counter.count > 0).map((counter) => [counter.counter, `${counter.count} times since the start of the machine`]);
    if (counted.length > 0) groups.push(el("h3", {}, "Over-current"), table(counted));
    if (rails.length > 0) groups.push(el("h3", {}, "Power"), table(rails));
  } else {
    groups.push(el("p", { class: "quiet" }, "Figures appear with the next statistics."));
  }
  node.replaceChildren(...groups);
}

function delivery(node) {
  const { stats } = state;
  if (!stats) {
    node.replaceChildren(el("p", { class: "quiet" }, "Figures appear with the next statistics."));
    return;
  }
  const { messages, spool } = stats;
  node.replaceChildren(table([
    ["Delivered", messages.delivered.toLocaleString()],
    ["Waiting", messages.queued.toLocaleString()],
    ["Given up", messages.dropped.toLocaleString()],
    ["Spool in memory", spool && bytes(spool.runtime_bytes)],
    ["Spool on the device", spool && spool.state_bytes !== null ? bytes(spool.state_bytes) : null],
    ["Oldest message that waits", spool && spool.oldest_age_ms ? span(spool.oldest_age_ms) : null],
  ]));
}

function plots(node, points) {
  const series = (name, read) => ({ name, values: points.map((point) => [point.at_ms, read(point)]).filter(([, value]) => value !== null && value !== undefined) });
  const names = [...new Set(points.flatMap((point) => point.stages.map(([name]) => name)))];
  const stage = (name) => series(name, (point) => (point.stages.find(([found]) => found === name) || [])[1]);
  const isWork = (name) => name !== "batch" && !/_stay$|_wait$/.test(name);
  const stages = names.filter(isWork).map(stage).filter((one) => one.values.some(([, value]) => value >= 0.05))
    .sort((a, b) => b.values[b.values.length - 1][1] - a.values[a.values.length - 1][1]).slice(0, 8);
  node.replaceChildren(
    plot("Mean time of each stage, without waits for frames", stages, (value) => `${value >= 10 ? Math.round(value) : value.toFixed(1)} ms`),
    plot("Frames/s", [series("all sources", (point) => point.fps)], (value) => value.toFixed(value < 10 ? 1 : 0)),
    plot("Load", [series("CPU", (point) => point.cpu_percent), series("GPU", (point) => point.gpu_percent)], (value) => `${Math.round(value)} %`),
    plot("Memory of the daemon", [series("resident", (point) => point.rss_bytes)], bytes),
  );
}

function warnings(node, lines) {
  if (lines.length === 0) {
    node.replaceChildren(el("p", { class: "quiet" }, "No warnings since the start."));
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
  node.replaceChildren(el("ul", { class: "log" }, ...[...groups.values()].slice(-100).reverse().map(({ line, count, first }) =>
    el("li", { class: line.level }, el("strong", {}, `${line.level} `), el("span", { class: "quiet" }, `${clock(line.at)} ${line.source || ""} `), line.text,
      count > 1 ? el("span", { class: "quiet" }, ` (${count} times since ${clock(first)})`) : null))));
}

function actions(node) {
  const { reload } = state;
  // A button that is replaced would lose the focus.
  const shown = JSON.stringify([reload, state.session && state.session.role]);
  if (node.dataset.shown === shown) return;
  node.dataset.shown = shown;
  const result = reload
    ? el("p", { class: reload.state === "applied" ? "good" : "warning" }, `Last reload, ${dateAndTime(reload.at)}: ${reload.state}${summary(reload)}`)
    : el("p", { class: "quiet" }, "The configuration was not reloaded since the start.");
  const problems = reload && reload.problems.length > 0 ? el("ul", { class: "log" }, ...reload.problems.map((problem) =>
    el("li", {}, [problem.file && `${problem.file}${problem.line ? `:${problem.line}` : ""}`, problem.key, problem.text].filter(Boolean).join(": ")))) : null;
  const buttons = el("div", { class: "actions" });
  if (may("operator")) {
    buttons.append(el("button", { type: "button", onclick: async () => {
      try {
        await post("reload");
        notify("The reload was requested.");
      } catch (error) {
        notify(error.message, "bad");
      }
    } }, "Reload the configuration"));
  }
  if (may("administrator")) buttons.append(el("a", { class: "button", href: "api/support", download: "jetwatch-support.json" }, "Download the support bundle"));
  node.replaceChildren(result, ...(problems ? [problems] : []), buttons);
}

function summary(reload) {
  const parts = [["added", reload.added], ["changed", reload.changed], ["removed", reload.removed]].filter(([, names]) => names.length > 0);
  return parts.length > 0 ? ` (${parts.map(([word, names]) => `${word}: ${names.join(", ")}`).join("; ")})` : "";
}
