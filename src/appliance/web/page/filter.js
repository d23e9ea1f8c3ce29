// The filter of the events, which is also in the address.

import { el } from "./dom.js";
import { setQuery, where } from "./address.js";
import { state } from "./store.js";

/** A filter with its form; calls back when it changes. */
export function makeFilter(onChange) {
  const { query } = where();
  const of = (read) => [...new Set((state.info ? state.info.sources : []).flatMap(read))].sort();
  const choice = (name, all, values) => {
    const wanted = query.get(name) || "";
    // Also what no source has any more.
    const known = wanted && !values.includes(wanted) ? [...values, wanted] : values;
    const node = el("select", { name }, el("option", { value: "" }, all), ...known.map((value) => el("option", { value }, value)));
    node.value = wanted;
    return node;
  };
  const source = choice("source", "All sources", of((found) => found.name));
  const label = choice("label", "All labels", of((found) => found.labels));
  const zone = choice("zone", "All zones and lines", of((found) => found.rules));
  const kind = el("select", { name: "kind" }, el("option", { value: "" }, "Events"), el("option", { value: "continuous" }, "Continuous recording"));
  kind.value = query.get("kind") === "continuous" ? "continuous" : "";
  const time = (name) => el("input", { type: "datetime-local", name, step: 1, value: localTime(query.get(name)) });
  const from = time("from");
  const to = time("to");
  const utc = (input) => {
    const at = input.value ? new Date(input.value) : null;
    return at && !Number.isNaN(at.getTime()) ? at.toISOString() : "";
  };
  const values = () => ({ source: source.value, label: label.value, zone: zone.value, from: utc(from), to: utc(to) });
  const clear = el("button", { type: "button" }, "Clear the filter");
  const changed = () => {
    const isContinuous = kind.value === "continuous";
    // A recording of everything is about no object.
    for (const select of [label, zone]) select.disabled = isContinuous;
    clear.hidden = !kind.value && Object.values(values()).every((value) => !value);
  };
  const fields = [source, label, zone, kind, from, to];
  for (const field of fields) {
    field.addEventListener("change", () => {
      changed();
      setQuery("events", { ...values(), kind: kind.value });
      onChange();
    });
  }
  clear.addEventListener("click", () => {
    for (const field of fields) field.value = "";
    fields[0].dispatchEvent(new Event("change"));
    source.focus();
  });
  const named = (name, field) => el("label", {}, name, field);
  const kinds = state.info && state.info.has_media ? [named("Show", kind)] : [];
  const node = el("form", { class: "filter", "aria-label": "Filter", onsubmit: (event) => event.preventDefault() },
    named("Source", source), named("Label", label), named("Zone or line", zone), named("From", from), named("To", to), ...kinds, el("div", { class: "clear" }, clear));
  changed();
  return {
    node,
    values,
    isContinuous: () => kind.value === "continuous",
    /** Whether an event that happens now is wanted; `rules`: zones and lines of its track. */
    admits: (message, rules) => {
      const wanted = values();
      const at = message.started_at || message.at;
      return kind.value === ""
        && (!wanted.source || message.source === wanted.source)
        && (!wanted.label || message.label === wanted.label)
        && (!wanted.zone || message.name === wanted.zone || rules.includes(wanted.zone))
        && (!wanted.from || Date.parse(at) >= Date.parse(wanted.from))
        && (!wanted.to || Date.parse(at) < Date.parse(wanted.to));
    },
  };
}

/** A time as an input takes it, in the time zone of the browser. */
function localTime(text) {
  const at = new Date(text || "");
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}
