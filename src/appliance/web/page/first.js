// Makes the first user, by the secret behind the `#` of the link.

import { post } from "./api.js";
import { text } from "./dom.js";

const form = document.getElementById("form");
const problem = document.getElementById("problem");
const secret = location.hash.slice(1);

document.getElementById(secret ? "form" : "without").hidden = false;
// Not in the history of the browser.
history.replaceState(null, "", location.pathname);
window.addEventListener("hashchange", () => location.reload());

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { user, password, again } = form.elements;
  text(problem, "");
  if (password.value !== again.value) {
    text(problem, "The passwords differ.");
    again.focus();
    return;
  }
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    await post("first-user", { secret, user: user.value, password: password.value });
    location.replace("./");
  } catch (error) {
    text(problem, `${error.message.charAt(0).toUpperCase()}${error.message.slice(1)}.`);
    password.focus();
  } finally {
    button.disabled = false;
  }
});
