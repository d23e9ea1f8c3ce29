// One's own account: the change of the password.

import { el, notify, text } from "./dom.js";
import { post } from "./api.js";
import { state } from "./store.js";

/** Opens the dialog. */
export function openAccount() {
  const node = document.getElementById("account");
  const field = (name, autocomplete) => el("input", { name, type: "password", autocomplete, required: true, minlength: name === "old" ? null : 10 });
  const old = field("old", "current-password");
  const fresh = field("new", "new-password");
  const again = field("again", "new-password");
  const problem = el("p", { class: "problem", role: "alert" });
  const change = el("button", { type: "submit", class: "primary" }, "Change the password");
  const form = el("form", { class: "login" },
    // For password managers: whose password that is.
    el("input", { name: "user", autocomplete: "username", value: state.session.name, hidden: true, readonly: true, "aria-label": "User" }),
    el("label", {}, "Old password", old),
    el("label", {}, "New password, 10 characters or more", fresh),
    el("label", {}, "New password once more", again),
    el("p", { class: "quiet" }, "You are logged out everywhere else."),
    problem,
    el("div", { class: "actions" }, change, el("button", { type: "button", onclick: () => node.close() }, "Cancel")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    text(problem, "");
    if (fresh.value !== again.value) {
      text(problem, "The new passwords differ.");
      again.focus();
      return;
    }
    change.disabled = true;
    try {
      await post("password", { old: old.value, new: fresh.value });
      node.close();
      notify("The password was changed.");
    } catch (error) {
      text(problem, `${error.message.charAt(0).toUpperCase()}${error.message.slice(1)}.`);
      old.focus();
    } finally {
      change.disabled = false;
    }
  });
  node.replaceChildren(el("h2", { id: "account-title" }, `Account of ${state.session.name}`), form);
  node.addEventListener("close", () => node.replaceChildren(), { once: true });
  node.showModal();
}
