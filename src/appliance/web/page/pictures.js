// Pictures of the sources, as the camera sees them, each with what was found in it. Those of all sources come in one stream: a browser
// opens few connections to a host.

import { withQuery } from "./api.js";
import { endOnSilence } from "./store.js";

/**
 * Reads the stream and calls back with each: the name, the picture, its times, and its tracks `{id, label, score, is_lost, box}`. Ends
 * when the signal is aborted.
 */
export async function readPictures(sources, onPicture, signal) {
  let wait = 500;
  while (!signal.aborted) {
    const silence = endOnSilence(signal);
    try {
      const answer = await fetch(withQuery("api/pictures", { source: sources, marks: 1 }), { signal: silence.signal, credentials: "same-origin" });
      if (!answer.ok) throw new Error(String(answer.status));
      wait = 500;
      await readStream(answer.body.getReader(), onPicture, silence.heard);
    } catch {
      // Tried again below.
    } finally {
      silence.end();
    }
    if (signal.aborted) return;
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, 10000);
  }
}

async function readStream(reader, onPicture, onHeard) {
  let chunks = [];
  let length = 0;
  const take = (count) => {
    const bytes = new Uint8Array(count);
    let at = 0;
    while (at < count) {
      const chunk = chunks[0];
      const part = chunk.subarray(0, count - at);
      bytes.set(part, at);
      at += part.length;
      if (part.length === chunk.length) chunks.shift();
      else chunks[0] = chunk.subarray(part.length);
    }
    length -= count;
    return bytes;
  };
  let head = null;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onHeard();
    chunks.push(value);
    length += value.length;
    for (;;) {
      if (!head) {
        if (length < 24) break;
        const view = new DataView(take(24).buffer);
        head = { name: view.getUint32(0), jpeg: view.getUint32(4), captured: Number(view.getBigUint64(8)), sent: Number(view.getBigUint64(16)) };
      }
      if (length < head.name + head.jpeg) break;
      const [name, marks] = new TextDecoder().decode(take(head.name)).split("\n");
      const jpeg = take(head.jpeg);
      if (head.jpeg > 0) onPicture(name, jpeg, head, marks ? JSON.parse(marks).tracks : []);
      head = null;
    }
  }
}

/** Draws a picture on a canvas, which takes its size. */
export async function paint(canvas, jpeg) {
  const bitmap = await createImageBitmap(new Blob([jpeg], { type: "image/jpeg" }));
  if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) {
    canvas.width = bitmap.width;
    canvas.height = bitmap.height;
  }
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  bitmap.close();
}
