// New cameras, for administrators: found on the network or typed in, looked at, and written into the configuration.

import { el, notify, text } from "./dom.js";
import { get, post, put } from "./api.js";
import { may, on, state } from "./store.js";

/** Time between two looks at what runs. */
const LOOK_MS = 500;

const field = (name, label, attributes = {}) => {
  const input = el("input", { name, autocomplete: "off", autocapitalize: "none", spellcheck: "false", ...attributes });
  return [input, el("label", {}, label, input)];
};

const seconds = (value) => (value === null || value === undefined ? "–" : `${value.toFixed(1)} s`);

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
    main.replaceChildren(el("h1", {}, "Cameras"), el("p", { class: "empty" }, "Only an administrator may add cameras. An administrator makes one with jetwatch user add NAME --role administrator."));
    return () => {};
  }
  const [address, addressLabel] = field("address", "Host, or address of a stream", { placeholder: "192.168.1.20", type: "text" });
  const [user, userLabel] = field("user", "User of the camera");
  const [password, passwordLabel] = field("password", "Password", { type: "password", autocomplete: "new-password" });
  const find = el("button", { type: "submit", class: "primary" }, "Find cameras");
  const direct = el("button", { type: "button" }, "Test as a stream");
  const search = el("form", { class: "filter" }, addressLabel, userLabel, passwordLabel);
  const progress = el("p", { class: "result", role: "status" });
  const list = el("div", { class: "found" });
  const look = el("section", { class: "panel look", hidden: true });
  let timer = null;
  let ended = false;
  /** What is tested. */
  let camera = null;

  const login = () => (user.value ? { user: user.value, password: password.value } : {});
  const busy = (what) => {
    find.disabled = direct.disabled = Boolean(what);
    for (const button of list.querySelectorAll("button")) button.disabled = Boolean(what);
    text(progress, what === "find" ? "Asking the network for cameras. This takes some seconds." : what === "test" ? "Opening the stream. This takes up to 15 s." : "");
  };
  /** Starts what is wanted, and waits for its end. */
  async function run(job, done) {
    busy(Object.keys(job)[0]);
    const follow = async () => {
      if (ended) return;
      try {
        const now = await get("cameras");
        if (now.running) timer = setTimeout(follow, LOOK_MS);
        else {
          busy(null);
          done(now);
        }
      } catch (error) {
        failed(error);
      }
    };
    const failed = (error) => {
      busy(null);
      notify(error.message, "bad");
    };
    try {
      await post("cameras", job);
      await follow();
    } catch (error) {
      failed(error);
    }
  }

  const showFound = ({ found }) => {
    const cameras = (found && found.cameras) || [];
    text(progress, found && found.error ? found.error : cameras.length > 0 ? `${cameras.length} found` : "No camera answered. Cameras answer within their own network only, and some only where ONVIF is switched on in their settings. Type the address of one.");
    list.replaceChildren(...cameras.map((one) => {
      const title = [one.manufacturer, one.model].filter(Boolean).join(" ") || one.name || "Camera";
      const streams = (one.streams || []).map((stream) => el("li", { class: "stream" },
        el("span", {}, [stream.name, stream.codec, stream.size && stream.size.join("×"), stream.frame_rate && `${stream.frame_rate} frames/s`, stream.sound && "sound"].filter(Boolean).join(", ")),
        stream.for_detection && el("span", { class: "chip" }, "suggested"),
        stream.uri ? el("button", { type: "button", "aria-label": `Test ${stream.name} of ${title}`, onclick: () => test(stream.uri, [one.name, one.model]) }, "Test") : el("span", { class: "problem" }, stream.error)));
      return el("article", { class: "camera" }, el("h3", {}, title), el("p", { class: "quiet" }, one.address),
        one.error && el("p", { class: "problem" }, one.error), el("ul", { class: "shapes" }, streams));
    }));
  };

  function test(uri, names) {
    // What is typed into an address belongs into the fields: the address is written into the configuration.
    const typed = /^([a-z]+:\/\/)([^/@]*)@(.*)$/i.exec(uri);
    if (typed) {
      const [name, ...rest] = typed[2].split(":");
      [user.value, password.value] = [decodeURIComponent(name), decodeURIComponent(rest.join(":"))];
      uri = typed[1] + typed[3];
      if (address.value.includes("@")) address.value = uri;
    }
    const host = /:\/\/\[?([^/:\]]+)/.exec(uri);
    camera = { name: nameFor([...names, host && host[1]]), uri, ...login() };
    look.hidden = true;
    run({ test: camera }, showTest);
  }

  const showTest = ({ tested }) => {
    look.hidden = false;
    if (!tested || tested.error) {
      look.replaceChildren(el("h2", {}, "The stream"), el("p", { class: "problem", role: "alert" }, (tested && tested.error) || "The stream was not opened."), el("p", { class: "quiet" }, camera.uri));
      return;
    }
    const [name, nameLabel] = field("name", "Name", { required: true, maxlength: 64, value: camera.name });
    const [fps, fpsLabel] = field("max_fps", "Maximum frames/s; empty: all", { type: "number", min: 0.1, max: 240, step: "any", value: tested.suggested_max_fps || "" });
    const add = el("button", { type: "submit", class: "primary" }, "Add to the configuration");
    const result = el("div", { class: "result", role: "status" });
    const form = el("form", { class: "filter" }, nameLabel, fpsLabel);
    const facts = [
      ["Codec", tested.codec || "–"], ["Size", tested.size ? tested.size.join("×") : "–"],
      ["Frames per second", tested.frame_rate ? tested.frame_rate.toFixed(1) : "–"], ["Sound", tested.sound || "no AAC, which alone is kept"],
      ["First image after", seconds(tested.first_image_s)], ["First key frame after", seconds(tested.first_key_frame_s)], ["From key frame to key frame", seconds(tested.key_frame_interval_s)],
    ];
    form.append(el("div", { class: "clear" }, add));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      add.disabled = true;
      const wanted = { ...camera, name: name.value, max_fps: fps.value ? Number(fps.value) : null };
      try {
        showAdded(result, await put("cameras", wanted), wanted);
      } catch (error) {
        notify(error.message, "bad");
      } finally {
        add.disabled = false;
      }
    });
    look.replaceChildren(el("h2", {}, "The stream"), el("p", { class: "quiet" }, camera.uri),
      el("img", { class: "sample", alt: `Picture of ${camera.uri}`, src: `api/cameras/picture.jpg?at=${Date.now()}` }),
      el("dl", { class: "facts" }, facts.map(([what, value]) => el("div", {}, el("dt", {}, what), el("dd", {}, value)))), form, result);
    look.scrollIntoView({ block: "nearest" });
  };

  const showAdded = (node, outcome, wanted) => {
    const lines = outcome.problems.length > 0 ? outcome.problems : [outcome.reason || `${wanted.name} is in the configuration, which is read again now. The file of before is ${outcome.previous}.`];
    node.dataset.state = outcome.saved ? "applied" : "refused";
    node.replaceChildren(...lines.map((line) => el("p", { class: outcome.saved ? null : "problem" }, line)), ...(outcome.saved
      ? [el("p", {}, el("a", { href: "#live" }, "Live view"), " · ", el("a", { href: `#zones/${encodeURIComponent(wanted.name)}` }, "Draw zones and lines"))]
      : [outcome.yaml && el("pre", { tabindex: 0 }, outcome.yaml)].filter(Boolean)));
  };

  search.append(el("div", { class: "clear actions" }, find, direct));
  search.addEventListener("submit", (event) => {
    event.preventDefault();
    if (/^rtsps?:/i.test(address.value.trim())) direct.click();
    else run({ find: { address: address.value.trim() || null, ...login() } }, showFound);
  });
  direct.addEventListener("click", () => {
    if (address.value.trim()) test(address.value.trim(), []);
    else address.focus();
  });
  main.replaceChildren(el("h1", {}, "Cameras"),
    el("section", { class: "panel" }, el("h2", {}, "Find a camera"), search,
      el("p", { class: "quiet" }, "Without an address, the networks of this device are searched by ONVIF. The password is kept in a file of its own beside the configuration, which only the daemon may read. Cameras lock a user after a few wrong passwords."), progress, list), look);
  // The result of a reload that a new camera has caused.
  const stop = on("reload", (reload) => reload.state !== "applied" && notify(`The reload was ${reload.state}.`, "bad"));
  return () => {
    ended = true;
    clearTimeout(timer);
    stop();
  };
}
