// What the daemon says: the newest message of each topic, and events as they come. The messages are those of MQTT.

export const state = {
  session: null,
  info: null,
  connected: false,
  stats: null,
  previousStats: null,
  detector: null,
  throttling: null,
  reload: null,
  sources: new Map(),
};

const listeners = new Map();

/** Calls back for messages of a kind; returns what ends that. */
export function on(kind, callback) {
  if (!listeners.has(kind)) listeners.set(kind, new Set());
  listeners.get(kind).add(callback);
  return () => listeners.get(kind).delete(callback);
}

function emit(kind, message) {
  for (const callback of listeners.get(kind) || []) callback(message);
}

function sourceOf(name) {
  if (!state.sources.has(name)) {
    state.sources.set(name, { name, state: "connecting", reason: null, since: null, counts: new Map(), zones: new Map(), lines: new Map(), rules: new Map(), detecting: true });
  }
  return state.sources.get(name);
}

function take(message) {
  const source = message.source ? sourceOf(message.source) : null;
  switch (message.kind) {
    case "source":
      Object.assign(source, { state: message.state, reason: message.reason, since: message.since });
      break;
    case "count":
      source.counts.set(message.label, message.count);
      break;
    case "zone":
      source.zones.set(message.zone, message);
      break;
    case "line":
      source.lines.set(message.line, message);
      break;
    case "switch":
      if (message.rule) source.rules.set(message.rule, message.on);
      else source.detecting = message.on;
      break;
    case "stats":
      state.previousStats = state.stats;
      state.stats = message;
      break;
    case "detector":
    case "throttling":
    case "reload":
      state[message.kind] = message;
      break;
    default:
  }
  emit(message.kind, message);
  emit("any", message);
}

let stream = null;

/** Longest silence of a stream: the daemon gives a sign of life each 15 s. A connection that the network has lost may have no other end. */
const SILENCE_MS = 35000;
let silence = null;

/** Calls back once nothing was `heard` for that long, until the `end`. */
function watchSilence(onSilence, limit = SILENCE_MS) {
  let timer = null;
  const end = () => clearTimeout(timer);
  const heard = () => {
    end();
    timer = setTimeout(onSilence, limit);
  };
  heard();
  return { heard, end };
}

/** A signal that ends with another one, or once nothing was `heard` for that long, until the `end`. */
export function endOnSilence(signal, limit) {
  const own = new AbortController();
  const abort = () => own.abort();
  const silence = watchSilence(abort, limit);
  signal.addEventListener("abort", abort);
  const end = () => {
    silence.end();
    signal.removeEventListener("abort", abort);
  };
  return { signal: own.signal, heard: silence.heard, end };
}

/** Begins to read messages; the browser connects again by itself. */
export function connect() {
  disconnect();
  stream = new EventSource("api/live");
  silence = watchSilence(() => {
    connect();
    emit("connection", false);
  });
  for (const kind of ["begin", "message", "alive"]) stream.addEventListener(kind, silence.heard);
  stream.addEventListener("begin", () => {
    state.sources.clear();
    state.stats = state.previousStats = state.detector = state.throttling = state.reload = null;
  });
  stream.addEventListener("complete", () => {
    state.connected = true;
    emit("connection", true);
  });
  stream.addEventListener("message", (event) => take(JSON.parse(event.data)));
  stream.addEventListener("error", () => {
    state.connected = false;
    emit("connection", false);
    if (stream && stream.readyState === EventSource.CLOSED) {
      // Refused, as where the session has ended or all streams are taken.
      disconnect();
      setTimeout(() => emit("refused"), 3000);
    }
  });
}

export function disconnect() {
  if (stream) stream.close();
  stream = null;
  silence?.end();
  state.connected = false;
}

/** Names of the sources of the configuration; others may have events still. */
export function sourceNames() {
  const isTaken = ({ state: now, reason }) => now !== "ended" || reason !== "taken out by a change of the configuration";
  return [...state.sources.values()].filter(isTaken).map(({ name }) => name);
}

/** Roles that may do what another may. */
const ROLES = ["viewer", "operator", "administrator"];

export function may(role) {
  return Boolean(state.session) && ROLES.indexOf(state.session.role) >= ROLES.indexOf(role);
}

/** Frames per second of a source between the last two statistics: received, detected, dropped; `null` until there are two. */
export function rates(name) {
  const find = (stats) => stats && stats.sources.find((source) => source.source === name);
  const [now, before] = [find(state.stats), find(state.previousStats)];
  const seconds = now && before ? (state.stats.uptime_ms - state.previousStats.uptime_ms) / 1000 : 0;
  if (!(seconds > 0)) return null;
  const rate = (key) => Math.max(0, now[key] - before[key]) / seconds;
  const [received, dropped, skipped] = [rate("frames"), rate("dropped_frames"), rate("skipped_frames")];
  return { received, dropped, detected: Math.max(0, received - dropped - skipped), skipped };
}

/** What the browser keeps for the page under this key, or null: it may be set to keep nothing. */
export function recall(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** Lets the browser keep `value`, where it does. */
export function keep(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // It is asked for again.
  }
}

/** Share of dropped frames above which a source is overloaded. */
export const OVERLOAD = 0.1;

/** Share of the frames of a source that were dropped between the last two statistics. */
export function droppedShare(name) {
  const rate = rates(name);
  return rate && rate.received > 0 ? rate.dropped / rate.received : 0;
}
