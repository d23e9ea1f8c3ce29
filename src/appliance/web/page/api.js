// Requests to the daemon. All paths are relative to the page, so that it works below any path of a proxy.

import { t } from "./text.js";

export class ApiError extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

let onLost = () => {};

/** Two clocks that differ by less are taken for equal: an answer has its way, and its time has whole seconds. */
const CLOCK_MS = 30000;

/** How far the clock of this browser is ahead of the daemon's. */
let ahead = 0;

/** The time of the daemon's clock, which its events have. */
export const now = () => Date.now() - ahead;

/** Called when the session has ended. */
export function whenLoggedOut(callback) {
  onLost = callback;
}

async function request(method, path, body) {
  let answer;
  try {
    answer = await fetch(`api/${path}`, {
      method,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch {
    throw new ApiError(0, t("daemon.unreachable"));
  }
  const difference = Date.now() - Date.parse(answer.headers.get("Date"));
  if (Number.isFinite(difference)) ahead = Math.abs(difference) < CLOCK_MS ? 0 : difference;
  if (answer.status === 204) return null;
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    if (answer.status === 401 && path !== "session" && path !== "login") onLost();
    throw new ApiError(answer.status, found.error || t("daemon.answered", { status: answer.status }), answer.headers.get("Retry-After"));
  }
  return found;
}

export const get = (path) => request("GET", path);
export const post = (path, body = {}) => request("POST", path, body);
export const put = (path, body) => request("PUT", path, body);

/** A path with those parameters that have a value. */
export function withQuery(path, parameters) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    for (const item of [value].flat()) {
      if (item !== "" && item !== null && item !== undefined) query.append(key, item);
    }
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}
