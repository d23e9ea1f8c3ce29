// The page: session, navigation, and the state of the connection.

import { el, notify, sentence, text } from "./dom.js";
import { get, post, whenLoggedOut } from "./api.js";
import { connect, disconnect, may, on, state } from "./store.js";
import { markTab, where } from "./address.js";
import { openAccount } from "./account.js";
import { offerLanguages, t, wordOf } from "./text.js";
import * as live from "./live.js";
import * as events from "./events.js";
import * as zones from "./zones.js";
import * as machine from "./machine.js";
import * as cameras from "./cameras.js";

const PAGES = { live, events, zones, machine, cameras };
const main = document.getElementById("main");
const bar = document.getElementById("bar");
let leave = null;
/** The address of what is shown. */
let shown = location.hash;
let hasConnected = false;

function showPage() {
  if (!state.session || (leave && leave.follows?.())) return;
  if (leave && leave.mayLeave && !leave.mayLeave()) {
    history.replaceState(null, "", shown || "#live");
    return;
  }
  shown = location.hash;
  const { page: name, argument } = where();
  const page = Object.hasOwn(PAGES, name) ? name : "live";
  if (leave) leave();
  leave = PAGES[page].show(main, argument);
  if (page !== main.dataset.page) window.scrollTo(0, 0);
  main.dataset.page = page;
  markTab(page);
}

/** What the header says of the user and of the connection. */
function writeHeader() {
  if (state.session) text(document.getElementById("user"), [state.session.name, wordOf("role", state.session.role)].filter(Boolean).join(", "));
  text(document.getElementById("link"), t(`link.${state.connected ? "connected" : hasConnected ? "lost" : "connecting"}`));
}

async function begin() {
  const before = state.session;
  try {
    state.session = await get("session");
  } catch (error) {
    if (error.status !== 401) {
      // What is shown stays, with what was typed into it.
      if (!leave) main.replaceChildren(el("p", { class: "empty" }, error.message));
      setTimeout(begin, 3000);
      return undefined;
    }
    state.session = null;
    return showLogin();
  }
  if (leave && before && before.name === state.session.name && before.role === state.session.role) return connect();
  try {
    state.info = await get("info");
  } catch (error) {
    notify(error.message, "bad");
  }
  bar.hidden = false;
  text(document.getElementById("device"), (state.info && state.info.device) || "jetwatch");
  document.title = `${(state.info && state.info.device) || "jetwatch"} · jetwatch`;
  const user = document.getElementById("user");
  writeHeader();
  user.disabled = !state.session.by_session;
  document.getElementById("cameras").hidden = !may("administrator");
  document.getElementById("logout").hidden = !state.session.by_session;
  connect();
  showPage();
  return undefined;
}

function showLogin() {
  disconnect();
  if (leave) leave();
  leave = null;
  bar.hidden = true;
  const user = el("input", { name: "user", autocomplete: "username", required: true, autocapitalize: "none", spellcheck: "false" });
  const password = el("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
  const problem = el("p", { class: "problem", role: "alert" });
  const button = el("button", { type: "submit", class: "primary" }, t("login.submit"));
  const form = el("form", { class: "login" }, el("img", { src: "icon.svg", alt: "", width: 48, height: 48 }), el("h1", {}, "jetwatch"),
    el("label", {}, t("login.user"), user), el("label", {}, t("login.password"), password), problem, button);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    text(problem, "");
    try {
      await post("login", { user: user.value, password: password.value });
      await begin();
    } catch (error) {
      const isLimited = error.status === 429 && Number(error.retryAfter) > 5;
      text(problem, isLimited ? t("login.limited", { count: Math.ceil(Number(error.retryAfter) / 60) }) : error.status === 401 ? t("login.wrong") : sentence(error.message));
      password.value = "";
      password.focus();
    } finally {
      button.disabled = false;
    }
  });
  main.replaceChildren(form);
  user.focus();
}

document.getElementById("user").addEventListener("click", openAccount);
document.getElementById("logout").addEventListener("click", async () => {
  if (leave && leave.mayLeave && !leave.mayLeave()) return;
  await post("logout").catch(() => {});
  // First: what the user gives up is not kept, as at the end of a session.
  showLogin();
  state.session = null;
});
whenLoggedOut(() => {
  if (state.session) {
    state.session = null;
    showLogin();
  }
});
// Where the log-in is shown already, what was typed into it stays.
on("refused", () => state.session && begin());
on("connection", (isConnected) => {
  const link = document.getElementById("link");
  hasConnected = true;
  writeHeader();
  link.classList.toggle("is-fine", isConnected);
  link.dataset.state = isConnected ? "online" : "offline";
});
window.addEventListener("hashchange", showPage);
offerLanguages(document.getElementById("language"), () => {
  writeHeader();
  if (state.session) showPage();
  else showLogin();
});
writeHeader();
begin();
