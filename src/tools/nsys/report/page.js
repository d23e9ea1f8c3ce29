"use strict";
// Draws the data that stands in the page: findings, tables, bars, utilization, and a timeline that zooms.
const data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");

function make(tag, attributes, ...children) {
  const svg = ["svg", "rect", "text", "path", "line", "title", "g"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  for (const child of children) element.append(child);
  return element;
}

function time(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return (ns / 1e9).toFixed(3) + " s";
  if (size >= 1e6) return (ns / 1e6).toFixed(2) + " ms";
  if (size >= 1e3) return (ns / 1e3).toFixed(2) + " µs";
  return ns.toFixed(0) + " ns";
}

// Cells are texts with units; sorting needs their numbers.
const FACTORS = { "": 1, "%": 1, ns: 1, "µs": 1e3, ms: 1e6, s: 1e9, B: 1, kB: 1e3, MB: 1e6, GB: 1e9 };
const NUMBER = /^(-?[\d.]+)(?: ?(%|ns|µs|ms|s|B|kB|MB|GB))?$/;
function numeric(cell) {
  const found = NUMBER.exec(cell);
  return found ? Number(found[1]) * FACTORS[found[2] || ""] : null;
}

// A click on a head sorts by that column, the largest first; another click turns the order around. Columns without any value
// are left out.
function table(shown) {
  const columns = shown.heads.map((_, at) => at).filter((at) => !shown.rows.length || shown.rows.some((row) => row[at] !== "-"));
  const isText = shown.heads.map((_, at) => shown.rows.some((row) => row[at] !== "-" && numeric(row[at]) === null));
  const kind = (at) => (isText[at] ? { class: "text" } : {});
  const body = make("tbody", {});
  const fill = (rows) => body.replaceChildren(...rows.map((row) => make("tr", {}, ...columns.map((at) => make("td", { ...kind(at), title: row[at] }, row[at])))));
  let sorted = { at: null, down: true };
  const heads = columns.map((at) => {
    const head = make("th", { ...kind(at), tabindex: "0", role: "columnheader", title: "sort" }, shown.heads[at]);
    const sort = () => {
      sorted = { at, down: sorted.at === at ? !sorted.down : !isText[at] };
      const sign = sorted.down ? -1 : 1;
      const value = (row) => (isText[at] ? row[at] : numeric(row[at]));
      const compare = (a, b) => (isText[at] ? a.localeCompare(b) : a - b);
      const known = shown.rows.filter((row) => value(row) !== null), unknown = shown.rows.filter((row) => value(row) === null);
      fill([...known.sort((a, b) => sign * compare(value(a), value(b))), ...unknown]);
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    return head;
  });
  fill(shown.rows);
  const more = shown.more ? [make("p", { class: "hint" }, `and ${shown.more} more rows`)] : [];
  const grid = make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body);
  return make("details", { open: "" }, make("summary", {}, shown.title), make("div", { class: "scroll" }, grid), ...more);
}

// Width of a text on the page, in pixels.
const ruler = document.createElement("canvas").getContext("2d");
ruler.font = "12px system-ui, sans-serif";
const widthOf = (text) => Math.ceil(ruler.measureText(text).width);

// Mean times of the ranges that take most, CPU above GPU, for each report.
function bars(reports) {
  const totals = new Map();
  for (const report of reports) for (const bar of report.bars) totals.set(bar.name, Math.max(totals.get(bar.name) || 0, bar.total));
  const names = [...totals].sort((a, b) => b[1] - a[1]).slice(0, 16).map((entry) => entry[0]);
  if (!names.length) return "";
  const find = (report, name) => report.bars.find((bar) => bar.name === name);
  const values = (bar) => [["cpu", bar.cpu], ["gpu", bar.gpu]].filter((entry) => entry[1] !== null);
  const text = (report, what, value) => `${time(value)} ${what.toUpperCase()}${reports.length > 1 ? " " + report.title : ""}`;
  const drawn = names.map((name) => reports.map((report) => [report, find(report, name)]).filter((entry) => entry[1]).flatMap(([report, bar]) => values(bar).map(([what, value]) => ({ what, value, label: text(report, what, value) }))));
  const longest = Math.max(1, ...drawn.flat().map((bar) => bar.value));
  // The drawing is as wide as its labels need; a wider one than the page scrolls.
  const row = 14, gap = 12, left = 16 + Math.max(...names.map(widthOf)), right = 16 + Math.max(...drawn.flat().map((bar) => widthOf(bar.label)));
  const width = Math.max(1180, left + 420 + right);
  const svg = make("svg", { role: "img", "aria-label": "Mean time of each range" });
  let y = 4;
  names.forEach((name, at) => {
    svg.append(make("text", { x: left - 8, y: y + 11, "text-anchor": "end" }, name));
    for (const bar of drawn[at]) {
      const length = Math.max(1, (bar.value / longest) * (width - left - right));
      svg.append(make("rect", { x: left, y, width: length, height: row - 3, class: bar.what }));
      svg.append(make("text", { x: left + length + 6, y: y + 10, class: "faint" }, bar.label));
      y += row;
    }
    y += gap;
  });
  svg.setAttribute("viewBox", `0 0 ${width} ${y}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", y);
  const isUnmeasured = reports.some((report) => report.not_measured.some((text) => text.startsWith("GPU: ")));
  const hasGpu = drawn.flat().some((bar) => bar.what === "gpu");
  const keys = make("p", { class: "hint" }, "Mean time of an instance: ", make("span", { class: "key", style: "color: var(--cpu)" }, "CPU"), hasGpu ? make("span", { class: "key", style: "color: var(--gpu)" }, "GPU, projected") : isUnmeasured ? "; GPU: not measured" : "");
  return make("div", {}, make("h3", {}, "Ranges"), keys, make("div", { class: "scroll" }, svg));
}

// Frames per second of the points of a series, as bars; and drops against streams, as a line.
function series(plot) {
  const drawn = [];
  if (plot.bars.length) {
    const left = 300, width = 1180, row = 24;
    const longest = Math.max(...plot.bars.map((bar) => bar.value), 1e-9);
    const svg = make("svg", { viewBox: `0 0 ${width} ${plot.bars.length * row + 4}`, width: "100%", role: "img", "aria-label": "Frames per second" });
    plot.bars.forEach((bar, number) => {
      const y = 4 + number * row, length = Math.max(1, (bar.value / longest) * (width - left - 140));
      const label = make("text", { x: left - 8, y: y + 14, "text-anchor": "end" }, bar.name.length > 42 ? bar.name.slice(0, 41) + "…" : bar.name);
      label.append(make("title", {}, bar.name));
      svg.append(label, make("rect", { x: left, y, width: length, height: row - 6, class: "cpu" }), make("text", { x: left + length + 6, y: y + 14, class: "faint" }, bar.text));
    });
    drawn.push(make("div", {}, make("h3", {}, "Frames per second"), make("div", { class: "scroll" }, svg)));
  }
  if (plot.drops.length > 1) {
    const width = 1180, height = 200, left = 56;
    const most = Math.max(...plot.drops.map((point) => point.x)), top = Math.max(1, ...plot.drops.map((point) => point.y));
    const x = (value) => left + (value / most) * (width - left - 20), y = (value) => 8 + (1 - value / top) * (height - 8);
    const svg = make("svg", { viewBox: `0 0 ${width} ${height + 28}`, width: "100%", role: "img", "aria-label": "Drops against streams" });
    for (const share of [0, 0.5, 1]) {
      svg.append(make("line", { x1: left, x2: width, y1: y(share * top), y2: y(share * top), class: "grid" }));
      svg.append(make("text", { x: left - 6, y: y(share * top) + 4, "text-anchor": "end", class: "faint" }, `${(share * top).toFixed(1)} %`));
    }
    svg.append(make("path", { class: "curve", d: plot.drops.map((point, at) => `${at ? "L" : "M"}${x(point.x)} ${y(point.y)}`).join("") }));
    for (const point of plot.drops) {
      const mark = make("rect", { x: x(point.x) - 4, y: y(point.y) - 4, width: 8, height: 8, class: "cpu" });
      mark.append(make("title", {}, `${point.x} streams: ${point.y.toFixed(2)} %`));
      svg.append(mark, make("text", { x: x(point.x), y: height + 20, "text-anchor": "middle", class: "faint" }, String(point.x)));
    }
    drawn.push(make("div", {}, make("h3", {}, "Frames dropped or late, against streams"), make("div", { class: "scroll" }, svg)));
  }
  return drawn;
}

function utilization(plot) {
  return plot.gpus.map((gpu) => {
    const width = 1180, height = 120, count = gpu.shares.length;
    const svg = make("svg", { viewBox: `0 0 ${width} ${height + 24}`, width: "100%", role: "img", "aria-label": "GPU utilization" });
    for (const share of [0, 0.5, 1]) {
      const y = 6 + (1 - share) * (height - 6);
      svg.append(make("line", { x1: 48, x2: width, y1: y, y2: y, class: "grid" }));
      svg.append(make("text", { x: 40, y: y + 4, "text-anchor": "end", class: "faint" }, `${share * 100} %`));
    }
    const x = (at) => 48 + (at / count) * (width - 48);
    const steps = gpu.shares.map((share, at) => { const y = 6 + (1 - share) * (height - 6); return `L${x(at)} ${y}L${x(at + 1)} ${y}`; });
    svg.append(make("path", { class: "area", d: `M48 ${height}${steps.join("")}L${width} ${height}Z` }));
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      const anchor = part === 0 ? "start" : part === 1 ? "end" : "middle";
      svg.append(make("text", { x: 48 + part * (width - 48), y: height + 18, "text-anchor": anchor, class: "faint" }, time(plot.start + part * plot.length)));
    }
    const mean = gpu.shares.reduce((sum, share) => sum + share, 0) / Math.max(1, count);
    return make("div", {}, make("h3", {}, `Utilization of ${gpu.title}: ${(mean * 100).toFixed(1)} %`), svg);
  });
}

// Utilization of every GPU of every report as one map: a row each, over the length of its report.
function heatMap(reports) {
  const rows = reports.flatMap((report) => (report.plot ? report.plot.gpus : []).map((gpu) => ({ report, gpu, name: `${report.title}: ${gpu.title}` })));
  if (rows.length < 2) return "";
  const left = 240, width = 1180, row = 18, parts = 120, right = 150;
  const svg = make("svg", { role: "img", "aria-label": "GPU utilization of all reports" });
  rows.forEach(({ report, gpu, name }, number) => {
    const y = 4 + number * row, each = gpu.shares.length / parts, step = (width - left - right) / parts;
    const label = make("text", { x: left - 8, y: y + 12, "text-anchor": "end" }, name.length > 34 ? name.slice(0, 33) + "…" : name);
    label.append(make("title", {}, name));
    svg.append(label);
    for (let part = 0; part < parts; part += 1) {
      const shares = gpu.shares.slice(Math.floor(part * each), Math.max(Math.floor((part + 1) * each), Math.floor(part * each) + 1));
      const share = shares.reduce((sum, value) => sum + value, 0) / Math.max(1, shares.length);
      const cell = make("rect", { x: left + part * step, y, width: step + 0.3, height: row - 3, class: "heat", "fill-opacity": (0.06 + 0.94 * share).toFixed(3) });
      cell.append(make("title", {}, `${name}: ${(share * 100).toFixed(0)} % at ${time(report.plot.start + (part / parts) * report.plot.length)}`));
      svg.append(cell);
    }
    const mean = gpu.shares.reduce((sum, value) => sum + value, 0) / Math.max(1, gpu.shares.length);
    svg.append(make("text", { x: width - right + 6, y: y + 12, class: "faint" }, `${(mean * 100).toFixed(1)} % of ${time(report.plot.length)}`));
  });
  svg.setAttribute("viewBox", `0 0 ${width} ${rows.length * row + 8}`);
  svg.setAttribute("width", "100%");
  return make("div", {}, make("h3", {}, "GPU utilization of all reports, each from its begin to its end: darker is busier"), make("div", { class: "scroll" }, svg));
}

// Times of even ticks in a view: multiples of 1, 2 or 5 times a power of ten, at most about `most` of them.
function ticks(from, until, most) {
  const rough = (until - from) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= until; at += step) found.push(at);
  const [unit, size] = step >= 1e7 || Math.abs(until) >= 1e10 ? ["s", 1e9] : step >= 1e4 || Math.abs(until) >= 1e7 ? ["ms", 1e6] : ["µs", 1e3];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return found.map((at) => [at, `${(at / size).toFixed(digits)} ${unit}`]);
}

const KINDS = { ranges: "NVTX ranges", projected: "ranges on the GPU", cuda_calls: "CUDA calls", os_calls: "OS calls", gpu: "GPU streams", cores: "CPU cores" };

// The wheel zooms at the pointer, dragging moves, a double click shows all again; keys do the same. A click on the name of a row
// pins it to the top; the list of rows hides and orders them.
function timeline(plot) {
  const canvas = make("canvas", { tabindex: "0", role: "img", "aria-label": "Timeline" });
  const tip = make("p", { class: "tip" }, "Wheel or + and − zoom, dragging or arrows move, a double click or 0 shows all. A click on a name pins its row.");
  const row = 20, top = 22;
  const left = Math.min(360, 24 + Math.max(...plot.tracks.map((track) => widthOf(track.title))));
  const view = { from: 0, until: plot.length };
  let rows = plot.tracks.map((track) => ({ track, shown: !track.hidden, pinned: false }));
  const kinds = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, true]));
  const visible = () => {
    const shown = rows.filter((entry) => entry.shown && kinds[entry.track.kind]);
    return [...shown.filter((entry) => entry.pinned), ...shown.filter((entry) => !entry.pinned)];
  };
  // Neighbors in the list are far apart on the wheel of colors.
  const colors = plot.names.map((_, name) => `hsl(${(205 + name * 137.5) % 360} 50% 48%)`);
  const width = () => canvas.clientWidth;
  const x = (at) => left + ((at - view.from) / (view.until - view.from)) * (width() - left);
  const at = (pixel) => view.from + ((pixel - left) / (width() - left)) * (view.until - view.from);
  function draw() {
    const entries = visible();
    const height = top + entries.length * row + 4;
    const scale = window.devicePixelRatio || 1;
    canvas.style.height = height + "px";
    canvas.width = width() * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d");
    const style = getComputedStyle(document.body);
    const [ink, line, panel] = ["--ink", "--line", "--panel"].map((name) => style.getPropertyValue(name));
    pen.scale(scale, scale);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    for (const [moment, label] of ticks(plot.start + view.from, plot.start + view.until, Math.max(2, Math.min(10, (width() - left) / 110)))) {
      const place = x(moment - plot.start), half = pen.measureText(label).width / 2;
      pen.fillStyle = ink;
      pen.textAlign = "center";
      pen.fillText(label, Math.min(Math.max(place, left + half), width() - half), 10);
      pen.fillStyle = line;
      pen.fillRect(place, top, 1, height);
    }
    entries.forEach(({ track, pinned }, number) => {
      const y = top + number * row;
      if (pinned) {
        pen.fillStyle = panel;
        pen.fillRect(0, y, left, row);
      }
      pen.fillStyle = ink;
      pen.textAlign = "left";
      pen.fillText((pinned ? "▲ " : "") + track.title, 4, y + row / 2, left - 10);
      for (const [from, until, name] of track.blocks) {
        if (until < view.from || from > view.until) continue;
        const start = Math.max(left, x(from)), end = Math.min(width(), x(until));
        pen.fillStyle = colors[name];
        pen.fillRect(start, y + 2, Math.max(1, end - start), row - 4);
        if (end - start > 40) {
          pen.save();
          pen.beginPath();
          pen.rect(start, y, end - start - 2, row);
          pen.clip();
          pen.fillStyle = "#fff";
          pen.fillText(plot.names[name], start + 4, y + row / 2);
          pen.restore();
        }
      }
    });
  }
  function show(from, until) {
    const length = Math.min(plot.length, Math.max(100, until - from));
    view.from = Math.min(Math.max(0, from), plot.length - length);
    view.until = view.from + length;
    draw();
  }
  const zoom = (factor, around) => show(around - (around - view.from) * factor, around + (view.until - around) * factor);
  const move = (share) => { const step = (view.until - view.from) * share; show(view.from + step, view.until + step); };
  const middle = () => (view.from + view.until) / 2;
  const entryAt = (event) => visible()[Math.floor((event.offsetY - top) / row)];
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : 0.8, at(Math.max(left, event.offsetX))); }, { passive: false });
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.offsetX < left) {
      const entry = entryAt(event);
      if (entry) { entry.pinned = !entry.pinned; list(); draw(); }
      return;
    }
    held = { pixel: event.offsetX, from: view.from, until: view.until };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      const step = ((held.pixel - event.offsetX) / (width() - left)) * (held.until - held.from);
      show(held.from + step, held.until + step);
      return;
    }
    const entry = entryAt(event), track = entry && entry.track;
    if (event.offsetX < left) {
      tip.textContent = track ? `${track.title}: ${KINDS[track.kind]}; a click ${entry.pinned ? "unpins" : "pins"} the row` : "";
      return;
    }
    const moment = at(event.offsetX), reach = (view.until - view.from) / (width() - left);
    const block = track && track.blocks.find(([from, until]) => from - reach <= moment && until + reach >= moment);
    tip.textContent = block ? `${track.title}: ${plot.names[block[2]]}${block[3] > 1 ? ` and others, ${block[3]} in all` : ""}, ${time(block[1] - block[0])} from ${time(plot.start + block[0])}` : time(plot.start + moment);
  });
  canvas.addEventListener("dblclick", (event) => { if (event.offsetX >= left) show(0, plot.length); });
  canvas.addEventListener("keydown", (event) => {
    const act = { "+": () => zoom(0.5, middle()), "-": () => zoom(2, middle()), "0": () => show(0, plot.length), ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2) }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  const button = (label, act) => { const element = make("button", { type: "button" }, label); element.addEventListener("click", act); return element; };
  const controls = make("div", { class: "controls" }, button("+", () => zoom(0.5, middle())), button("−", () => zoom(2, middle())), button("◀", () => move(-0.2)), button("▶", () => move(0.2)), button("all", () => show(0, plot.length)));
  const box = (label, checked, act) => {
    const input = make("input", { type: "checkbox", ...(checked ? { checked: "" } : {}) });
    input.addEventListener("change", () => act(input.checked));
    return make("label", {}, input, " ", label);
  };
  const present = Object.keys(KINDS).filter((kind) => plot.tracks.some((track) => track.kind === kind));
  const filters = make("div", { class: "controls" }, ...present.map((kind) => box(KINDS[kind], true, (checked) => { kinds[kind] = checked; draw(); })));
  const listed = make("ul", { class: "rows" });
  const shift = (number, step) => {
    const other = number + step;
    if (other < 0 || other >= rows.length) return;
    [rows[number], rows[other]] = [rows[other], rows[number]];
    list();
    draw();
  };
  function list() {
    listed.replaceChildren(...rows.map((entry, number) => make("li", {}, box(entry.track.title, entry.shown, (checked) => { entry.shown = checked; draw(); }),
      button(entry.pinned ? "unpin" : "pin", () => { entry.pinned = !entry.pinned; list(); draw(); }), button("↑", () => shift(number, -1)), button("↓", () => shift(number, 1)))));
  }
  const setAll = (shown) => { for (const entry of rows) entry.shown = shown; list(); draw(); };
  const picker = make("details", {}, make("summary", {}, `Rows: hide, pin, order (${rows.length})`), make("div", { class: "controls" }, button("show all", () => setAll(true)), button("hide all", () => setAll(false))), listed);
  list();
  new ResizeObserver(draw).observe(canvas);
  return make("div", {}, make("h3", {}, "Timeline"), controls, filters, canvas, tip, picker);
}

page.append(make("h1", {}, "jetwatch report"));
for (const warning of data.warnings) page.append(make("p", { class: "finding" }, warning));
// Which report is the fastest stands before the details.
const isFirst = (shown) => ["slowest", "throughput"].includes(shown.name);
for (const shown of data.compared.filter(isFirst)) page.append(table(shown));
if (data.reports.length > 1) {
  page.append(bars(data.reports), heatMap(data.reports));
}
for (const shown of data.compared) if (!isFirst(shown)) page.append(table(shown));
for (const report of data.reports) {
  page.append(make("h2", {}, report.title), make("p", { class: "version" }, report.version));
  for (const finding of report.verdict || []) page.append(make("p", { class: "finding" }, finding));
  if (report.verdict && !report.verdict.length) page.append(make("p", { class: "finding" }, "No rule has anything to say: nothing stands out."));
  if (data.reports.length === 1) page.append(bars([report]));
  if (report.series) page.append(...series(report.series));
  if (report.not_measured.length) {
    const names = report.not_measured.map((text) => text.split(":")[0]).join(", ");
    const remedies = report.not_measured.map((text) => make("p", { class: "hint" }, text));
    page.append(make("details", {}, make("summary", { class: "hint" }, `not measured: ${names}`), ...remedies));
  }
  if (report.plot) {
    page.append(...utilization(report.plot));
    if (report.plot.tracks.length) page.append(timeline(report.plot));
  }
  for (const shown of report.tables) if (shown.name !== "verdict") page.append(table(shown));
}
