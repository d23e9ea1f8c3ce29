// Zones, lines and directions drawn on the picture, with mouse, finger or keyboard. The daemon checks them; what it accepts is written to the
// configuration and is in effect after the reload.

import { el, keepFocus, notify, svg, text } from "./dom.js";
import { get, now, post, put, withQuery } from "./api.js";
import { paint, readPictures } from "./pictures.js";
import { fieldsOf, preview, trajectoryOf, wordsOf } from "./rules.js";
import { may, on, sourceNames, state } from "./store.js";
import { byName, t, wordOf } from "./text.js";

/** Time of the preview, in ms. */
const PREVIEW_MS = 3600000;

/** A drag begins beyond this, in CSS pixels. */
const TAP_PX = 6;

/** What was drawn on each source and not saved when the session ended: it is there again after the next log-in. */
const drafts = new Map();

export function show(main, wanted) {
  const place = el("div", {});
  const pick = el("select", { onchange: () => { location.hash = `zones/${pick.value}`; } });
  const form = el("form", { class: "filter", hidden: true, onsubmit: (event) => event.preventDefault() }, el("label", {}, t("source"), pick));
  main.replaceChildren(el("h1", {}, t("zones.lines")), form, place);
  let editor = null;
  /** Offers the sources that have come; begins once the wanted one is there. */
  const build = () => {
    // After a lost connection the sources come one after the other.
    if (editor && !state.connected) return undefined;
    const names = sourceNames().sort(byName);
    const isUnknown = wanted && !names.includes(wanted);
    form.hidden = names.length === 0;
    // A change of its rules takes a source out for a moment.
    const options = [...new Set([...(isUnknown ? [wanted] : []), ...(editor ? [editor.source] : []), ...names])];
    if (options.join() !== [...pick.options].map((option) => option.value).join()) {
      pick.replaceChildren(...options.map((name) => el("option", { value: name }, name)));
    }
    const isOnline = (name) => state.sources.get(name).state === "online";
    // Without a name, one that has a picture.
    const chosen = wanted || names.find(isOnline) || (state.connected ? names[0] : null);
    if (chosen) pick.value = editor ? editor.source : chosen;
    if (editor) return editor.refresh();
    if (!chosen || isUnknown) {
      // Others may come still.
      const hint = isUnknown && state.connected ? t("zones.unknown", { source: wanted }) : t("zones.waiting");
      return place.replaceChildren(el("p", { class: "empty" }, names.length === 0 && state.connected ? t("sources.none") : hint));
    }
    editor = new Editor(chosen);
    pick.value = chosen;
    place.replaceChildren(editor.node);
    return editor.load();
  };
  build();
  const ends = [on("source", build), on("connection", () => {
    if (editor && editor.read === null) editor.load();
    build();
  }), on("reload", (message) => editor && editor.onReload(message))];
  const warn = (event) => {
    if (editor && editor.isUnsaved) event.preventDefault();
  };
  window.addEventListener("beforeunload", warn);
  const leave = () => {
    ends.forEach((end) => end());
    window.removeEventListener("beforeunload", warn);
    if (editor) editor.close();
  };
  /** Asked before the page goes to another view. */
  leave.mayLeave = () => !editor || !editor.isUnsaved || window.confirm(t("zones.discard"));
  return leave;
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
    /** The rules as they were read, and whether they are others by now. */
    this.read = null;
    this.isOld = false;
    this.isLoading = false;
    this.rest = null;
    this.schedules = [];
    this.groups = {};
    this.trajectories = null;
    this.canEdit = may("operator") && Boolean(state.info && state.info.can_edit);
    this.abort = new AbortController();
    this.canvas = el("canvas", { width: 640, height: 360, role: "img", "aria-label": t("picture.of", { source }) });
    this.layer = svg("svg", { class: "drawing", viewBox: "0 0 1000 1000", preserveAspectRatio: "none", tabindex: "0", role: "application", "aria-label": t("zones.area"), "aria-describedby": "drawing-help" });
    this.hint = el("p", { class: "hint", hidden: true });
    this.frame = el("div", { class: "frame editor" }, this.canvas, this.hint, this.layer);
    this.keys = el("details", { class: "quiet" }, el("summary", {}, t("zones.keyboard")),
      el("p", {}, t("zones.keys")),
      el("p", {}, t("zones.keysDrawing")));
    this.list = el("ul", { class: "shapes", "aria-label": t("zones.rules") });
    this.labels = el("datalist", { id: "rule-labels" });
    this.ofHour = el("p", { class: "quiet" });
    this.showsTrajectories = el("input", { type: "checkbox", onchange: () => this.draw() });
    this.help = el("p", { class: "quiet", role: "status", id: "drawing-help" });
    this.yaml = el("pre", { tabindex: "0", role: "group", "aria-label": t("zones.yaml") });
    this.problems = el("ul", { class: "log problems" });
    this.result = el("p", { class: "result", role: "status" });
    const button = (label, action, kind = "") => el("button", { type: "button", class: kind, onclick: action }, label);
    this.addZone = button(t("zones.drawZone"), () => this.begin("zone"));
    this.addLine = button(t("zones.drawLine"), () => this.begin("line"));
    this.addDirection = button(t("zones.drawDirection"), () => this.begin("direction"));
    this.finish = button(t("zones.finish"), () => this.end());
    this.cancel = button(t("cancel"), () => this.stop());
    this.writing = null;
    this.save = button(t("zones.save"), () => this.write(), "primary");
    this.revert = button(t("zones.revert"), () => {
      this.drawing = null;
      this.load();
    });
    const copy = button(t("zones.copy"), () => navigator.clipboard && navigator.clipboard.writeText(this.yaml.textContent).then(() => notify(t("copied")), () => notify(t("copy.refused"), "bad")));
    this.node = el("div", { class: "zones" },
      el("div", {}, this.frame, this.help, el("div", { class: "actions" }, ...(this.canEdit ? [this.addZone, this.addLine, this.addDirection, this.finish, this.cancel] : [])), this.canEdit ? this.keys : null),
      el("div", { class: "side" }, el("section", { class: "panel" }, el("h2", {}, t("zones.rules")), this.list, this.labels,
        this.ofHour, el("label", { class: "tick" }, this.showsTrajectories, t("zones.trajectories")),
        ...(this.canEdit ? [el("div", { class: "actions" }, this.save, this.revert)] : [el("p", { class: "quiet" }, whyNot())]),
        el("div", { role: "alert" }, this.problems), this.result),
      // The daemon writes it for those who may change it.
      may("operator") && el("section", { class: "panel" }, el("h2", {}, t("zones.yaml")), this.yaml, el("div", { class: "actions" }, copy))));
    this.listen();
    this.draw();
    readPictures([source], (_, jpeg) => this.paint(jpeg), this.abort.signal);
    this.refresh();
    this.showLast();
    this.readHour();
  }

  /** Whether anything would be lost: also a shape that is being drawn. */
  get isUnsaved() {
    return this.changed || Boolean(this.drawing && this.drawing.points.length > 0);
  }

  /** The objects of the last hour, for the preview, and the labels that are offered. */
  async readHour() {
    try {
      const from = new Date(now() - PREVIEW_MS).toISOString();
      const [{ objects, open, next, is_ready: isReady }, { labels }] = await Promise.all([get(withQuery("objects", { source: this.source, from, limit: 200 })), get("objects/facets")]);
      this.labels.replaceChildren(...labels.map((label) => el("option", { value: label })));
      this.trajectories = [...objects, ...open].map(trajectoryOf).filter(({ points }) => points.length > 0);
      text(this.ofHour, isReady ? t(next ? "zones.previewLast" : "zones.previewHour", { count: this.trajectories.length }) : "");
      this.draw();
    } catch {
      // Drawn without a preview.
    }
  }

  /** The state of the source, where it gives no picture. */
  refresh() {
    const source = state.sources.get(this.source);
    const isLive = this.frame.dataset.live === "true";
    this.hint.hidden = isLive || this.frame.dataset.last === "true";
    text(this.hint, source && source.state !== "online" ? t("zones.noPicture", { state: wordOf("state", source.state) }) : t("zones.noPictureYet"));
    this.frame.classList.toggle("blank", !this.hint.hidden);
  }

  /** The last kept picture, until the source gives one. */
  async showLast() {
    try {
      const { objects } = await get(withQuery("objects", { source: this.source, limit: 20 }));
      const kept = objects.find((object) => object.snapshot);
      if (!kept || this.frame.dataset.live) return;
      const answer = await fetch(`api/media/${kept.snapshot.id}/snapshot.jpg`, { signal: this.abort.signal });
      if (!answer.ok || this.frame.dataset.live) return;
      await paint(this.canvas, await answer.arrayBuffer());
      this.frame.dataset.last = "true";
      this.refresh();
    } catch {
      // Drawn without a picture.
    }
  }

  close() {
    if (this.isUnsaved && !state.session) {
      const { shapes, rest, drawing, changed, read } = this;
      drafts.set(this.source, { shapes, rest, drawing, changed, read });
    }
    this.abort.abort();
    clearTimeout(this.timer);
  }

  readRules() {
    return get(`sources/${this.source}/rules`);
  }

  /** The configuration was read again, as after a change by someone else: what is not saved here stays, with a word about that. */
  async look() {
    const rules = await this.readRules().catch(() => null);
    // Before the first answer there is nothing to compare.
    if (!rules || this.read === null || rulesOf(rules) === this.read) return;
    if (!this.isUnsaved && !this.list.contains(document.activeElement)) {
      this.take(rules);
      return;
    }
    this.isOld = true;
    text(this.result, t("zones.old"));
  }

  async load() {
    // A second answer would replace what was drawn since the first.
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      this.take(await this.readRules());
    } catch (error) {
      notify(error.message, "bad");
      return;
    } finally {
      this.isLoading = false;
    }
    const draft = this.canEdit && drafts.get(this.source);
    drafts.delete(this.source);
    if (!draft) return;
    const { read } = this;
    Object.assign(this, draft, { read, isOld: read !== draft.read });
    if (this.changed) this.touch();
    else this.draw();
  }

  /** Shows rules as they were read. */
  take(rules) {
    if (this.isOld) text(this.result, "");
    [this.read, this.isOld] = [rulesOf(rules), false];
    const read = (kind) => (rule) => ({ kind, name: rule.name, points: rule.coordinates.map(([x, y]) => [x, y]), rule, keys: {} });
    this.rest = rules.stationary ? { kind: "stationary", rule: rules.stationary, keys: {} } : null;
    this.schedules = rules.schedules || [];
    this.groups = rules.groups || {};
    this.shapes = [...rules.zones.map(read("zone")), ...rules.lines.map(read("line")), ...(rules.directions || []).map(read("direction"))];
    this.selected = null;
    this.changed = false;
    this.problems.replaceChildren();
    this.draw();
    this.check();
  }

  async paint(jpeg) {
    await paint(this.canvas, jpeg);
    this.frame.dataset.live = "true";
    this.refresh();
  }

  begin(kind) {
    const used = new Set(this.shapes.map((shape) => shape.name));
    let number = 1;
    while (used.has(`${kind}-${number}`)) number += 1;
    this.drawing = { kind, name: `${kind}-${number}`, points: [], keys: {} };
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
      notify(t(`zones.needs.${drawing.kind}`, { count: least }), "bad");
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
    text(this.result, this.isOld ? t("zones.old") : "");
    this.result.dataset.state = "";
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
    if (this.drawing.kind !== "zone" && this.drawing.points.length === 2) this.end();
    else this.draw();
  }

  draw() {
    const parts = [];
    const at = ([x, y]) => `${x * 1000},${y * 1000}`;
    this.foresee();
    if (this.showsTrajectories.checked) {
      for (const trajectory of this.trajectories || []) parts.push(svg("polyline", { points: trajectory.points.map(at).join(" "), class: `trajectory${this.hits.has(trajectory) ? " hit" : ""}` }));
    }
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
    for (const { points } of this.shapes.filter(({ kind }) => kind === "direction")) parts.push(...arrow(points, "arrow direction"));
    // To which side objects cross a line: an arrow to its right.
    for (const shape of this.shapes.filter(({ kind }) => kind === "line")) {
      const [[x1, y1], [x2, y2]] = shape.points;
      const [middle, along] = [[(x1 + x2) / 2, (y1 + y2) / 2], this.aspect()];
      const length = Math.hypot((x2 - x1) * along, y2 - y1) || 1;
      const side = [(-(y2 - y1) / length / along) * 0.07, (((x2 - x1) * along) / length) * 0.07];
      parts.push(...arrow([middle, [middle[0] + side[0], middle[1] + side[1]]], "arrow side"));
    }
    this.layer.replaceChildren(...parts);
    this.layer.classList.toggle("draws", Boolean(this.drawing));
    this.drawList();
    for (const [button, isShown] of [[this.addZone, !this.drawing], [this.addLine, !this.drawing], [this.addDirection, !this.drawing], [this.finish, this.drawing && this.drawing.kind === "zone"], [this.cancel, this.drawing]]) button.hidden = !isShown;
    // What is drawn before the rules are there would replace them.
    for (const button of [this.addZone, this.addLine, this.addDirection]) button.disabled = this.read === null;
    this.save.disabled = !this.changed || Boolean(this.drawing);
    this.revert.disabled = !this.changed;
    if (!this.canEdit) text(this.help, "");
    else if (this.drawing) text(this.help, t(`zones.help.${this.drawing.kind}`));
    else if (this.selected) text(this.help, t("zones.help.selected"));
    else text(this.help, t("zones.help.select"));
  }

  /** What the objects of the last hour would have caused. */
  foresee() {
    this.hits = new Set();
    for (const shape of [...this.shapes, this.rest].filter(Boolean)) {
      const { hits, words } = preview(shape, this.trajectories || [], this.groups, this.aspect());
      if (!this.selected || this.shapes[this.selected.shape] === shape) hits.forEach((trajectory) => this.hits.add(trajectory));
      shape.foreseen = this.trajectories ? t("zones.lastHour", { words }) : "";
      if (shape.shown) text(shape.shown, this.describe(shape));
    }
  }

  describe(shape) {
    return [wordsOf(shape), shape.foreseen].filter(Boolean).join(" · ");
  }

  /** The words of a rule, and its fields where they can be changed. */
  details(shape) {
    shape.shown = el("span", {}, this.describe(shape));
    if (!this.canEdit) return el("p", { class: "quiet details" }, shape.shown);
    const node = el("details", { class: "details quiet", open: Boolean(shape.isOpen), ontoggle: () => { shape.isOpen = node.open; } }, el("summary", {}, shape.shown),
      el("div", { class: "fields" }, ...fieldsOf(shape, this.schedules, () => this.touch())));
    return node;
  }

  /** Width by height of the picture. */
  aspect() {
    return this.canvas.width / Math.max(1, this.canvas.height);
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
    if (this.list.contains(document.activeElement) && ["INPUT", "SELECT"].includes(document.activeElement.tagName)) return;
    const rows = this.shapes.map((shape, index) => {
      const name = el("input", { value: shape.name, maxlength: 64, "aria-label": t(`zones.nameOf.${shape.kind}`), readonly: !this.canEdit, oninput: () => {
        shape.name = name.value;
        this.touch();
      }, onfocus: () => {
        this.selected = { shape: index, point: 0 };
        this.draw();
      } });
      const remove = this.canEdit && el("button", { type: "button", class: "plain", "aria-label": t("zones.removeOf", { name: shape.name }), onclick: () => {
        this.shapes.splice(index, 1);
        this.selected = null;
        this.touch();
      } }, t("zones.remove"));
      return el("li", { class: this.selected && this.selected.shape === index ? "selected" : "" }, el("span", { class: `swatch ${shape.kind}` }), el("span", { class: "kind" }, wordOf("kind", shape.kind)), name, remove,
        this.details(shape));
    });
    if (this.rest) {
      rows.push(el("li", {}, el("span", { class: "kind" }, wordOf("kind", "stationary")), el("span", { class: "name" }, t("zones.rest")), this.canEdit && el("button", { type: "button", class: "plain", "aria-label": t("zones.removeRest"), onclick: () => this.setRest(null) }, t("zones.remove")), this.details(this.rest)));
    } else if (this.canEdit && this.read !== null) {
      rows.push(el("li", {}, el("button", { type: "button", class: "plain", onclick: () => this.setRest({ kind: "stationary", keys: { threshold_s: 10 }, isOpen: true }) }, t("zones.addRest"))));
    }
    keepFocus(this.list, () => this.list.replaceChildren(...(rows.length > 0 || this.read === null ? rows : [el("li", { class: "quiet" }, t("zones.none"))])));
  }

  setRest(rest) {
    this.rest = rest;
    this.touch();
  }

  body() {
    const was = ({ rule, name }) => (rule && rule.name !== name ? { was: rule.name } : {});
    const of = (wanted) => this.shapes.filter(({ kind }) => kind === wanted).map((shape) => ({ ...shape.keys, ...was(shape), name: shape.name, coordinates: shape.points }));
    return { zones: of("zone"), lines: of("line"), directions: of("direction"), stationary: this.rest ? [this.rest.keys] : [] };
  }

  async check() {
    if (!may("operator")) return;
    try {
      this.showOutcome(await post(`sources/${this.source}/rules`, this.body()));
    } catch (error) {
      notify(error.message, "bad");
    }
  }

  write() {
    this.writing = this.send();
  }

  async send() {
    if (this.isOld && !window.confirm(t("zones.old"))) return;
    this.save.disabled = true;
    this.waits = true;
    const body = this.body();
    try {
      const outcome = await put(`sources/${this.source}/rules`, body);
      this.showOutcome(outcome);
      // The file may have had all of it before, as where a change was taken back.
      const isThere = outcome.accepted && !outcome.reason;
      // What was changed meanwhile is not saved.
      if (isThere || outcome.saved) this.changed = JSON.stringify(this.body()) !== JSON.stringify(body);
      if (isThere && !outcome.saved) text(this.result, t("zones.applied"));
      // The result of the reload may come before this answer.
      if (outcome.saved && this.waits) text(this.result, t("zones.saved"));
      this.waits = this.waits && outcome.saved;
    } catch (error) {
      this.waits = false;
      notify(error.message, "bad");
    }
    this.draw();
  }

  showOutcome(outcome) {
    text(this.yaml, outcome.yaml || "# none");
    this.problems.replaceChildren(...outcome.problems.map((problem) => el("li", { class: "error", lang: "en" }, problem)));
    // What came of the last change stays until the next one.
    if (outcome.reason) text(this.result, t("zones.notSaved", { reason: outcome.reason }));
    if (outcome.problems.length > 0) this.save.disabled = true;
  }

  onReload(message) {
    const isApplied = message.state === "applied";
    if (!this.waits) {
      if (isApplied) this.look();
      return;
    }
    this.waits = false;
    text(this.result, isApplied ? t("zones.applied") : t("zones.notApplied", { state: wordOf("reload", message.state), problems: message.problems.map((problem) => problem.text).join("; ") }));
    this.result.dataset.state = message.state;
    if (isApplied) this.takeSaved();
  }

  /** The rules that were saved here are in effect. What was changed since stays. */
  async takeSaved() {
    // The reload may be known before the answer to saving, which says what was changed since.
    await this.writing;
    const rules = await this.readRules().catch(() => null);
    if (!rules) return;
    if (!this.changed) {
      this.take(rules);
      return;
    }
    [this.read, this.isOld] = [rulesOf(rules), false];
    for (const shape of this.shapes) shape.rule = rules[`${shape.kind}s`].find(({ name }) => name === shape.name) || shape.rule;
  }
}

/** What is drawn and set of rules, to be compared. */
const rulesOf = ({ zones, lines, directions, stationary }) => JSON.stringify([zones, lines, directions, stationary]);

/** An arrow, as parts of the drawing. */
function arrow([[x1, y1], [x2, y2]], kind) {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const at = (along, aside) => `${(x1 + dx * along - dy * aside) * 1000},${(y1 + dy * along + dx * aside) * 1000}`;
  // Of a long one, the head stays small.
  const head = Math.min(0.3, 0.035 / (Math.hypot(dx, dy) || 1));
  const tips = [at(1 - head, head * 0.67), at(1, 0), at(1 - head, head * -0.67)];
  return [svg("polyline", { points: `${at(0, 0)} ${at(1, 0)}`, class: kind }), svg("polyline", { points: tips.join(" "), class: kind })];
}

/** Why nothing can be changed, and how to get the right to it. */
function whyNot() {
  if (may("operator")) return t("zones.noFile");
  const role = wordOf("role", state.session ? state.session.role : "viewer");
  return t(state.session && state.session.has_users ? "zones.role" : "zones.noUsers", { role });
}
