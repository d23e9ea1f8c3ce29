// Elements and texts: nothing here knows the daemon. All texts are set as text, never as HTML.

import { asNumber, asTime, asUnit, fromNow } from "./text.js";

/** An element with attributes and children; texts become text nodes. */
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  set(node, attributes);
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** The same in the namespace of SVG. */
export function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  set(node, attributes);
  node.append(...children.flat());
  return node;
}

function set(node, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "value") node.value = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
}

/** Sets a text only where it changes. */
export function text(node, value) {
  if (node.textContent !== value) node.textContent = value;
}

/**
 * Puts children in the place of those of before. What is as it was stays, and what is selected there; the others are made equal, so that
 * their listeners are not taken over.
 */
export function renew(node, ...children) {
  children.forEach((child, at) => {
    const known = node.childNodes[at];
    if (!known) node.append(child);
    else if (known.isEqualNode(child)) return;
    else if (known.nodeName !== child.nodeName) known.replaceWith(child);
    else if (child.nodeType === Node.TEXT_NODE) known.data = child.data;
    else {
      for (const { name } of [...known.attributes]) if (!child.hasAttribute(name)) known.removeAttribute(name);
      for (const { name, value } of child.attributes) known.setAttribute(name, value);
      renew(known, ...child.childNodes);
    }
  });
  while (node.childNodes.length > children.length) node.lastChild.remove();
}

/** Does `change`, which makes parts of `node` again; the focus goes to the part at the place of the one that had it. */
export function keepFocus(node, change) {
  const parts = () => [...node.querySelectorAll("a[href], button, input, select, summary")];
  const at = parts().indexOf(document.activeElement);
  change();
  if (at < 0 || node.contains(document.activeElement)) return;
  const now = parts();
  if (now.length > 0) now[Math.min(at, now.length - 1)].focus();
}

/** How long ago something was, in words. */
export function age(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  const [value, unit] = s < 90 ? [s, "second"] : s < 5400 ? [s / 60, "minute"] : s < 172800 ? [s / 3600, "hour"] : [s / 86400, "day"];
  return fromNow(-Math.round(value), unit, { style: "short" });
}

export function span(ms) {
  const s = ms / 1000;
  if (s < 90) return asUnit(s, "second", s < 10 ? 1 : 0);
  if (s < 5400) return asUnit(s / 60, "minute");
  return s < 172800 ? asUnit(s / 3600, "hour", 1) : asUnit(s / 86400, "day");
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${asNumber(value, value < 10 && at > 0 ? 1 : 0)} ${units[at]}`;
}

export function clock(at) {
  return asTime(at, { timeStyle: "medium" });
}

export function dateAndTime(at) {
  return asTime(at, { dateStyle: "medium", timeStyle: "medium" });
}

/** A field for a time, in the time zone of the browser; without `ms` it is empty. */
export function timeField(name, ms) {
  const field = el("input", { type: "datetime-local", name, step: 1 });
  setTime(field, ms);
  return field;
}

/** Writes a time into a field. It is kept beside the text: an hour that the change of clocks repeats has one text for two times. */
export function setTime(field, ms) {
  field.value = Number.isFinite(ms) ? new Date(ms - new Date(ms).getTimezoneOffset() * 60000).toISOString().slice(0, 19) : "";
  [field.dataset.at, field.dataset.text] = [ms, field.value];
}

/** The time in a field, in ms; NaN without one. */
export const timeOf = (field) => (field.value && field.value === field.dataset.text ? Number(field.dataset.at) : new Date(field.value).getTime());

/** An error of the daemon as a sentence. */
export const sentence = (message) => `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;

/** A message at the foot of the page, read by screen readers. */
export function notify(message, kind = "info") {
  const area = document.getElementById("notice");
  const note = el("p", { class: `note ${kind}` }, message);
  area.replaceChildren(note);
  setTimeout(() => note.remove(), kind === "bad" ? 12000 : 5000);
}
