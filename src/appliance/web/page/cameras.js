// New cameras, for administrators: found on the network or typed in, looked at, and written into the configuration.

import { el, notify, text } from "./dom.js";
import { get, post, put } from "./api.js";
import { may, on, state } from "./store.js";
import { asNumber, asUnit, t, wordOf } from "./text.js";

/** Time between two looks at what runs. */
const LOOK_MS = 500;

/** What was typed, but for the password, as long as the page is open. */
const typed = {};

const field = (name, label, attributes = {}) => {
  const input = el("input", { name, autocomplete: "off", autocapitalize: "none", spellcheck: "false", ...attributes });
  return [input, el("label", {}, label, input)];
};

const seconds = (value) => (value === null || value === undefined ? "–" : asUnit(value, "second", 1));

/** A part of an address as it is meant: a percent sign that begins no code stands for itself. */
const decoded = (part) => {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
};

/** A name for a source, as the daemon accepts it and no source has it. */
function nameFor(parts) {
  const plain = parts.find((part) => part) || "camera";
  const name = plain.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 48) || "camera";
  let free = name;
  for (let number = 2; state.sources.has(free); number += 1) free = `${name}-${number}`;
  return free;
}

export function show(main) {
  if (!may("administrator")) {
    main.replaceChildren(el("h1", {}, t("tab.cameras")), el("p", { class: "empty" }, t("cameras.only")));
    return () => {};
  }
  const kept = (name, label, attributes = {}) => field(name, label, { ...attributes, value: typed[name] || "" });
  const [address, addressLabel] = kept("address", t("cameras.address"), { placeholder: "192.168.1.20", type: "text" });
  const [user, userLabel] = kept("user", t("cameras.user"));
  const [password, passwordLabel] = field("password", t("login.password"), { type: "password", autocomplete: "new-password" });
  const [certificate, certificateLabel] = kept("ca_file", t("cameras.certificate"));
  const find = el("button", { type: "submit", class: "primary" }, t("cameras.find"));
  const direct = el("button", { type: "button" }, t("cameras.direct"));
  const search = el("form", { class: "filter" }, addressLabel, userLabel, passwordLabel, certificateLabel);
  const progress = el("p", { class: "result", role: "status" });
  const list = el("div", { class: "found" });
  const look = el("section", { class: "panel look", hidden: true });
  let ended = false;
  /** What is tested. */
  let camera = null;

  const login = () => (user.value ? { user: user.value, password: password.value } : {});
  const trusted = () => certificate.value.trim() || null;
  const isTls = (uri) => /^(rtsps|https):/.test(uri);
  const busy = (what) => {
    find.disabled = direct.disabled = Boolean(what);
    for (const button of list.querySelectorAll("button")) button.disabled = Boolean(what);
    text(progress, what === "find" ? t("cameras.finding") : what === "test" ? t("cameras.opening") : "");
  };
  /** Starts what is wanted, and waits for its end. */
  async function run(job, done) {
    // A button that cannot be pressed loses it.
    const held = document.activeElement;
    busy(Object.keys(job)[0]);
    try {
      await post("cameras", job);
      await follow(done);
    } catch (error) {
      busy(null);
      notify(error.message, "bad");
    }
    if (document.activeElement === document.body) held.focus();
  }

  /** Waits for the end of what runs. */
  async function follow(done) {
    let now;
    for (;;) {
      now = await get("cameras");
      if (ended) return;
      if (!now.running) break;
      busy(now.running);
      await new Promise((next) => setTimeout(next, LOOK_MS));
    }
    busy(null);
    done(now);
  }

  const showFound = ({ found }) => {
    const cameras = (found && found.cameras) || [];
    text(progress, found && found.error ? found.error : cameras.length > 0 ? t("cameras.found", { count: cameras.length }) : t("cameras.noneFound"));
    list.replaceChildren(...cameras.map((one) => {
      const title = [one.manufacturer, one.model].filter(Boolean).join(" ") || one.name || t("cameras.unnamed");
      const streams = (one.streams || []).map((stream) => el("li", { class: "stream" },
        el("span", {}, [stream.name, stream.codec, stream.size && stream.size.join("×"), stream.frame_rate && `${asNumber(stream.frame_rate)} ${t("fps")}`, stream.sound && t("cameras.hasSound")].filter(Boolean).join(", ")),
        stream.for_detection && el("span", { class: "chip" }, t("cameras.suggested")),
        stream.uri ? el("button", { type: "button", "aria-label": t("cameras.testOf", { stream: stream.name, camera: title }), onclick: () => test(stream.uri, [one.name, one.model], motionOf(one, stream)) }, t("cameras.test")) : el("span", { class: "problem" }, stream.error)));
      return el("article", { class: "camera" }, el("h3", {}, title), el("p", { class: "quiet" }, one.address),
        one.error && el("p", { class: "problem" }, one.error), el("ul", { class: "shapes" }, streams));
    }));
  };

  /** Where the motion of a stream is reported; null: the camera reports none. Of a recorder, each stream has an input. */
  const motionOf = (one, stream) => {
    const isRecorder = new Set(one.streams.map(({ input }) => input)).size > 1;
    return one.events ? { address: one.address, input: isRecorder ? stream.input : null } : null;
  };

  /** Of a camera that was found, `motion` is where it reports it, or null. */
  function test(uri, names, motion) {
    // What is typed into an address belongs into the fields: the address is written into the configuration.
    const typed = /^([a-z]+:\/\/)([^/]*)@(.*)$/i.exec(uri);
    if (typed) {
      const [name, ...rest] = typed[2].split(":");
      [user.value, password.value] = [decoded(name), decoded(rest.join(":"))];
      uri = typed[1] + typed[3];
      if (address.value.includes("@")) address.value = uri;
    }
    const host = /:\/\/\[?([^/:\]]+)/.exec(uri);
    camera = { name: nameFor([...names, host && host[1]]), uri, ...login() };
    // Not for addresses of the camera that have no TLS: the daemon refuses it there. What was typed has to fit.
    const file = trusted();
    if (motion === undefined || isTls(uri)) camera.ca_file = file;
    look.hidden = true;
    run({ test: camera }, (now) => showTest(now, motion, file));
  }

  const showTest = ({ tested }, motion, file) => {
    look.hidden = false;
    if (!tested || tested.error) {
      look.replaceChildren(el("h2", {}, t("cameras.stream")), el("p", { class: "problem", role: "alert" }, (tested && tested.error) || t("cameras.notOpened")), el("p", { class: "quiet" }, camera.uri));
      return;
    }
    const [name, nameLabel] = field("name", t("cameras.name"), { required: true, maxlength: 64, value: camera.name });
    const [fps, fpsLabel] = field("max_fps", t("cameras.maxFps"), { type: "number", min: 0.1, max: 240, step: "any", value: tested.suggested_max_fps || "" });
    const follows = el("input", { name: "motion", type: "checkbox" });
    const add = el("button", { type: "submit", class: "primary" }, t("cameras.add"));
    const result = el("div", { class: "result", role: "status" });
    const form = el("form", { class: "filter" }, nameLabel, fpsLabel, motion && el("label", { class: "tick" }, follows, t("cameras.motion")));
    const facts = [
      [t("cameras.codec"), tested.codec || "–"], [t("cameras.size"), tested.size ? tested.size.join("×") : "–"],
      [t("cameras.rate"), tested.frame_rate ? asNumber(tested.frame_rate, 1) : "–"], [t("cameras.sound"), tested.sound || t("cameras.noSound")],
      [t("cameras.firstImage"), seconds(tested.first_image_s)], [t("cameras.firstKey"), seconds(tested.first_key_frame_s)], [t("cameras.keyInterval"), seconds(tested.key_frame_interval_s)],
    ];
    form.append(el("div", { class: "clear" }, add));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      add.disabled = true;
      const wanted = { ...camera, name: name.value, max_fps: fps.value ? Number(fps.value) : null, ...(follows.checked && { motion, ca_file: isTls(motion.address) ? file : camera.ca_file }) };
      try {
        showAdded(result, await put("cameras", wanted), wanted);
      } catch (error) {
        notify(error.message, "bad");
      } finally {
        add.disabled = false;
      }
    });
    look.replaceChildren(el("h2", {}, t("cameras.stream")), el("p", { class: "quiet" }, camera.uri),
      el("img", { class: "sample", alt: t("picture.of", { source: camera.uri }), src: `api/cameras/picture.jpg?at=${Date.now()}` }),
      el("dl", { class: "facts" }, facts.map(([what, value]) => el("div", {}, el("dt", {}, what), el("dd", {}, value)))), form, result);
    look.scrollIntoView({ block: "nearest" });
  };

  const showAdded = (node, outcome, wanted) => {
    const lines = outcome.problems.length > 0 ? outcome.problems : [outcome.reason || t("cameras.added", { name: wanted.name, previous: outcome.previous })];
    node.dataset.state = outcome.saved ? "applied" : "refused";
    node.replaceChildren(...lines.map((line) => el("p", { class: outcome.saved ? null : "problem" }, line)), ...(outcome.saved
      ? [el("p", {}, el("a", { href: "#live" }, t("live.title")), " · ", el("a", { href: `#zones/${encodeURIComponent(wanted.name)}` }, t("cameras.draw")))]
      : [outcome.yaml && el("pre", { tabindex: 0 }, outcome.yaml)].filter(Boolean)));
  };

  search.append(el("div", { class: "clear actions" }, find, direct));
  search.addEventListener("submit", (event) => {
    event.preventDefault();
    if (/^rtsps?:/i.test(address.value.trim())) direct.click();
    else run({ find: { address: address.value.trim() || null, ...login(), ca_file: trusted() } }, showFound);
  });
  direct.addEventListener("click", () => {
    if (address.value.trim()) test(address.value.trim(), []);
    else address.focus();
  });
  main.replaceChildren(el("h1", {}, t("tab.cameras")),
    el("section", { class: "panel" }, el("h2", {}, t("cameras.search")), search,
      el("p", { class: "quiet" }, t("cameras.about")), progress, list), look);
  for (const input of [address, user, certificate]) input.addEventListener("input", () => { typed[input.name] = input.value; });
  // What the last search found is there still, or is awaited.
  follow((now) => now.found && showFound(now)).catch(() => {});
  // The result of a reload that a new camera has caused.
  const stop = on("reload", (reload) => reload.state !== "applied" && notify(t("reload.result", { state: wordOf("reload", reload.state) }), "bad"));
  return () => {
    ended = true;
    stop();
  };
}
