// SPDX-License-Identifier: Apache-2.0
// Links to one picture or video, which others open without a log-in until they expire.

import { dateAndTime, el, notify, text } from "./dom.js";
import { post } from "./api.js";
import { may } from "./store.js";
import { t } from "./text.js";

/** Hours, with their names. */
const times = () => [[1, t("storage.hours", { count: 1 })], [24, t("storage.days", { count: 1 })], [168, t("storage.days", { count: 7 })]];

/** Opens the dialog for a path below `api/`. */
export function openShare(path) {
  const node = el("dialog", { class: "account", "aria-labelledby": "share-title" });
  const hours = el("select", { name: "hours" }, ...times().map(([value, label]) => el("option", { value }, label)));
  const link = el("input", { name: "link", readonly: true, onfocus: () => link.select() });
  const made = el("label", { hidden: true }, t("share.link"), link);
  const note = el("p", { role: "status" });
  const attempt = (action) => async () => {
    try {
      await action();
    } catch (error) {
      notify(error.message, "bad");
      text(note, error.message);
    }
  };
  const make = attempt(async () => {
    const found = await post("share", { path, hours: Number(hours.value) });
    link.value = new URL(found.path, document.baseURI).href;
    made.hidden = false;
    const copied = await navigator.clipboard.writeText(link.value).then(() => `${t("copied")} `, () => "");
    text(note, `${copied}${t("share.until", { time: dateAndTime(found.until) })}`);
  });
  const revoke = attempt(async () => {
    await post("share/revoke");
    made.hidden = true;
    text(note, t("share.ended"));
  });
  node.append(el("h2", { id: "share-title" }, t("player.share")), el("div", { class: "login" },
    el("p", { class: "quiet" }, t("share.about")),
    el("label", {}, t("share.for"), hours), made, note,
    el("div", { class: "actions" }, el("button", { type: "button", class: "primary", onclick: make }, t("share.copy")),
      may("administrator") ? el("button", { type: "button", onclick: revoke }, t("share.end")) : null,
      el("button", { type: "button", onclick: () => node.close() }, t("player.close")))));
  node.addEventListener("close", () => node.remove());
  document.body.append(node);
  node.showModal();
}
