// Makes the first user, by the secret behind the `#` of the link.

import { post } from "./api.js";
import { el, sentence, text } from "./dom.js";
import { offerLanguages, partsOf, t } from "./text.js";

const form = document.getElementById("form");
const problem = document.getElementById("problem");
const secret = location.hash.slice(1);

document.getElementById(secret ? "form" : "without").hidden = false;
// Not in the history of the browser.
history.replaceState(null, "", location.pathname);
window.addEventListener("hashchange", () => location.reload());

const write = () => {
  document.title = `${t("first.title")} · jetwatch`;
  document.getElementById("how").replaceChildren(...partsOf("first.without", { command: el("code", {}, "jetwatch page") }));
};
offerLanguages(document.getElementById("language"), write);
write();

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { user, password, again } = form.elements;
  text(problem, "");
  if (password.value !== again.value) {
    text(problem, t("first.differ"));
    again.focus();
    return;
  }
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    await post("first-user", { secret, user: user.value, password: password.value });
    location.replace("./");
  } catch (error) {
    text(problem, sentence(error.message));
    password.focus();
  } finally {
    button.disabled = false;
  }
});
