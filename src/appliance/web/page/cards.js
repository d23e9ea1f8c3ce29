// Cards of objects: the part of the picture that shows the object with its box, and what is known of it.

import { clock, dateAndTime, el, span } from "./dom.js";
import { colorOf } from "./layer.js";
import { asPercent, partsOf, t, wordOf } from "./text.js";

/** Width by height of the part of a picture on a card. */
const ASPECT = 4 / 3;

/** The object is so large in it, at most; a small one is not made larger than this share of the picture. */
const SHARE = 0.55;
const LEAST = 0.14;

/** What an analytics event says, without its object. */
export function happenedText(event) {
  const kind = wordOf("happened", event.type || "event");
  const details = [event.name, event.to && wordOf("side", event.to), event.duration_ms && span(event.duration_ms)].filter(Boolean);
  return details.length > 0 ? t("happened.with", { kind, details: details.join(", ") }) : kind;
}

/** In short what an object is, for headings and for who does not see the card. */
export function titleOf(object) {
  return t("card.title", { label: object.label || t("card.object"), source: object.source, time: dateAndTime(object.started_ms) });
}

/** The part of a picture of this aspect (width by height) that shows `box`: left, top, width and height from 0 to 1. */
export function cropOf(box, aspect) {
  const [left, top, right, bottom] = box;
  // In units of the width, so that both sides have one measure.
  const high = 1 / aspect;
  let width = Math.max((right - left) / SHARE, ((bottom - top) * high * ASPECT) / SHARE, LEAST);
  width = Math.min(width, 1, high * ASPECT);
  const height = width / ASPECT / high;
  const within = (center, size) => Math.min(1 - size, Math.max(0, center - size / 2));
  return [within((left + right) / 2, width), within((top + bottom) / 2, height), width, height];
}

/** The box in the part of the picture, as an element that is placed in percent. */
function boxIn(box, [left, top, width, height], label) {
  const node = el("span", { class: "mark" });
  const percent = (value) => `${(value * 100).toFixed(2)}%`;
  node.style.left = percent((box[0] - left) / width);
  node.style.top = percent((box[1] - top) / height);
  node.style.width = percent((box[2] - box[0]) / width);
  node.style.height = percent((box[3] - box[1]) / height);
  node.style.color = colorOf(label);
  return node;
}

/** In place of a picture. */
const noPicture = ({ label }) => el("span", { class: "none", "data-letter": (label || "?").slice(0, 1).toUpperCase() });

/** Where the picture of an object is, and its box in it; null where there is none. `isCut`: it shows little else. */
export function pictureOf({ id, snapshot, thumbnail }) {
  if (snapshot) return { src: `api/media/${snapshot.id}/snapshot.jpg`, box: snapshot.box };
  return thumbnail ? { src: `api/objects/${id}/picture.jpg`, box: thumbnail, isCut: true } : null;
}

/** Shows the part of a picture of the daemon. */
function madePicture(object, { src, box, isCut }) {
  const image = el("img", { src, alt: "", loading: "lazy", decoding: "async" });
  const node = el("span", { class: "crop" }, image);
  // Such as one that another program has deleted.
  image.addEventListener("error", () => image.replaceWith(noPicture(object)));
  if (!box) return node;
  image.addEventListener("load", () => {
    const part = isCut ? [0, 0, 1, 1] : cropOf(box, image.naturalWidth / image.naturalHeight);
    const [left, top, width, height] = part;
    image.classList.add("part");
    image.style.width = `${100 / width}%`;
    image.style.left = `${(-left / width) * 100}%`;
    image.style.top = `${(-top / height) * 100}%`;
    node.append(boxIn(box, part, object.label));
  }, { once: true });
  return node;
}

/** Draws the part of a picture that shows an object, its middle without a `box`; the canvas is shown on its card from then on. */
export function drawLive(canvas, picture, object, box) {
  const [left, top, width, height] = cropOf(box || [0, 0, 1, 1], picture.width / picture.height);
  canvas.width = 320;
  canvas.height = Math.round(canvas.width / ASPECT);
  const context = canvas.getContext("2d");
  context.drawImage(picture, left * picture.width, top * picture.height, width * picture.width, height * picture.height, 0, 0, canvas.width, canvas.height);
  context.strokeStyle = colorOf(object.label);
  context.lineWidth = 3;
  const x = (value) => ((value - left) / width) * canvas.width;
  const y = (value) => ((value - top) / height) * canvas.height;
  if (box) context.strokeRect(x(box[0]), y(box[1]), x(box[2]) - x(box[0]), y(box[3]) - y(box[1]));
  canvas.dataset.drawn = "true";
}

/**
 * A card. `live`: a canvas with what was seen while it was in view, or in its clip, where there is one; `isNew`: it came since the page was looked at;
 * `onOpen` opens it.
 */
export function makeCard(object, { live, isNew, onOpen }) {
  const isOpen = object.ended_ms === null && object.is_open;
  const about = titleOf(object);
  const made = pictureOf(object);
  const isDrawn = !object.snapshot && live && live.dataset.drawn;
  const picture = made && !isDrawn ? madePicture(object, made) : el("span", { class: "crop" }, isDrawn ? live : noPicture(object));
  const length = object.duration_ms === null || object.duration_ms === undefined ? null : span(object.duration_ms);
  const badge = isOpen ? el("span", { class: `badge${object.is_lost ? "" : " live"}` }, object.is_lost ? t("card.lost") : t("card.view")) : length && el("span", { class: "badge" }, length);
  const chips = object.zones.map((zone) => el("li", {}, zone));
  const events = object.happened.map((event) => el("li", {}, el("span", { class: "quiet" }, `${clock(event.at)} `), happenedText(event)));
  const details = [clock(object.started_ms), isOpen && length ? t("card.for", { span: length }) : null, object.score ? asPercent(object.score) : null, object.clips.length > 0 ? t("card.clip") : null, object.pinned ? t("card.kept") : null, object.reviewed ? t("card.seen") : null];
  const node = el("li", {
    class: `event${isNew ? " is-new" : ""}${object.reviewed ? " is-seen" : ""}${isOpen && object.is_lost ? " is-lost" : ""}`,
    "data-id": object.id, "data-source": object.source, "data-label": object.label || "", "data-rules": object.zones.join(" "), "data-at": object.started_ms, "data-kind": isOpen ? "open" : "object",
  },
  el("div", { class: "shot" }, el("button", { class: "thumb", type: "button", tabindex: -1, "aria-label": t("card.show", { what: about }), onclick: () => onOpen(object) }, picture), badge),
  el("div", { class: "what" },
    el("p", { class: "name" }, isNew ? el("span", { class: "dot", title: t("card.isNew") }, el("span", { class: "hidden" }, `${t("card.new")} `)) : null, ...partsOf("card.name", { label: el("strong", {}, object.label || t("card.object")), source: object.source })),
    el("p", { class: "quiet" }, details.filter(Boolean).join(" · ")),
    chips.length > 0 ? el("ul", { class: "chips", "aria-label": t("zones.lines") }, ...chips) : null,
    events.length > 0 ? el("ol", { class: "happened" }, ...events) : null));
  return node;
}

/**
 * Makes all cards in a container one stop of the Tab key: arrows go from card to card, Home and End to the first and the last. Returns what
 * ends that.
 */
export function rove(container) {
  const all = () => [...container.querySelectorAll(".event .thumb")];
  const choose = (chosen) => all().forEach((button) => { button.tabIndex = button === chosen ? 0 : -1; });
  const keepOne = () => {
    const buttons = all();
    if (buttons.filter((button) => button.tabIndex === 0).length !== 1) choose(buttons.find((button) => button === document.activeElement) || buttons[0]);
  };
  const observer = new MutationObserver(keepOne);
  observer.observe(container, { childList: true, subtree: true });
  container.addEventListener("focusin", (event) => {
    if (event.target.matches(".event .thumb")) choose(event.target);
  });
  container.addEventListener("keydown", (event) => {
    if (!event.target.matches(".event .thumb")) return;
    const buttons = all();
    const at = buttons.indexOf(event.target);
    // Cards in one column, of the rows above and below.
    const row = (step) => {
      const { left, top } = event.target.getBoundingClientRect();
      const others = step > 0 ? buttons.slice(at + 1) : buttons.slice(0, at).reverse();
      return others.find((button) => {
        const area = button.getBoundingClientRect();
        return Math.abs(area.left - left) < 4 && (step > 0 ? area.top > top : area.top < top);
      });
    };
    const next = { ArrowRight: () => buttons[at + 1], ArrowLeft: () => buttons[at - 1], ArrowDown: () => row(1), ArrowUp: () => row(-1), Home: () => buttons[0], End: () => buttons[buttons.length - 1] }[event.key];
    if (!next) return;
    event.preventDefault();
    const chosen = next();
    if (chosen) chosen.focus();
  });
  keepOne();
  return () => observer.disconnect();
}
