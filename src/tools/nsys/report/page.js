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

// What the words of a table mean; said below it where it has them.
const TERMS = {
  "Share of Threads": "part of the time of all threads that run the stage",
  "Stay Avg": "mean time of an image in the elements of the stage, its waits included",
  "GPU Time": "from the begin of the first work on the GPU to the end of the last, of each instance",
  "Idle Before": "time in which its threads had nothing to do before it",
  "Critical Path": "part of the chain of work and waits that the last result had to wait for: only what is on it makes the pipeline slower",
  "Waiting on Path": "waits on that chain",
  Style: "PushPop: begun and ended on one thread; StartEnd: ended by a handle, on any thread",
  "Proj Avg": "mean time on the GPU of the work that was started within the range",
  StdDev: "standard deviation",
  Excess: "time of the slow instances beyond the median",
  "CPU Per Frame": "CPU time of the whole program, which other programs hardly change",
  "CPU of Others": "part of the allowed cores that other programs took",
  "95 % From": "lower end of the interval in which the true value is with 95 % confidence",
  Gained: "speed divided by that of the step before",
};

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
  const terms = columns.map((at) => shown.heads[at]).filter((head) => TERMS[head]);
  if (terms.length) more.push(make("p", { class: "hint" }, terms.map((head) => `${head}: ${TERMS[head]}`).join(". ") + "."));
  const grid = make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body);
  return make("details", { open: "" }, make("summary", {}, shown.title), make("div", { class: "scroll" }, grid), ...more);
}

// Width of a text on the page, in pixels.
const ruler = document.createElement("canvas").getContext("2d");
ruler.font = "12px system-ui, sans-serif";
const widthOf = (text) => Math.ceil(ruler.measureText(text).width);
const widest = (texts) => Math.max(0, ...texts.map(widthOf));

// A text in a drawing. One that is wider than `most` is cut; the whole stands in its title.
function label(text, most, attributes) {
  let shown = text;
  while (shown.length > 1 && widthOf(shown) > most) shown = shown.slice(0, shown.endsWith("…") ? -2 : -1) + "…";
  const element = make("text", attributes, shown);
  if (shown !== text) element.append(make("title", {}, text));
  return element;
}

const drawings = [];

// A drawing as wide as the page, made again when that changes, so that its texts keep their size. `draw` gets the drawing and its
// width, and returns its height.
function drawing(name, draw) {
  const frame = make("div", { class: "drawing" });
  let width = 0;
  const fit = () => {
    if (!frame.clientWidth || frame.clientWidth === width) return;
    width = frame.clientWidth;
    const svg = make("svg", { role: "img", "aria-label": name, width });
    svg.setAttribute("height", draw(svg, width));
    frame.replaceChildren(svg);
  };
  drawings.push(fit);
  new ResizeObserver(fit).observe(frame);
  return frame;
}

// Names stand beside their rows, or above them on a narrow page.
const NARROW = 640;

// Bars, several for each name, with a text behind each.
function barChart(name, groups) {
  const longest = Math.max(1e-9, ...groups.flatMap((group) => group.bars.map((bar) => bar.value)));
  return drawing(name, (svg, width) => {
    const isNarrow = width < NARROW, row = 14;
    const left = isNarrow ? 0 : Math.min(width * 0.4, 16 + widest(groups.map((group) => group.name)));
    const right = Math.min(width * 0.6, 12 + widest(groups.flatMap((group) => group.bars.map((bar) => bar.text))));
    let y = 4;
    for (const group of groups) {
      svg.append(label(group.name, isNarrow ? width : left - 8, { x: isNarrow ? 0 : left - 8, y: y + 11, "text-anchor": isNarrow ? "start" : "end" }));
      if (isNarrow) y += row + 2;
      for (const bar of group.bars) {
        const length = Math.max(1, (bar.value / longest) * (width - left - right));
        svg.append(make("rect", { x: left, y, width: length, height: row - 3, class: bar.what }), label(bar.text, right - 8, { x: left + length + 6, y: y + 10, class: "faint" }));
        y += row;
      }
      y += 12;
    }
    return y;
  });
}

// Lines at 0, 50 and 100 % of `top`, each with its share; `y` places a share of 0 to 1.
function shareLines(svg, left, width, y, text) {
  for (const share of [0, 0.5, 1]) {
    svg.append(make("line", { x1: left, x2: width, y1: y(share), y2: y(share), class: "grid" }), make("text", { x: left - 6, y: y(share) + 4, "text-anchor": "end", class: "faint" }, text(share)));
  }
}

// Mean times of the ranges that take most, CPU above GPU, for each report.
function bars(reports) {
  const totals = new Map();
  for (const report of reports) for (const bar of report.bars) totals.set(bar.name, Math.max(totals.get(bar.name) || 0, bar.total));
  const names = [...totals].sort((a, b) => b[1] - a[1]).slice(0, 16).map((entry) => entry[0]);
  if (!names.length) return "";
  const text = (report, what, value) => `${time(value)} ${what.toUpperCase()}${reports.length > 1 ? " " + report.title : ""}`;
  const groups = names.map((name) => ({ name, bars: reports.flatMap((report) => {
    const found = report.bars.find((bar) => bar.name === name);
    const values = found ? [["cpu", found.cpu], ["gpu", found.gpu]].filter((entry) => entry[1] !== null) : [];
    return values.map(([what, value]) => ({ what, value, text: text(report, what, value) }));
  }) }));
  const isUnmeasured = reports.some((report) => report.not_measured.some((text) => text.startsWith("GPU: ")));
  const hasGpu = groups.some((group) => group.bars.some((bar) => bar.what === "gpu"));
  const keys = make("p", { class: "hint" }, "Mean time of an instance, the range with the most time in all first: ", make("span", { class: "key cpu" }, "CPU: from its begin to its end"), hasGpu ? make("span", { class: "key gpu" }, "GPU: from the begin of its first work there to the end of the last") : isUnmeasured ? "; GPU: not measured" : "");
  return make("div", {}, make("h3", {}, "Ranges"), keys, barChart("Mean time of each range", groups));
}

// Frames per second of the points of a series, as bars; and drops against streams, as a line.
function series(plot) {
  const drawn = [];
  if (plot.bars.length) {
    const groups = plot.bars.map((bar) => ({ name: bar.name, bars: [{ what: "cpu", value: bar.value, text: bar.text }] }));
    drawn.push(make("div", {}, make("h3", {}, "Frames per second"), barChart("Frames per second", groups)));
  }
  if (plot.drops.length > 1) {
    const most = Math.max(...plot.drops.map((point) => point.x)), top = Math.max(1, ...plot.drops.map((point) => point.y));
    const curve = drawing("Drops against streams", (svg, width) => {
      const height = 200, left = 56;
      const x = (value) => left + (value / most) * (width - left - 20), y = (value) => 8 + (1 - value / top) * (height - 8);
      shareLines(svg, left, width, (share) => y(share * top), (share) => `${(share * top).toFixed(1)} %`);
      svg.append(make("path", { class: "curve", d: plot.drops.map((point, at) => `${at ? "L" : "M"}${x(point.x)} ${y(point.y)}`).join("") }));
      let free = 0;
      for (const point of plot.drops) {
        const mark = make("rect", { x: x(point.x) - 4, y: y(point.y) - 4, width: 8, height: 8, class: "cpu" });
        mark.append(make("title", {}, `${point.x} streams: ${point.y.toFixed(2)} %`));
        svg.append(mark);
        const half = widthOf(String(point.x)) / 2;
        if (x(point.x) - half < free) continue;
        free = x(point.x) + half + 6;
        svg.append(make("text", { x: x(point.x), y: height + 20, "text-anchor": "middle", class: "faint" }, String(point.x)));
      }
      return height + 28;
    });
    drawn.push(make("div", {}, make("h3", {}, "Frames dropped or late, against the number of streams"), curve));
  }
  return drawn;
}

function utilization(plot) {
  return plot.gpus.map((gpu) => {
    const count = gpu.shares.length;
    const chart = drawing("GPU utilization", (svg, width) => {
      const height = 120, left = 48;
      const y = (share) => 6 + (1 - share) * (height - 6), x = (at) => left + (at / count) * (width - left);
      shareLines(svg, left, width, y, (share) => `${share * 100} %`);
      const steps = gpu.shares.map((share, at) => `L${x(at)} ${y(share)}L${x(at + 1)} ${y(share)}`);
      svg.append(make("path", { class: "area", d: `M${left} ${height}${steps.join("")}L${width} ${height}Z` }));
      for (const part of width < NARROW ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]) {
        const anchor = part === 0 ? "start" : part === 1 ? "end" : "middle";
        svg.append(make("text", { x: left + part * (width - left), y: height + 18, "text-anchor": anchor, class: "faint" }, time(plot.start + part * plot.length)));
      }
      return height + 24;
    });
    const mean = gpu.shares.reduce((sum, share) => sum + share, 0) / Math.max(1, count);
    return make("div", {}, make("h3", {}, `Utilization of ${gpu.title}: ${(mean * 100).toFixed(1)} %`), make("p", { class: "hint" }, "Share of the time in which it did any work, over the time of the report"), chart);
  });
}

// Utilization of every GPU of every report as one map: a row each, over the length of its report.
function heatMap(reports) {
  const rows = reports.flatMap((report) => (report.plot ? report.plot.gpus : []).map((gpu) => {
    const mean = gpu.shares.reduce((sum, value) => sum + value, 0) / Math.max(1, gpu.shares.length);
    return { report, gpu, name: `${report.title}: ${gpu.title}`, text: `${(mean * 100).toFixed(1)} % of ${time(report.plot.length)}` };
  }));
  if (rows.length < 2) return "";
  const map = drawing("GPU utilization of all reports", (svg, width) => {
    const isNarrow = width < NARROW, row = 18, parts = 120;
    const left = isNarrow ? 0 : Math.min(width * 0.4, 16 + widest(rows.map((entry) => entry.name)));
    const right = 12 + widest(rows.map((entry) => entry.text));
    let y = 4;
    for (const { report, gpu, name, text } of rows) {
      svg.append(label(name, isNarrow ? width : left - 8, { x: isNarrow ? 0 : left - 8, y: y + 12, "text-anchor": isNarrow ? "start" : "end" }));
      if (isNarrow) y += row;
      const each = gpu.shares.length / parts, step = (width - left - right) / parts;
      for (let part = 0; part < parts; part += 1) {
        const shares = gpu.shares.slice(Math.floor(part * each), Math.max(Math.floor((part + 1) * each), Math.floor(part * each) + 1));
        const share = shares.reduce((sum, value) => sum + value, 0) / Math.max(1, shares.length);
        const cell = make("rect", { x: left + part * step, y, width: step + 0.3, height: row - 3, class: "heat", "fill-opacity": (0.06 + 0.94 * share).toFixed(3) });
        cell.append(make("title", {}, `${name}: ${(share * 100).toFixed(0)} % at ${time(report.plot.start + (part / parts) * report.plot.length)}`));
        svg.append(cell);
      }
      svg.append(make("text", { x: width - right + 6, y: y + 12, class: "faint" }, text));
      y += row;
    }
    return y + 4;
  });
  return make("div", {}, make("h3", {}, "GPU utilization of all reports, each from its begin to its end: darker is busier"), map);
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

// A finding: what was found, what to do, then why. Sentences of a series have their first line as heading.
const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.:!?]$/.test(text) ? "" : ".");
function finding({ text, advice, evidence, keys }) {
  const named = keys.length ? [make("p", { class: "hint" }, `Keys: ${keys.join(", ")}`)] : [];
  return make("div", { class: "finding" }, make("h3", {}, text.charAt(0).toUpperCase() + text.slice(1)), make("p", {}, sentence(advice)), make("p", {}, `Why: ${evidence}.`), ...named);
}
function plain(text) {
  const lines = text.trim().replace(", because ", "\nWhy: ").split("\n");
  return make("div", { class: "finding" }, make("h3", {}, lines[0]), ...lines.slice(1).map((line) => make("p", {}, line)));
}

page.append(make("h1", {}, "jetwatch report"));
for (const warning of data.warnings) page.append(plain(warning));
// Which report is the fastest stands before the details; of one report, the verdict does.
const isFirst = (shown) => ["slowest", "throughput"].includes(shown.name);
const isSingle = data.reports.length === 1;
if (!isSingle) {
  for (const shown of data.compared.filter(isFirst)) page.append(table(shown));
  page.append(bars(data.reports), heatMap(data.reports));
  for (const shown of data.compared) if (!isFirst(shown)) page.append(table(shown));
}
for (const report of data.reports) {
  page.append(make("h2", {}, report.title), make("p", { class: "version" }, report.version));
  page.append(...(report.findings.length ? report.findings.map(finding) : (report.verdict || []).map(plain)));
  if (report.verdict && !report.verdict.length) page.append(plain("No rule has anything to say: nothing stands out."));
  if (isSingle) page.append(...data.compared.map(table), bars([report]));
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
// The first drawings are made with the page, not a frame later.
for (const draw of drawings) draw();
