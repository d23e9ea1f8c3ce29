// Checks of the installation, as `jetwatch doctor` makes them: an administrator begins them, and sees each line as it comes.

import { dateAndTime, el, notify, renew, text } from "./dom.js";
import { get, post } from "./api.js";
import { t, wordOf } from "./text.js";

/** Time between two looks while they run. */
const LOOK_MS = 1000;

/** Fills `node`; returns what ends that. */
export function showChecks(node) {
  const begin = el("button", { type: "button" }, t("checks.begin"));
  const result = el("p", { class: "result", role: "status" });
  const list = el("ul", { class: "log checks", "aria-label": t("checks.results") });
  node.replaceChildren(el("p", { class: "quiet" }, t("checks.about")),
    el("div", { class: "actions" }, begin), result, list);
  let timer = null;
  let ended = false;
  const refresh = (found) => {
    if (ended) return;
    begin.disabled = found.running || !found.available;
    renew(list, ...found.lines.map((line) =>
      el("li", { "data-state": line.state }, el("span", { class: `check of-${line.state.replace("/", "")}` }, wordOf("check", line.state)), el("span", { lang: "en" }, line.text))));
    const at = found.started_ms ? dateAndTime(found.started_ms) : "";
    if (found.running) text(result, t("checks.running", { time: at }));
    else if (!found.available) text(result, t("checks.none"));
    else text(result, found.verdict ? `${at}: ${found.verdict}` : "");
    clearTimeout(timer);
    if (found.running) timer = setTimeout(look, LOOK_MS);
  };
  const look = () => get("doctor").then(refresh, () => {
    timer = setTimeout(look, 5 * LOOK_MS);
  });
  begin.addEventListener("click", async () => {
    begin.disabled = true;
    try {
      refresh(await post("doctor"));
    } catch (error) {
      notify(error.message, "bad");
      look();
    }
  });
  look();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}
