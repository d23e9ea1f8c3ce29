// Rows of the list of events, with the pictures and clips that are kept of them.

import { bytes, dateAndTime, el, notify, span, text } from "./dom.js";
import { post } from "./api.js";
import { may } from "./store.js";

/** What a row is found by: the identity of a track, or what an analytics event is about. */
export function keyOf(message) {
  return message.kind === "event" ? message.id : `${message.source}/${message.at}/${message.type}/${message.track_id}/${message.name}`;
}

/** Makes rows; keeps what is known of kept items by the ids of their events. */
export function makeRows() {
  const viewer = makeViewer();
  const items = new Map();

  /** Takes kept items; returns those that are new or have changed. */
  const learn = (found) => {
    const changed = [];
    for (const item of found) {
      for (const id of item.events) {
        const known = items.get(id);
        if (!known || known.clip !== item.clip || known.snapshot !== item.snapshot) {
          items.set(id, item);
          changed.push(item);
        }
      }
    }
    return changed;
  };

  const picture = (item, about) =>
    el("button", { class: "thumb", type: "button", "aria-label": `Show the picture of ${about}`, onclick: () => viewer.open(item) },
      el("img", { src: `api/media/${item.snapshot}/snapshot.jpg`, alt: "", loading: "lazy" }));

  const actions = (item, about) => {
    const node = el("div", { class: "actions" });
    if (item.clip) {
      node.append(
        el("button", { type: "button", "aria-label": `Play the clip of ${about}`, onclick: () => viewer.open(item) }, "Play"),
        el("a", { class: "button", "aria-label": `Download the clip of ${about}`, href: `api/media/${item.clip}/clip.mp4?download=1`, download: "" }, "Download"));
    }
    if (may("operator")) node.append(pinButton(item, about));
    return node;
  };

  /** A row `{key, node, message, rules}` of an event of a track, or of an analytics event; `rules`: its zones and lines. */
  const ofEvent = (message, rules) => {
    const item = items.get(message.id);
    const title = message.kind === "event" ? message.label : describe(message);
    const at = message.started_at || message.at;
    const details = message.kind === "event"
      ? [message.ended_at ? `for ${span(message.duration_ms)}` : "in view", `score ${Math.round(message.after.top_score * 100)} %`, rules.length > 0 && `in ${rules.join(", ")}`]
      : [];
    const about = `${title} at ${message.source}, ${at ? dateAndTime(at) : ""}`;
    const node = el("li", { class: "event", "data-source": message.source, "data-kind": message.kind, "data-label": message.label, "data-rules": rules.join(" "), "data-at": Date.parse(at) },
      item && item.snapshot && message.kind === "event" ? picture(item, about) : el("div", { class: `thumb of-${message.kind}`, "aria-hidden": "true" }, (title || "?").slice(0, 1).toUpperCase()),
      el("div", { class: "what" },
        el("p", {}, el("strong", {}, title), ` at ${message.source}`),
        el("p", { class: "quiet" }, [at && dateAndTime(at), ...details].filter(Boolean).join(" · "))),
      item ? actions(item, about) : null);
    return { key: keyOf(message), node, message, rules };
  };

  /** A row of a kept item of an earlier run. */
  const ofItem = (item) => {
    const title = item.label || "Recording";
    const about = `${title} at ${item.source}, ${dateAndTime(item.started_ms)}`;
    const details = [
      dateAndTime(item.started_ms),
      item.clip && item.ended_ms ? `for ${span(item.ended_ms - item.started_ms)}` : null,
      item.zones.length > 0 ? `in ${item.zones.join(", ")}` : null,
      bytes(item.bytes),
    ];
    const node = el("li", { class: "event", "data-source": item.source, "data-kind": "kept", "data-label": item.label, "data-rules": item.zones.join(" "), "data-at": item.started_ms },
      item.snapshot ? picture(item, about) : el("div", { class: "thumb", "aria-hidden": "true" }, title.slice(0, 1).toUpperCase()),
      el("div", { class: "what" },
        el("p", {}, el("strong", {}, title), ` at ${item.source}`),
        el("p", { class: "quiet" }, details.filter(Boolean).join(" · "))),
      actions(item, about));
    return { key: `kept/${item.snapshot || item.clip}`, node };
  };

  return { viewer: viewer.node, learn, ofEvent, ofItem };
}

function pinButton(item, about) {
  const word = () => (item.pinned ? "Kept" : "Keep");
  const pin = el("button", { type: "button", "aria-pressed": String(Boolean(item.pinned)), "aria-label": `${word()} ${about}` }, word());
  pin.addEventListener("click", async () => {
    try {
      const pinned = !item.pinned;
      for (const id of [item.clip, item.snapshot].filter(Boolean)) {
        const answer = await post(`media/${id}/pin`, { pinned });
        if (answer.error) throw new Error(answer.error);
      }
      item.pinned = pinned;
      pin.setAttribute("aria-pressed", String(pinned));
      pin.setAttribute("aria-label", `${word()} ${about}`);
      text(pin, word());
    } catch (error) {
      notify(error.message, "bad");
    }
  });
  return pin;
}

/** The dialog with a picture or clip. */
function makeViewer() {
  const node = el("dialog", { class: "viewer", "aria-label": "Recording" });
  node.addEventListener("close", () => node.replaceChildren());
  const open = (item) => {
    const title = `${item.label || "Recording"} at ${item.source}, ${dateAndTime(item.started_ms)}`;
    const close = el("button", { type: "button", onclick: () => node.close() }, "Close");
    const content = item.clip
      ? el("video", { src: `api/media/${item.clip}/clip.mp4`, controls: true, autoplay: true, playsinline: true, "aria-label": title })
      : el("img", { src: `api/media/${item.snapshot}/snapshot.jpg`, alt: title });
    if (item.clip) {
      // No track of text belongs to it, and cameras' sound is not played by itself.
      content.muted = true;
      content.addEventListener("error", () => notify("This browser cannot play the clip; download it instead.", "bad"));
    }
    node.replaceChildren(el("div", { class: "line" }, el("h2", {}, title), close), content);
    node.showModal();
    close.focus();
  };
  return { node, open };
}

/** An analytics event in words. */
function describe(message) {
  const about = message.label || "Objects";
  const type = (message.type || "event").replaceAll("_", " ");
  return message.name ? `${about}: ${type}, ${message.name}` : `${about}: ${type}`;
}
