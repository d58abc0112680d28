"use strict";
// The inspector's page: its data, its places, and what draws them. Every view draws from one payload,
// embedded or fetched.

const embedded = document.getElementById("payload");
// The session of an exported file, null on a server.
const whole = embedded ? JSON.parse(embedded.textContent) : null;
const main = document.getElementById("main");
const notice = document.getElementById("notice");
let shown = 0;  // number of the newest drawing, so that a late answer draws nothing

// --- data -------------------------------------------------------------------------------------

// On a server without authentication the page's own address names the user.
const asking = new URLSearchParams(location.search).get("user_id");

function queryOf(values) {
  const all = Object.entries({ user_id: asking, ...values });
  return new URLSearchParams(all.filter(([, value]) => value != null && value !== ""));
}

async function fetched(path, values) {
  const answer = await fetch(`api/${path}?${queryOf(values)}`).catch((error) => { throw new Error(`The server does not answer: ${error.message}`); });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(body.detail || `The server answered ${answer.status} ${answer.statusText}`);
  return body;
}

const cache = new Map();

async function remembered(path, values) {
  const key = path + JSON.stringify(values);
  if (!cache.has(key)) {
    if (cache.size > 100) cache.clear();
    cache.set(key, await fetched(path, values));
  }
  return cache.get(key);
}

// The prices that the reader gave, and as the server takes them: "" without that of the input.
function prices() {
  return JSON.parse(localStorage.getItem("ebbtide-prices")) || {};
}
function priced() {
  const { input, output, cached } = prices();
  return input ? [input, output || 0, cached || input].join() : "";
}

const labels = new Map();

async function sessionOf(at) {
  const data = whole || await remembered("session", { user: at.user, session: at.name, tip: at.tip, prices: priced() });
  labels.set(data.session.name, data.session.label);
  head(at);
  return data;
}

async function turnOf(at, number) {
  if (whole) return entryOf(whole.details, number);
  return remembered("turn", { user: at.user, session: at.name, tip: at.tip, turn: number, prices: priced() });
}

// A prompt of the file is a list of its messages' numbers, each with its change.
async function promptAt(at, number, call) {
  if (!whole) return remembered("prompt", { user: at.user, session: at.name, tip: at.tip, turn: number, call });
  const found = whole.prompts[`${number}/${call}`] || { missing: "the file has the prompts of its last turns alone" };
  return found.missing ? found : { ...found, messages: found.messages.map(([line, change, part]) => ({ ...whole.lines[line], change, part })) };
}

// --- actions ----------------------------------------------------------------------------------

const choice = document.body.dataset.actions;  // "on", "off" until they are chosen, or "" for none
let acting = choice === "on";

const buttons = JSON.parse(document.body.dataset.buttons || "[]");

// The buttons of the commands beside a turn, an effort or a memory in its state.
function actions(beside, values, at, state = null) {
  const shown = acting && !at.tip ? buttons.filter((one) => one.beside === beside && (!one.states.length || one.states.includes(state))) : [];
  return shown.map((one) => make("button", { type: "button", class: one.question ? "danger" : null, onclick: () => act(one, values) }, one.label));
}

const filled = (text, values, as = (value) => value) => text.replace(/{(\w+)}/g, (_, name) => as(values[name]));

// Change something; a change that cannot be undone is asked about first.
async function act({ method, path, question, label }, values) {
  if (question && !(await asked(filled(question, values), label.split(" ")[0]))) return;
  notice.textContent = "Working …";
  const query = queryOf({ ...values, thread_id: null, user_id: place().user });
  let told;
  try {
    const answer = await fetch(`${filled(path, values, encodeURIComponent)}?${query}`, { method, headers: { "X-Ebbtide": "1" } });
    const body = await answer.json().catch(() => ({}));
    told = answer.ok ? done(body) : `Nothing was changed: ${(body.detail || answer.statusText).replace(/[;,]? *nothing was changed\.?$/i, "")}`;
  } catch (error) {
    told = `The server does not answer: ${error.message}`;
  }
  cache.clear();
  await draw();
  notice.textContent = told;
}

function done(body) {
  const told = [...(body.banners || []), ...(body.not_erased || []).map((left) => `Not erased: ${left}.`)];
  return ["Done.", ...told].join(" ");
}

// --- where we are -----------------------------------------------------------------------------

// In addresses "~" stands between user and session; a text that is no address stands as it is.
const encoded = (text) => encodeURIComponent(text).replaceAll("~", "%7E");
function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function place() {
  const [path, query = ""] = location.hash.slice(2).split("?");
  const [key = "", view = "context", item = ""] = path.split("/");
  const [user, name] = key.split("~").map(decoded);
  const values = new URLSearchParams(query);
  return { key, user, name, view, item: decoded(item), query: values.get("q") || "", tip: values.get("tip") || "", part: values.get("part") || "" };
}

function keyOf(session) {
  return `${encoded(session.user)}~${encoded(session.name)}`;
}

function link(at, view, item = "", more = {}) {
  const query = new URLSearchParams(Object.entries({ tip: at.tip, ...more }).filter(([, value]) => value));
  return `#/${at.key}/${view}${item === "" ? "" : `/${encodeURIComponent(item)}`}${query.size ? `?${query}` : ""}`;
}

function head(at) {
  const views = document.getElementById("views");
  views.replaceChildren();
  document.getElementById("where").textContent = at.name ? `${at.user ? `${at.user} / ` : ""}${labels.get(at.name) || at.name}${at.tip ? ", an older branch" : ""}` : "";
  if (!at.name) return;
  const current = at.view === "turn" ? "context" : at.view;
  for (const [view, [label]] of Object.entries(VIEWS)) {
    if (whole && view === "memories") continue;
    views.append(make("a", { href: link(at, view), "aria-current": view === current ? "page" : null }, label));
  }
}

// --- drawing ----------------------------------------------------------------------------------

const LISTENING = "Live: the next turn appears by itself.";
const REFUSED = 2000;  // milliseconds until a page whose server refused is drawn again
const sources = [];

// Tell the server what is drawn, so that a turn that is committed before it listens is not missed.
function live(at, { turn, id }) {
  if (whole || at.tip) return null;
  const status = make("p", { class: "quiet live", role: "status" }, LISTENING);
  const source = new EventSource(`api/live?${queryOf({ user: at.user, session: at.name, tip: `${turn}:${id}` })}`);
  const again = () => { if (sources.includes(source)) { cache.clear(); draw(); } };
  source.addEventListener("turn", again);
  source.addEventListener("open", () => { status.textContent = LISTENING; });
  source.addEventListener("error", () => {
    status.textContent = "Live: no connection.";
    // A server that refuses is not asked again by the browser: the session may be gone.
    if (source.readyState === EventSource.CLOSED) setTimeout(again, REFUSED);
  });
  sources.push(source);
  return status;
}

async function draw() {
  const at = whole ? { ...place(), key: place().key || keyOf(whole.session), user: whole.session.user, name: whole.session.name } : place();
  const number = ++shown;
  sources.splice(0).forEach((source) => source.close());
  head(at);
  const view = !at.name ? sessionsView : at.view === "turn" ? turnView : entryOf(VIEWS, at.view)?.[1];
  try {
    const parts = view ? await view(at) : [make("p", {}, "There is no such page.")];
    if (number === shown) main.replaceChildren(...parts.filter(Boolean));
  } catch (error) {
    if (number === shown) main.replaceChildren(make("h2", {}, "This cannot be shown"), make("p", { class: "why" }, error.message));
  }
  main.dataset.drawn = String(number);
}

document.getElementById("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
});
const switching = document.getElementById("actions");
switching?.setAttribute("aria-pressed", String(acting));
switching?.addEventListener("click", () => {
  acting = !acting;
  switching.setAttribute("aria-pressed", String(acting));
  draw();
});
addEventListener("hashchange", () => { notice.textContent = ""; draw().then(() => { main.focus({ preventScroll: true }); if (!place().part) scrollTo(0, 0); }); });
let resized, wideAs = innerWidth;
// What is open stays open: the figures alone are drawn again, where the width changed.
addEventListener("resize", () => {
  clearTimeout(resized);
  if (innerWidth === wideAs) return;
  resized = setTimeout(() => { wideAs = innerWidth; document.querySelectorAll("figure").forEach((one) => one.redraw?.()); }, 200);
});
draw();
