// One player for pictures, clips and continuous recording: it begins at the event, draws the box of the object, goes to the event before
// and after, and moves over the day of its source.

import { clock, dateAndTime, el, keepFocus, notify, span, text } from "./dom.js";
import { get, post, withQuery } from "./api.js";
import { drawLayer, makeLayer } from "./layer.js";
import { may, state } from "./store.js";
import { openShare } from "./share.js";
import { happenedText, pictureOf, titleOf } from "./cards.js";
import { asPercent, byName, t } from "./text.js";
import { makeTimeline } from "./timeline.js";

/** Played before an event. */
const LEAD_MS = 1000;

/** A box is drawn for so long before its first and after its last known place. */
const NEAR_MS = 700;

/** A frame of the video is this much off its time. */
const BEGIN_MS = 60;

/** The arrival of a frame is this much off its time where a camera sends as it takes. */
const OFF_MS = 500;

/** What is shown of the timeline at first: a pixel is some seconds. */
const SPAN_MS = 3600000;

/** A swipe is longer than this. */
const SWIPE_PX = 60;

/** The box of an object at a time, between its known places or shortly beyond them as it moved there; null: it is not there. */
export function boxAt(path, ms) {
  if (path.length === 0 || ms < path[0][0] - NEAR_MS || ms > path[path.length - 1][0] + NEAR_MS) return null;
  if (path.length === 1) return path[0].slice(1);
  const found = path.findIndex(([at]) => at >= ms);
  const after = found < 0 ? path.length - 1 : Math.max(1, found);
  const [from, to] = [path[after - 1], path[after]];
  const share = (ms - from[0]) / Math.max(1, to[0] - from[0]);
  const box = from.slice(1).map((value, side) => Math.min(1, Math.max(0, value + (to[side + 1] - value) * share)));
  return box[0] < box[2] && box[1] < box[3] ? box : null;
}

/**
 * The time of the first frame of a loaded video. What a camera has kept comes at once at the begin, so that its arrival says little; the end
 * says when the rest was.
 */
export function beginOf({ from_ms: from, to_ms: to }, { duration }) {
  const begin = to === null || !Number.isFinite(duration) ? from : to - duration * 1000;
  return from - begin > OFF_MS ? begin : from;
}

/** The video that shows a source at a time: `{id, from_ms, to_ms}`; null: there is none. */
async function findVideo(source, ms) {
  const time = (at) => new Date(at).toISOString();
  for (const kind of ["continuous", null]) {
    const found = await get(withQuery("media", { source, kind, from: time(ms), to: time(ms + 1), limit: 20 }));
    const item = found.items.find((one) => one.clip && one.started_ms <= ms + 1 && (one.ended_ms === null || one.ended_ms >= ms));
    if (item) return { id: item.clip, from_ms: item.started_ms, to_ms: item.ended_ms };
  }
  return null;
}

/**
 * The player's dialog. `neighbor(object, step)` is the object after (1) or before (-1) another, or null; `onShow(object)` is called with
 * each that is shown, and with null at the end; `onPinned(object)` after a change.
 */
export function makePlayer({ neighbor, onShow, onPinned }) {
  const node = el("dialog", { class: "viewer", "aria-labelledby": "player-title" });
  const title = el("h2", { id: "player-title" });
  const video = el("video", { controls: true, playsinline: true, hidden: true });
  const picture = el("img", { alt: "", hidden: true });
  const layer = makeLayer();
  const stage = el("div", { class: "stage" }, video, picture, layer);
  const note = el("p", { class: "quiet", role: "status" });
  const facts = el("div", { class: "about" });
  const button = (label, action, attributes = {}) => el("button", { type: "button", onclick: action, ...attributes }, label);
  const older = button(t("player.older"), () => go(-1));
  const newer = button(t("player.newer"), () => go(1));
  const toPicture = button(t("player.picture"), () => showPicture());
  const toVideo = button(t("player.video"), () => playFrom(object.started_ms));
  const boxes = button(t("player.box"), () => {
    hasBox = !hasBox;
    boxes.setAttribute("aria-pressed", String(hasBox));
    draw();
  }, { "aria-pressed": "true" });
  const pin = button(t("player.keep"), () => setPinned());
  const savePicture = el("a", { class: "button", download: "" }, t("player.savePicture"));
  const saveClip = el("a", { class: "button", download: "" }, t("player.saveClip"));
  const link = button(t("player.copy"), async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      notify(t("copied"));
    } catch {
      notify(t("copy.refused"), "bad");
    }
  });
  const share = button(t("player.share"), () => openShare(sharedPath()));
  const close = button(t("player.close"), () => node.close());
  /** What another source has at the same time. */
  const sources = el("select", { "aria-label": t("source"), onchange: () => openMoment(sources.value, wanted ?? now() ?? moment) });
  const timelines = el("div", {});
  node.append(el("div", { class: "line" }, title, close), el("div", { class: "screen" }, stage), note,
    el("div", { class: "actions" }, older, newer, toPicture, toVideo, boxes, pin, savePicture, saveClip, link, share, sources), timelines, facts);
  video.muted = true;
  let hasBox = true;
  /** What is shown: an object, or null for a moment of a source. */
  let object = null;
  let source = null;
  /** The time that was asked for last. */
  let moment = null;
  /** The video that is loaded, the time that it is to go to, and the one that it goes to. */
  let file = null;
  let wanted = null;
  let sought = null;
  /** Of the frame that is shown, in seconds of the video: the clock is up to a frame ahead. Not every browser says it, nor always after a seek. */
  let frame = null;
  let timeline = null;
  let generation = 0;
  let animation = null;

  const now = () => (file ? file.from_ms + video.currentTime * 1000 : null);

  const draw = () => {
    const objects = [];
    if (object && hasBox) {
      const isVideo = !video.hidden;
      // Before its begin it was hidden, or not there.
      const shown = frame !== null && Math.abs(video.currentTime - frame) < 1 ? frame : video.currentTime;
      const at = isVideo && file.from_ms + shown * 1000;
      const box = isVideo ? at >= object.started_ms - BEGIN_MS && boxAt(object.path, at) : pictureOf(object)?.box;
      if (box) objects.push({ box, label: object.label || "", score: object.score, isLost: false });
    }
    drawLayer(layer, { objects });
  };
  const follow = () => {
    draw();
    if (timeline && now() !== null) timeline.point(source, now());
    animation = video.paused || video.hidden ? null : requestAnimationFrame(follow);
  };
  const fit = (width, height) => {
    stage.style.setProperty("--aspect", String(width / Math.max(1, height)));
    requestAnimationFrame(draw);
  };
  picture.addEventListener("load", () => fit(picture.naturalWidth, picture.naturalHeight));
  video.addEventListener("loadedmetadata", () => {
    fit(video.videoWidth, video.videoHeight);
    if (!file) return;
    file = { ...file, from_ms: beginOf(file, video) };
    if (wanted !== null) seek(wanted);
    video.play().catch(() => {});
  });
  for (const kind of ["play", "seeked", "timeupdate"]) {
    video.addEventListener(kind, () => {
      if (animation === null) animation = requestAnimationFrame(follow);
    });
  }
  video.addEventListener("seeked", () => {
    // While the cursor is dragged, the newest place is sought once the one before is shown.
    if (wanted !== null && wanted !== sought) seek(wanted);
    else wanted = null;
  });
  const onFrame = (_, { mediaTime }) => {
    frame = mediaTime;
    draw();
    video.requestVideoFrameCallback(onFrame);
  };
  video.requestVideoFrameCallback?.(onFrame);
  // The next clip of the object, or the next piece, follows.
  video.addEventListener("ended", () => {
    if (!file || file.to_ms === null) return;
    if (!object) {
      play(source, file.to_ms + 500);
      return;
    }
    const next = object.clips[object.clips.findIndex(({ id }) => id === file.id) + 1];
    if (next && next.from_ms > file.from_ms) load(next, Math.max(next.from_ms, file.to_ms));
  });
  /** What cannot be shown is not there any more, or is nothing for this browser. */
  const onFailure = async ({ target }) => {
    const own = generation;
    if (target.hidden || !target.src) return;
    const answer = await fetch(target.src, { method: "HEAD" }).catch(() => null);
    // Without an answer the state of the connection says why.
    if (own !== generation || !answer) return;
    if (answer.status === 404) text(note, t("player.gone"));
    else if (answer.ok && target === video) notify(t("player.cannot"), "bad");
  };
  for (const shown of [video, picture]) shown.addEventListener("error", onFailure);

  const seek = (ms) => {
    wanted = ms;
    if (!file || video.readyState === 0 || video.seeking) return;
    sought = ms;
    frame = null;
    video.currentTime = Math.max(0, (ms - file.from_ms) / 1000);
  };

  const load = (found, ms) => {
    wanted = ms;
    video.hidden = false;
    picture.hidden = true;
    toVideo.setAttribute("aria-pressed", "true");
    toPicture.setAttribute("aria-pressed", "false");
    saveClip.hidden = false;
    saveClip.href = `api/media/${found.id}/clip.mp4?download=1`;
    if (file && file.id === found.id) {
      seek(ms);
      video.play().catch(() => {});
      return;
    }
    file = found;
    frame = null;
    video.src = `api/media/${found.id}/clip.mp4`;
    node.dataset.file = found.id;
  };

  /** Plays what there is of a source at a time, of an object its clip. */
  const play = async (of, ms) => {
    const own = generation;
    const isIn = (one) => one && one.from_ms <= ms && (one.to_ms === null || one.to_ms >= ms);
    const found = isIn(file) && source === of ? file : object?.clips.find(isIn) || await findVideo(of, ms).catch(() => null);
    if (own !== generation) return;
    if (found) {
      text(note, "");
      load(found, ms);
    } else {
      text(note, t("player.none", { source: of, time: clock(ms) }));
    }
  };

  const showPicture = () => {
    video.pause();
    video.hidden = true;
    picture.hidden = false;
    picture.src = pictureOf(object).src;
    picture.alt = titleOf(object);
    toVideo.setAttribute("aria-pressed", "false");
    toPicture.setAttribute("aria-pressed", "true");
    draw();
  };

  /** Plays from a second before a time of the object, where its clips have that. */
  const playFrom = (ms) => {
    const [clip] = object.clips;
    return play(object.source, Math.max(ms - LEAD_MS, clip ? clip.from_ms : 0));
  };

  const showDay = (of, ms) => {
    moment = ms;
    const names = [...new Set([of, ...state.sources.keys()])].sort(byName);
    sources.replaceChildren(...names.map((name) => el("option", { value: name }, name)));
    sources.value = of;
    sources.hidden = names.length < 2;
    timeline = makeTimeline({ only: of, span: SPAN_MS, onMove: (_, at) => scrub(at), onPick: (_, at) => scrub(at) });
    timelines.replaceChildren(timeline.node);
    timeline.show(ms);
    timeline.point(of, ms);
  };

  /** The cursor has moved: the same video, or the one that is there. */
  const scrub = (ms) => {
    object = null;
    moment = ms;
    refreshActions();
    video.pause();
    if (file && ms >= file.from_ms && (file.to_ms === null || ms <= file.to_ms)) {
      seek(ms);
      return;
    }
    clearTimeout(scrub.timer);
    scrub.timer = setTimeout(() => play(source, ms), 120);
  };

  const refreshActions = () => {
    const shown = object;
    text(title, shown ? titleOf(shown) : t("player.recording", { source }));
    older.disabled = !shown || !neighbor(shown, -1);
    newer.disabled = !shown || !neighbor(shown, 1);
    toPicture.hidden = !shown || !pictureOf(shown);
    toVideo.hidden = !shown;
    boxes.hidden = !shown;
    pin.hidden = !shown || !may("operator") || (!shown.snapshot && shown.clips.length === 0);
    savePicture.hidden = !shown || !shown.snapshot;
    link.hidden = !shown;
    share.hidden = !shown || !may("operator") || (!shown.snapshot && shown.clips.length === 0);
    if (!shown) {
      facts.replaceChildren();
      return;
    }
    if (shown.snapshot) savePicture.href = `api/media/${shown.snapshot.id}/snapshot.jpg?download=1`;
    text(pin, shown.pinned ? t("player.kept") : t("player.keep"));
    pin.setAttribute("aria-pressed", String(Boolean(shown.pinned)));
    const rows = [
      [t("player.from"), dateAndTime(shown.started_ms)],
      [t("player.for"), shown.duration_ms === null || shown.duration_ms === undefined ? null : span(shown.duration_ms)],
      [t("player.score"), shown.score ? asPercent(shown.score) : null],
      [t("zones.lines"), shown.zones.join(", ")],
    ].filter(([, value]) => value);
    const events = shown.happened.map((event) => el("li", {}, button(`${clock(event.at)} ${happenedText(event)}`, () => playFrom(Date.parse(event.at)), { class: "plain" })));
    keepFocus(facts, () => facts.replaceChildren(el("dl", { class: "facts" }, ...rows.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
      events.length > 0 ? el("ol", { class: "happened", "aria-label": t("player.happened") }, ...events) : ""));
  };

  /** What is shown: the picture, or the clip of the object. */
  const sharedPath = () => {
    const [clip] = object.clips;
    const isPicture = object.snapshot && (!picture.hidden || !clip);
    return isPicture ? `media/${object.snapshot.id}/snapshot.jpg` : `media/${clip.id}/clip.mp4`;
  };

  const setPinned = async () => {
    const shown = object;
    try {
      const pinned = !shown.pinned;
      for (const id of [...shown.clips.map((clip) => clip.id), shown.snapshot && shown.snapshot.id].filter(Boolean)) {
        const answer = await post(`media/${id}/pin`, { pinned });
        if (answer.error) throw new Error(answer.error);
      }
      shown.pinned = pinned;
      onPinned(shown);
      refreshActions();
    } catch (error) {
      notify(error.message, "bad");
    }
  };

  /** Ends what is shown. */
  const stop = () => {
    generation += 1;
    clearTimeout(scrub.timer);
    file = null;
    wanted = null;
    video.pause();
    video.removeAttribute("src");
    video.load();
    video.hidden = true;
    picture.hidden = true;
    saveClip.hidden = true;
    text(note, "");
  };

  const begin = (of) => {
    stop();
    source = of;
    if (!node.open) {
      node.showModal();
      close.focus();
    }
  };

  const go = (step) => {
    const next = object && neighbor(object, step);
    if (next) open(next);
  };

  /** Opens an object: at its video where there is one, else its picture. */
  const open = (shown) => {
    begin(shown.source);
    object = shown;
    node.dataset.id = shown.id;
    onShow(shown);
    refreshActions();
    showDay(shown.source, shown.started_ms);
    if (pictureOf(shown) && shown.clips.length === 0) showPicture();
    else playFrom(shown.started_ms);
  };

  /** Opens what there is of a source at a time. */
  const openMoment = (of, ms) => {
    begin(of);
    object = null;
    node.dataset.id = "";
    refreshActions();
    showDay(of, ms);
    play(of, ms);
  };

  node.addEventListener("close", () => {
    stop();
    object = null;
    onShow(null);
  });
  node.addEventListener("keydown", (event) => {
    if (event.target.closest("[role=slider], select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const isVideo = event.target === video;
    if (event.key === "ArrowLeft" && !isVideo) go(-1);
    else if (event.key === "ArrowRight" && !isVideo) go(1);
    else if (event.key === "p" && !pin.hidden) setPinned();
    else if (event.key === "b" && object) boxes.click();
    else return;
    event.preventDefault();
  });
  let touch = null;
  stage.addEventListener("pointerdown", (event) => {
    touch = event.pointerType === "touch" ? { x: event.clientX, y: event.clientY } : null;
  });
  stage.addEventListener("pointerup", (event) => {
    if (!touch) return;
    const [across, along] = [event.clientX - touch.x, event.clientY - touch.y];
    touch = null;
    if (Math.abs(across) > SWIPE_PX && Math.abs(across) > 2 * Math.abs(along)) go(across < 0 ? 1 : -1);
  });
  return { node, open, openMoment, refresh: (shown = object) => {
    if (!object || object.id !== shown.id) return;
    object = shown;
    refreshActions();
  } };
}
