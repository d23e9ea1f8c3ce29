// Zones and lines drawn on the picture, with mouse, finger or keyboard. The daemon checks them; what it accepts is written to the
// configuration and is in effect after the reload.

import { el, notify, svg, text } from "./dom.js";
import { get, post, put, withQuery } from "./api.js";
import { paint, readPictures } from "./pictures.js";
import { may, on, state } from "./store.js";

/** A drag begins beyond this, in CSS pixels. */
const TAP_PX = 6;

export function show(main, wanted) {
  const names = [...state.sources.keys()].sort();
  if (names.length === 0) {
    main.replaceChildren(el("h1", {}, "Zones and lines"), el("p", { class: "empty" }, "No source is running yet."));
    return on("source", () => {
      if (location.hash.startsWith("#zones")) window.dispatchEvent(new HashChangeEvent("hashchange"));
    });
  }
  const chosen = names.includes(wanted) ? wanted : names[0];
  const pick = el("select", { onchange: () => { location.hash = `zones/${pick.value}`; } }, ...names.map((name) => el("option", { value: name }, name)));
  pick.value = chosen;
  const editor = new Editor(chosen);
  main.replaceChildren(
    el("h1", {}, "Zones and lines"),
    el("form", { class: "filter", onsubmit: (event) => event.preventDefault() }, el("label", {}, "Source", pick)),
    editor.node,
  );
  editor.load();
  const end = on("reload", (message) => editor.onReload(message));
  return () => {
    end();
    editor.close();
  };
}

/** A point after a step to a side; within the picture. */
function moved(point, move, isFar) {
  const step = isFar ? 0.05 : 0.005;
  return point.map((value, axis) => Math.round(Math.min(1, Math.max(0, value + move[axis] * step)) * 10000) / 10000);
}

class Editor {
  constructor(source) {
    this.source = source;
    this.shapes = [];
    this.selected = null;
    this.drawing = null;
    this.changed = false;
    this.waits = false;
    this.canEdit = may("operator") && Boolean(state.info && state.info.can_edit);
    this.abort = new AbortController();
    this.canvas = el("canvas", { width: 640, height: 360, role: "img", "aria-label": `Picture of ${source}` });
    this.layer = svg("svg", { class: "drawing", viewBox: "0 0 1000 1000", preserveAspectRatio: "none", tabindex: "0", role: "application", "aria-label": "Drawing area", "aria-describedby": "drawing-help" });
    this.frame = el("div", { class: "frame editor" }, this.canvas, this.layer);
    this.list = el("ul", { class: "shapes", "aria-label": "Zones and lines" });
    this.help = el("p", { class: "quiet", role: "status", id: "drawing-help" });
    this.yaml = el("pre", { tabindex: "0", role: "group", "aria-label": "As YAML" });
    this.problems = el("ul", { class: "log problems", role: "alert" });
    this.result = el("p", { class: "result", role: "status" });
    const button = (label, action, kind = "") => el("button", { type: "button", class: kind, onclick: action }, label);
    this.addZone = button("Draw a zone", () => this.begin("zone"));
    this.addLine = button("Draw a line", () => this.begin("line"));
    this.finish = button("Finish", () => this.end());
    this.cancel = button("Cancel", () => this.stop());
    this.save = button("Save and reload", () => this.write(), "primary");
    this.revert = button("Discard changes", () => this.load());
    const copy = button("Copy YAML", () => navigator.clipboard && navigator.clipboard.writeText(this.yaml.textContent).then(() => notify("Copied."), () => notify("The browser does not allow it.", "bad")));
    this.node = el("div", { class: "zones" },
      el("div", {}, this.frame, this.help, el("div", { class: "actions" }, ...(this.canEdit ? [this.addZone, this.addLine, this.finish, this.cancel] : []))),
      el("div", { class: "side" }, el("section", { class: "panel" }, el("h2", {}, "Rules"), this.list,
        ...(this.canEdit ? [el("div", { class: "actions" }, this.save, this.revert)] : [el("p", { class: "quiet" }, "Your role may look at them, not change them.")]),
        this.problems, this.result),
      el("section", { class: "panel" }, el("h2", {}, "As YAML"), this.yaml, el("div", { class: "actions" }, copy))));
    this.listen();
    readPictures([source], (_, jpeg) => this.paint(jpeg), this.abort.signal);
  }

  close() {
    this.abort.abort();
    clearTimeout(this.timer);
  }

  async load() {
    try {
      const rules = await get(`sources/${this.source}/rules`);
      const read = (kind) => (rule) => ({ kind, name: rule.name, points: rule.coordinates.map(([x, y]) => [x, y]) });
      this.shapes = [...rules.zones.map(read("zone")), ...rules.lines.map(read("line"))];
      this.selected = null;
      this.drawing = null;
      this.changed = false;
      this.problems.replaceChildren();
      this.draw();
      this.check();
    } catch (error) {
      notify(error.message, "bad");
    }
  }

  async paint(jpeg) {
    const bitmap = await createImageBitmap(new Blob([jpeg], { type: "image/jpeg" }));
    if (this.canvas.width !== bitmap.width || this.canvas.height !== bitmap.height) {
      this.canvas.width = bitmap.width;
      this.canvas.height = bitmap.height;
    }
    this.canvas.getContext("2d").drawImage(bitmap, 0, 0);
    bitmap.close();
    this.frame.dataset.live = "true";
  }

  begin(kind) {
    const used = new Set(this.shapes.map((shape) => shape.name));
    let number = 1;
    while (used.has(`${kind}-${number}`)) number += 1;
    this.drawing = { kind, name: `${kind}-${number}`, points: [] };
    this.cursor = null;
    this.selected = null;
    this.draw();
    this.layer.focus();
  }

  end() {
    const { drawing } = this;
    if (!drawing) return;
    const least = drawing.kind === "zone" ? 3 : 2;
    if (drawing.points.length < least) {
      notify(`A ${drawing.kind} needs ${least} points.`, "bad");
      return;
    }
    this.shapes.push(drawing);
    this.drawing = null;
    this.selected = { shape: this.shapes.length - 1, point: 0 };
    this.touch();
  }

  stop() {
    this.drawing = null;
    this.draw();
  }

  /** Something was changed. */
  touch() {
    this.changed = true;
    this.draw();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(), 300);
  }

  position(event) {
    const area = this.layer.getBoundingClientRect();
    const share = (value, from, size) => Math.round(Math.min(1, Math.max(0, (value - from) / size)) * 10000) / 10000;
    return [share(event.clientX, area.left, area.width), share(event.clientY, area.top, area.height)];
  }

  listen() {
    if (!this.canEdit) return;
    let drag = null;
    this.layer.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      this.layer.focus();
      const { shape, point } = event.target.dataset;
      drag = { x: event.clientX, y: event.clientY, moved: false, target: shape === undefined ? null : { shape: Number(shape), point: Number(point || 0), isCorner: point !== undefined } };
      if (drag.target) {
        this.selected = { shape: drag.target.shape, point: drag.target.point };
        drag.before = this.shapes[drag.target.shape].points.map((at) => [...at]);
        drag.from = this.position(event);
      }
      this.layer.setPointerCapture(event.pointerId);
      this.draw();
    });
    this.layer.addEventListener("pointermove", (event) => {
      if (!drag) return;
      if (Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > TAP_PX) drag.moved = true;
      if (!drag.moved || !drag.target || this.drawing) return;
      const shape = this.shapes[drag.target.shape];
      const at = this.position(event);
      if (drag.target.isCorner) {
        shape.points[drag.target.point] = at;
      } else {
        const clamp = (value) => Math.min(1, Math.max(0, value));
        shape.points = drag.before.map(([x, y]) => [clamp(x + at[0] - drag.from[0]), clamp(y + at[1] - drag.from[1])]);
      }
      this.touch();
    });
    const release = (event) => {
      if (!drag) return;
      const wasTap = !drag.moved;
      drag = null;
      if (event.type !== "pointerup" || !wasTap || !this.drawing) return;
      const at = this.position(event);
      const [first] = this.drawing.points;
      const area = this.layer.getBoundingClientRect();
      const isClosed = first && this.drawing.points.length > 2 && Math.hypot((at[0] - first[0]) * area.width, (at[1] - first[1]) * area.height) < 14;
      if (isClosed) {
        this.end();
        return;
      }
      this.place(at);
    };
    this.layer.addEventListener("pointerup", release);
    this.layer.addEventListener("pointercancel", release);
    this.layer.addEventListener("keydown", (event) => this.onKey(event));
  }

  onKey(event) {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (this.drawing) return this.onDrawingKey(event, move);
    if (event.key === "s" && this.shapes.length > 0) {
      const shape = this.selected ? (this.selected.shape + 1) % this.shapes.length : 0;
      this.selected = { shape, point: 0 };
      this.draw();
      return undefined;
    }
    const shape = this.selected && this.shapes[this.selected.shape];
    if (!shape) return undefined;
    if (move) {
      event.preventDefault();
      shape.points[this.selected.point] = moved(shape.points[this.selected.point], move, event.shiftKey);
      this.touch();
    } else if (event.key === "Delete" || event.key === "Backspace") {
      event.preventDefault();
      if (shape.kind === "zone" && shape.points.length > 3) {
        shape.points.splice(this.selected.point, 1);
        this.selected.point = 0;
        this.touch();
      }
    } else if (event.key === "n") {
      this.selected.point = (this.selected.point + 1) % shape.points.length;
      this.draw();
    }
    return undefined;
  }

  /** Drawing by the keyboard: a cross that is moved, and corners where it is. */
  onDrawingKey(event, move) {
    if (event.key === "Escape") return this.stop();
    if (event.key === "Enter") return this.end();
    if (!move && event.key !== " ") return undefined;
    event.preventDefault();
    this.cursor = this.cursor || [0.5, 0.5];
    if (move) {
      this.cursor = moved(this.cursor, move, event.shiftKey);
      this.draw();
    } else {
      this.place([...this.cursor]);
    }
    return undefined;
  }

  /** A corner of what is being drawn. */
  place(at) {
    this.drawing.points.push(at);
    if (this.drawing.kind === "line" && this.drawing.points.length === 2) this.end();
    else this.draw();
  }

  draw() {
    const parts = [];
    const at = ([x, y]) => `${x * 1000},${y * 1000}`;
    this.shapes.forEach((shape, index) => {
      const isSelected = this.selected && this.selected.shape === index;
      const name = shape.kind === "zone" ? "polygon" : "polyline";
      parts.push(svg(name, { points: shape.points.map(at).join(" "), class: `shape ${shape.kind}${isSelected ? " selected" : ""}`, "data-shape": index }));
      if (isSelected && this.canEdit) {
        shape.points.forEach((point, corner) => parts.push(this.corner(point, index, corner, corner === this.selected.point)));
      }
    });
    if (this.drawing && this.drawing.points.length > 0) {
      parts.push(svg("polyline", { points: this.drawing.points.map(at).join(" "), class: `shape ${this.drawing.kind} drawn` }));
      this.drawing.points.forEach((point) => parts.push(this.corner(point, null, null, false)));
    }
    if (this.drawing && this.cursor) {
      const [x, y] = this.cursor.map((value) => value * 1000);
      const d = `M${x - 30},${y}H${x + 30}M${x},${y - 45}V${y + 45}`;
      parts.push(svg("path", { d, class: "cross under" }), svg("path", { d, class: "cross" }));
    }
    this.layer.replaceChildren(...parts);
    this.layer.classList.toggle("draws", Boolean(this.drawing));
    this.drawList();
    for (const [button, isShown] of [[this.addZone, !this.drawing], [this.addLine, !this.drawing], [this.finish, this.drawing && this.drawing.kind === "zone"], [this.cancel, this.drawing]]) button.hidden = !isShown;
    this.save.disabled = !this.changed || Boolean(this.drawing);
    this.revert.disabled = !this.changed;
    if (!this.canEdit) text(this.help, "");
    else if (this.drawing) text(this.help, this.drawing.kind === "zone" ? "Tap the corners in their order; tap the first one again, or Finish, to close the zone. Keys: arrows move the cross, Space sets a corner, Enter finishes, Escape cancels." : "Tap where the line begins and where it ends. Keys: arrows move the cross, Space sets an end, Escape cancels.");
    else if (this.selected) text(this.help, "Drag a corner or the whole shape. Keys: arrows move the corner, n selects the next one, Delete removes it; s selects the next zone or line.");
    else text(this.help, "Select a zone or line, or draw a new one. Key: s selects the next one.");
  }

  /** Ellipses become circles: the drawing is stretched to the picture. */
  corner([x, y], shape, point, isSelected) {
    const area = this.layer.getBoundingClientRect();
    const radius = isSelected ? 9 : 7;
    const attributes = { cx: x * 1000, cy: y * 1000, rx: (radius * 1000) / Math.max(1, area.width), ry: (radius * 1000) / Math.max(1, area.height), class: `corner${isSelected ? " selected" : ""}` };
    if (shape !== null) Object.assign(attributes, { "data-shape": shape, "data-point": point });
    return svg("ellipse", attributes);
  }

  drawList() {
    if (this.list.contains(document.activeElement) && document.activeElement.tagName === "INPUT") return;
    const rows = this.shapes.map((shape, index) => {
      const name = el("input", { value: shape.name, maxlength: 64, "aria-label": `Name of the ${shape.kind}`, readonly: !this.canEdit, oninput: () => {
        shape.name = name.value;
        this.touch();
      }, onfocus: () => {
        this.selected = { shape: index, point: 0 };
        this.draw();
      } });
      const remove = this.canEdit && el("button", { type: "button", class: "plain", "aria-label": `Remove ${shape.name}`, onclick: () => {
        this.shapes.splice(index, 1);
        this.selected = null;
        this.touch();
      } }, "Remove");
      return el("li", { class: this.selected && this.selected.shape === index ? "selected" : "" }, el("span", { class: `swatch ${shape.kind}` }), el("span", { class: "kind" }, shape.kind), name, remove);
    });
    this.list.replaceChildren(...(rows.length > 0 ? rows : [el("li", { class: "quiet" }, "This source has no zones and lines.")]));
  }

  body() {
    const of = (kind) => this.shapes.filter((shape) => shape.kind === kind).map(({ name, points }) => ({ name, coordinates: points }));
    return { zones: of("zone"), lines: of("line") };
  }

  async check() {
    try {
      this.showOutcome(await post(`sources/${this.source}/rules`, this.body()));
    } catch (error) {
      if (error.status !== 403) notify(error.message, "bad");
    }
  }

  async write() {
    this.save.disabled = true;
    this.waits = true;
    try {
      const outcome = await put(`sources/${this.source}/rules`, this.body());
      this.showOutcome(outcome);
      if (outcome.saved) {
        this.changed = false;
        text(this.result, "Saved. The configuration is being read again.");
      }
    } catch (error) {
      notify(error.message, "bad");
    }
    this.draw();
  }

  showOutcome(outcome) {
    text(this.yaml, outcome.yaml || "# none");
    this.problems.replaceChildren(...outcome.problems.map((problem) => el("li", { class: "error" }, problem)));
    text(this.result, outcome.reason ? `Not saved: ${outcome.reason}.` : "");
    if (outcome.problems.length > 0) this.save.disabled = true;
  }

  onReload(message) {
    if (!this.waits) return;
    this.waits = false;
    const isApplied = message.state === "applied";
    text(this.result, isApplied ? "Saved and in effect." : `The reload was ${message.state}: ${message.problems.map((problem) => problem.text).join("; ")}`);
    this.result.dataset.state = message.state;
    if (isApplied) this.load();
  }
}
