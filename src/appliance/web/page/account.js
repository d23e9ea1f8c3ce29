// One's own account: the change of the password.

import { el, notify, sentence, text } from "./dom.js";
import { post } from "./api.js";
import { state } from "./store.js";
import { t } from "./text.js";

/** Opens the dialog. */
export function openAccount() {
  const node = document.getElementById("account");
  const field = (name, autocomplete) => el("input", { name, type: "password", autocomplete, required: true, minlength: name === "old" ? null : 10 });
  const old = field("old", "current-password");
  const fresh = field("new", "new-password");
  const again = field("again", "new-password");
  const problem = el("p", { class: "problem", role: "alert" });
  const change = el("button", { type: "submit", class: "primary" }, t("account.change"));
  const form = el("form", { class: "login" },
    // For password managers: whose password that is.
    el("input", { name: "user", autocomplete: "username", value: state.session.name, hidden: true, readonly: true, "aria-label": t("login.user") }),
    el("label", {}, t("account.old"), old),
    el("label", {}, t("account.new"), fresh),
    el("label", {}, t("account.again"), again),
    el("p", { class: "quiet" }, t("account.elsewhere")),
    problem,
    el("div", { class: "actions" }, change, el("button", { type: "button", onclick: () => node.close() }, t("cancel"))));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    text(problem, "");
    if (fresh.value !== again.value) {
      text(problem, t("account.differ"));
      again.focus();
      return;
    }
    change.disabled = true;
    try {
      await post("password", { old: old.value, new: fresh.value });
      node.close();
      notify(t("account.changed"));
    } catch (error) {
      text(problem, sentence(error.message));
      old.focus();
    } finally {
      change.disabled = false;
    }
  });
  node.replaceChildren(el("h2", { id: "account-title" }, t("account.of", { user: state.session.name })), form);
  node.addEventListener("close", () => node.replaceChildren(), { once: true });
  node.showModal();
}
