// The camera's own stream, as fragmented MP4 through Media Source. It catches up where it falls behind, and begins again where it ends.

import { el, notify } from "./dom.js";
import { endOnSilence } from "./store.js";
import { t } from "./text.js";

/** Behind by more than this, it plays faster; by more than the other, it jumps. */
const FASTER_S = 1.5;
const JUMP_S = 5;

/** A stream without a byte for this long is begun again. */
const SILENCE_MS = 15000;

/** Played parts beyond this are removed. */
const KEEP_S = 20;

/** Plays the stream of a source in `frame`; returns what ends it. */
export function playStream(source, frame, onEnd) {
  const Media = window.ManagedMediaSource || window.MediaSource;
  const video = el("video", { muted: true, playsinline: true, "aria-label": t("stream.of", { source }) });
  video.muted = true;
  video.disableRemotePlayback = true;
  frame.append(video);
  const abort = new AbortController();
  let ended = false;
  const stop = () => {
    if (ended) return;
    ended = true;
    abort.abort();
    video.remove();
    onEnd();
  };
  if (!Media) {
    notify(t("stream.cannot"), "bad");
    stop();
    return stop;
  }
  run(Media, source, video, abort.signal).catch((error) => {
    if (!ended) notify(error.message, "bad");
    stop();
  });
  return stop;
}

async function run(Media, source, video, signal) {
  let wait = 500;
  while (!signal.aborted) {
    const began = performance.now();
    try {
      await playOnce(Media, source, video, signal);
    } catch (error) {
      if (signal.aborted) return;
      // Of what has played, there may be more once the camera is back.
      if (error.isFinal && video.currentTime === 0) throw error;
    }
    wait = performance.now() - began > 10000 ? 500 : Math.min(wait * 2, 10000);
    await new Promise((done) => setTimeout(done, wait));
  }
}

function final(message) {
  return Object.assign(new Error(message), { isFinal: true });
}

async function playOnce(Media, source, video, signal) {
  const silence = endOnSilence(signal, SILENCE_MS);
  try {
    await playAnswer(Media, source, video, silence);
  } finally {
    silence.end();
  }
}

async function playAnswer(Media, source, video, { signal, heard }) {
  const answer = await fetch(`api/sources/${source}/stream.mp4`, { signal, credentials: "same-origin" });
  if (answer.status === 404) throw final(t("stream.none"));
  if (!answer.ok) throw new Error(String(answer.status));
  const type = `video/mp4; codecs="${answer.headers.get("X-Codecs")}"`;
  if (!Media.isTypeSupported(type)) throw final(t("stream.type", { type }));
  const media = new Media();
  const address = URL.createObjectURL(media);
  video.src = address;
  await new Promise((done) => media.addEventListener("sourceopen", done, { once: true }));
  const buffer = media.addSourceBuffer(type);
  const reader = answer.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      buffer.appendBuffer(value);
      await updated(buffer);
      keepUp(video, buffer);
      const first = buffer.buffered.length ? buffer.buffered.start(0) : 0;
      if (!buffer.updating && video.currentTime - first > 2 * KEEP_S) {
        buffer.remove(first, video.currentTime - KEEP_S);
        await updated(buffer);
      }
      // Not awaited: it begins once enough has been appended.
      if (video.paused) video.play().catch(() => {});
    }
  } finally {
    reader.cancel().catch(() => {});
    URL.revokeObjectURL(address);
  }
}

function updated(buffer) {
  return new Promise((done, failed) => {
    buffer.addEventListener("updateend", done, { once: true });
    buffer.addEventListener("error", () => failed(new Error("decode")), { once: true });
  });
}

function keepUp(video, buffer) {
  const { buffered } = buffer;
  if (buffered.length === 0) return;
  const end = buffered.end(buffered.length - 1);
  const behind = end - video.currentTime;
  if (video.currentTime < buffered.start(buffered.length - 1) || behind > JUMP_S) video.currentTime = Math.max(end - 0.3, buffered.start(buffered.length - 1));
  video.playbackRate = behind > FASTER_S ? 1.15 : 1;
}
