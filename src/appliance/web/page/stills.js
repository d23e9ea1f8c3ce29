// Pictures of objects of which none is kept, as where the daemon was killed before their end: a frame of the clip that shows them. One clip
// at a time, once its card is in view.

import { drawLive } from "./cards.js";
import { beginOf, boxAt } from "./player.js";

/** Most pictures that are kept. */
const MAX_STILLS = 200;

/** A file that is not there by then does not keep others from their turn. */
const LIMIT_MS = 20000;

/** `onStill(object)` is called once the picture of an object is there. */
export function makeStills(onStill) {
  /** By the identity of the object: its picture, or null where there is none. */
  const stills = new Map();
  const waiting = new WeakMap();
  let queue = [];
  let isBusy = false;
  const watcher = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      queue.push(waiting.get(target));
    }
    work();
  });

  const work = async () => {
    if (isBusy) return;
    isBusy = true;
    for (let object = queue.pop(); object; object = queue.pop()) {
      if (stills.has(object.id)) continue;
      stills.set(object.id, await stillOf(object).catch(() => null));
      if (stills.size > MAX_STILLS) stills.delete(stills.keys().next().value);
      if (stills.get(object.id)) onStill(object);
    }
    isBusy = false;
  };

  return {
    /** The picture of an object, where it is there already. */
    get: (id) => stills.get(id) || undefined,
    /** Makes the picture of an object for its card. */
    want: (object, card) => {
      if (object.snapshot || object.thumbnail || object.clips.length === 0 || stills.has(object.id)) return;
      waiting.set(card, object);
      watcher.observe(card);
    },
    end: () => {
      watcher.disconnect();
      queue = [];
    },
  };
}

async function stillOf(object) {
  const { path, clips: [clip] } = object;
  const time = path.length > 0 ? path[Math.floor(path.length / 2)][0] : (clip.from_ms + (clip.to_ms ?? clip.from_ms)) / 2;
  const video = document.createElement("video");
  const next = (kind) => new Promise((done, failed) => {
    video.addEventListener(kind, done, { once: true });
    video.addEventListener("error", failed, { once: true });
    setTimeout(failed, LIMIT_MS);
  });
  video.muted = true;
  try {
    const isOpen = next("loadeddata");
    video.preload = "auto";
    video.src = `api/media/${clip.id}/clip.mp4`;
    await isOpen;
    const isThere = next("seeked");
    // Not the very end, where some browsers have no frame.
    video.currentTime = Math.max(0, Math.min((time - beginOf(clip, video)) / 1000, video.duration - 0.1));
    await isThere;
    const [picture, still] = [document.createElement("canvas"), document.createElement("canvas")];
    [picture.width, picture.height] = [video.videoWidth, video.videoHeight];
    picture.getContext("2d").drawImage(video, 0, 0);
    drawLive(still, picture, object, boxAt(path, time));
    return still;
  } finally {
    video.removeAttribute("src");
    video.load();
  }
}
