// The filter of the events, which is also in the address. It offers what there is, not all that a network knows.

import { el, text, timeField, timeOf } from "./dom.js";
import { get } from "./api.js";
import { setQuery, where } from "./address.js";
import { may, state } from "./store.js";
import { byName, t } from "./text.js";

/** A filter with its form; calls back when it changes. */
export function makeFilter(onChange) {
  const { query } = where();
  const choice = (name, all) => {
    const node = el("select", { name }, el("option", { value: "" }, all));
    const wanted = query.get(name) || "";
    // Also what there is none of any more.
    if (wanted) node.append(el("option", { value: wanted }, wanted));
    node.value = wanted;
    return node;
  };
  const source = choice("source", t("filter.sources"));
  const label = choice("label", t("filter.labels"));
  const zone = choice("zone", t("filter.zones"));
  const kind = el("select", { name: "kind" }, el("option", { value: "" }, t("filter.events")), el("option", { value: "new" }, t("filter.new")), el("option", { value: "continuous" }, t("recording.continuous")));
  kind.value = ["new", "continuous"].includes(query.get("kind")) ? query.get("kind") : "";
  const [from, to] = ["from", "to"].map((name) => timeField(name, Date.parse(query.get(name))));
  const utc = (field) => {
    const at = timeOf(field);
    return Number.isNaN(at) ? "" : new Date(at).toISOString();
  };
  const values = () => ({ source: source.value, label: label.value, zone: zone.value, from: utc(from), to: utc(to) });
  const clear = el("button", { type: "button" }, t("filter.clear"));
  const title = el("summary", {}, t("filter.title"));
  const changed = () => {
    const isContinuous = kind.value === "continuous";
    // A recording of everything is about no object.
    for (const select of [label, zone]) select.disabled = isContinuous;
    const count = [kind.value, ...Object.values(values())].filter(Boolean).length;
    clear.hidden = count === 0;
    text(title, count === 0 ? t("filter.title") : t("filter.set", { count }));
  };
  const fields = [source, label, zone, kind, from, to];
  const keep = () => setQuery("events", { ...values(), kind: kind.value });
  for (const field of fields) {
    field.addEventListener("change", () => {
      changed();
      keep();
      onChange();
    });
  }
  clear.addEventListener("click", () => {
    for (const field of fields) field.value = "";
    fields[0].dispatchEvent(new Event("change"));
    source.focus();
  });
  const named = (name, field) => el("label", {}, name, field);
  const kinds = (state.info && state.info.has_media) || may("operator") ? [named(t("filter.show"), kind)] : [];
  const form = el("form", { class: "filter", "aria-label": t("filter.title"), onsubmit: (event) => event.preventDefault() },
    named(t("source"), source), named(t("filter.label"), label), named(t("filter.zone"), zone), ...kinds, named(t("from"), from), named(t("to"), to), el("div", { class: "clear" }, clear));
  // Closed where it would fill the screen.
  const node = el("details", { class: "filters", open: window.matchMedia("(min-width: 700px)").matches }, title, form);
  changed();

  /** Offers what there is. */
  const fill = (select, found) => {
    const known = [...select.options].map((option) => option.value);
    for (const value of found) {
      if (!known.includes(value)) select.append(el("option", { value }, value));
    }
  };
  const learn = (sources, labels, zones) => {
    fill(source, [...sources].sort(byName));
    fill(label, labels);
    fill(zone, zones);
  };
  return {
    node,
    values,
    keep,
    learn,
    isContinuous: () => kind.value === "continuous",
    isNew: () => kind.value === "new",
    /** Reads what there is to choose from. */
    refresh: async () => {
      try {
        const found = await get("objects/facets");
        learn(found.sources, found.labels, found.zones);
      } catch {
        // What is chosen stays.
      }
    },
    /** Whether an object is wanted. */
    admits: (object) => {
      const wanted = values();
      return (kind.value === "" || (kind.value === "new" && !object.reviewed))
        && (!wanted.source || object.source === wanted.source)
        && (!wanted.label || object.label === wanted.label)
        && (!wanted.zone || object.zones.includes(wanted.zone))
        && (!wanted.from || object.started_ms >= Date.parse(wanted.from))
        && (!wanted.to || object.started_ms < Date.parse(wanted.to));
    },
  };
}
