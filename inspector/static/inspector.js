"use strict";
// The inspector's page. Every view draws from one payload, embedded or fetched; every text is set
// as text, never as markup.

const PARTS = [
  ["system", "Instructions", "#6b7280", ""],
  ["tools", "Tool schemas", "#9aa3af", "/"],
  ["memory", "Memory: summaries", "#2f7ebc", ""],
  ["quotes", "Quotes", "#7fb7df", "."],
  ["expanded", "Expanded logs", "#c26a1c", ""],
  ["turns", "Turns", "#3f9464", ""],
  ["open", "Open efforts", "#8cc9a1", "\\"],
  ["anchor", "State block", "#8b5fb0", ""],
  ["hints", "Hints", "#c9a0dc", "/"],
  ["turn", "Running turn", "#c9a227", "."],
];
const STATES = [
  ["open", "open", "#3f9464", ""],
  ["expanded", "expanded", "#c26a1c", "/"],
  ["concluded", "concluded, summary in the context", "#2f7ebc", ""],
  ["evicted", "evicted, archive only", "#9aa3af", "."],
];
const MOST_BARS = 400;
const MOST_TEXT = 50_000;  // characters of a text that are laid out at once
const embedded = document.getElementById("payload");
const whole = embedded ? JSON.parse(embedded.textContent) : null;
const main = document.getElementById("main");
let shown = 0;  // number of the newest drawing, so that a late answer draws nothing

// --- elements ---------------------------------------------------------------------------------

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

const tokens = (number) => (number ?? 0).toLocaleString("en");
const percent = (share) => (share == null ? "–" : `${Math.round(100 * share)} %`);
const day = (at) => (at ? at.slice(0, 16).replace("T", " ") : "");

function table(caption, heads, rows) {
  const kind = rows[0] ? rows[0].map((cell) => typeof cell === "number") : [];
  const body = rows.map((row) => make("tr", {}, row.map((cell, at) =>
    make("td", { class: kind[at] ? "n" : null }, typeof cell === "number" ? tokens(cell) : cell ?? ""))));
  const head = make("tr", {}, heads.map((name, at) => make("th", { scope: "col", class: kind[at] ? "n" : null }, name)));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", {}, make("caption", { class: "quiet" }, caption), make("thead", {}, head), make("tbody", {}, body)));
}

function folded(title, content, open = false) {
  const details = make("details", { class: "panel", open }, make("summary", {}, title));
  const fill = () => { if (details.childElementCount === 1) details.append(content()); };
  if (open) fill(); else details.addEventListener("toggle", fill, { once: true });
  return details;
}

// A text in a box that scrolls. Of a very long one browsers lay out the beginning, then more on demand.
function box(text) {
  const pre = make("pre", { class: "long", tabindex: text.length > 2000 ? "0" : null }, text.slice(0, MOST_TEXT));
  let end = MOST_TEXT;
  if (text.length <= end) return pre;
  const more = make("button", { type: "button", onclick: () => {
    pre.append(text.slice(end, end + MOST_TEXT));
    end += MOST_TEXT;
    label();
  } });
  const label = () => { if (end >= text.length) more.remove(); else more.textContent = `Show more (${tokens(text.length - end)} characters left)`; };
  label();
  return make("div", {}, pre, more);
}

// Fills that differ without colour: each kind has a pattern over its colour.
function patterns(kinds) {
  const svg = d3.create("svg").attr("width", 0).attr("height", 0).attr("aria-hidden", "true");
  const defs = svg.append("defs");
  for (const [key, , colour, sign] of kinds) {
    const pattern = defs.append("pattern").attr("id", `fill-${key}`).attr("width", 6).attr("height", 6)
      .attr("patternUnits", "userSpaceOnUse");
    pattern.append("rect").attr("width", 6).attr("height", 6).attr("fill", colour);
    if (sign === "/") pattern.append("path").attr("d", "M0,6L6,0").attr("stroke", "#fff").attr("stroke-width", 1.2);
    if (sign === "\\") pattern.append("path").attr("d", "M0,0L6,6").attr("stroke", "#fff").attr("stroke-width", 1.2);
    if (sign === ".") pattern.append("circle").attr("cx", 3).attr("cy", 3).attr("r", 1.1).attr("fill", "#fff");
  }
  return svg.node();
}

function legend(kinds, ...lines) {
  const entries = kinds.map(([key, label]) => {
    const swatch = d3.create("svg").attr("width", 14).attr("height", 14).attr("aria-hidden", "true");
    swatch.append("rect").attr("width", 14).attr("height", 14).attr("fill", `url(#fill-${key})`);
    return make("li", {}, swatch.node(), label);
  });
  return make("ul", { class: "legend" }, entries, lines.map((line) => make("li", { class: "quiet" }, line)));
}

// Plot names groups by aria-label, which says nothing to a reader: the figure has one name.
function figure(name, plot) {
  const svg = plot.tagName.toLowerCase() === "svg" ? plot : plot.querySelector("svg:last-of-type");
  for (const part of svg.querySelectorAll("[aria-label]")) part.removeAttribute("aria-label");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", name);
  return make("figure", {}, plot);
}

function width() { return Math.max(320, Math.min(1400, main.clientWidth - 32)); }

// --- data -------------------------------------------------------------------------------------

// On a server without authentication the page's own address names the user.
const asking = new URLSearchParams(location.search).get("user_id");

function queryOf(values) {
  const all = Object.entries({ ...values, user_id: asking });
  return new URLSearchParams(all.filter(([, value]) => value != null && value !== ""));
}

async function fetched(path, values) {
  const query = queryOf(values);
  const answer = await fetch(`api/${path}?${query}`);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.detail || answer.statusText);
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

async function sessionOf(place) {
  const data = whole || await sessionFetched(place);
  labels.set(data.session.name, data.session.label);
  head(place);
  return data;
}

const labels = new Map();

function sessionFetched(place) {
  return remembered("session", { user: place.user, session: place.name, tip: place.tip });
}

function turnOf(place, number) {
  if (whole) return whole.details[number];
  return remembered("turn", { user: place.user, session: place.name, tip: place.tip, turn: number });
}

function partsOf(calls) {
  const known = new Set(PARTS.map(([key]) => key));
  const others = new Set(calls.flatMap((call) => Object.keys(call.tokens)).filter((key) => !known.has(key)));
  const all = [...PARTS, ...[...others].map((key, at) => [key, key, d3.schemeTableau10[at % 10], "\\"])];
  const used = new Set(calls.flatMap((call) => Object.keys(call.tokens)));
  return all.filter(([key]) => used.has(key));
}

const sum = (call) => Object.values(call.tokens).reduce((total, size) => total + size, 0);

const reason = (call) => call.why || "";

// --- where we are -----------------------------------------------------------------------------

function place() {
  const [path, query = ""] = location.hash.slice(2).split("?");
  const [key = "", view = "context", item = ""] = path.split("/");
  const [user, name] = key.split("~").map(decodeURIComponent);
  const values = new URLSearchParams(query);
  return { key, user, name, view, item: decodeURIComponent(item), query: values.get("q") || "", tip: values.get("tip") || "" };
}

function keyOf(session) {
  return `${encodeURIComponent(session.user)}~${encodeURIComponent(session.name)}`;
}

function link(at, view, item = "") {
  const tip = at.tip ? `?tip=${encodeURIComponent(at.tip)}` : "";
  return `#/${at.key}/${view}${item === "" ? "" : `/${encodeURIComponent(item)}`}${tip}`;
}

const VIEWS = { context: "Context", efforts: "Efforts", search: "Search", cost: "Cost", branches: "Branches", memories: "Memories" };

function head(at) {
  const views = document.getElementById("views");
  views.replaceChildren();
  document.getElementById("where").textContent = at.name ? `${at.user ? `${at.user} / ` : ""}${labels.get(at.name) || at.name}` : "";
  if (!at.name) return;
  const current = at.view === "turn" ? "context" : at.view;
  for (const [view, label] of Object.entries(VIEWS)) {
    if (whole && (view === "search" || view === "memories")) continue;
    views.append(make("a", { href: link(at, view), "aria-current": view === current ? "page" : null }, label));
  }
}

// --- views ------------------------------------------------------------------------------------

async function sessionsView() {
  const all = await fetched("sessions", {});
  const rows = (filter) => all.filter((entry) => `${entry.user} ${entry.label}`.toLowerCase().includes(filter))
    .map((entry) => [make("a", { href: `#/${keyOf(entry)}/context` }, entry.label), entry.user || "(anonymous)", entry.turn, day(entry.at)]);
  const list = make("div", {});
  const draw = (filter) => list.replaceChildren(table("Sessions, the newest first", ["Session", "User", "Turns", "Last turn (UTC)"], rows(filter)));
  draw("");
  const filter = make("input", { type: "search", id: "filter", oninput: (event) => draw(event.target.value.toLowerCase()) });
  return [make("h2", {}, "Sessions"), make("div", { class: "controls" }, make("label", { for: "filter" }, "Filter"), filter), list];
}

function bars(turns, parts) {
  const size = Math.ceil(turns.length / MOST_BARS);
  const rows = [];
  for (let at = 0; at < turns.length; at += size) {
    const group = turns.slice(at, at + size).filter((turn) => turn.calls.length);
    if (!group.length) continue;
    const largest = d3.greatest(group, (turn) => d3.max(turn.calls, sum));
    const call = d3.greatest(largest.calls, sum);
    for (const [part] of parts) {
      if (call.tokens[part]) rows.push({ turn: turns[at].turn, end: turns[at].turn + size, part, tokens: call.tokens[part], of: largest.turn });
    }
  }
  return rows;
}

function contextFigure(data, at) {
  const { turns } = data;
  const calls = turns.flatMap((turn) => turn.calls);
  const parts = partsOf(calls);
  const rows = bars(turns, parts);
  const every = Math.ceil(turns.length / MOST_BARS);
  const some = turns.filter((_, place) => place % every === 0 || place === turns.length - 1);
  const budgets = some.filter((turn) => turn.calls.some((call) => call.budget))
    .map((turn) => ({ turn: turn.turn, budget: turn.calls.find((call) => call.budget).budget }));
  const changes = turns.flatMap((turn) => turn.calls.filter(reason).slice(0, 1)
    .map((call) => ({ turn: turn.turn, why: reason(call), total: sum(call) })));
  const top = d3.max([...calls.map(sum), ...budgets.map((row) => row.budget)]) || 1;
  const full = some.filter((turn) => turn.full_history != null && turn.full_history <= 3 * top);
  const plot = Plot.plot({
    width: width(), height: 360, marginLeft: 60, style: { fontSize: "12px", background: "transparent" },
    x: { label: "turn →", domain: [1, (d3.max(turns, (turn) => turn.turn) || 1) + 1] },
    y: { label: "↑ tokens sent", grid: true, tickFormat: "s" },
    marks: [
      Plot.rectY(rows, Plot.stackY({ x1: "turn", x2: "end", y: "tokens", fill: (row) => `url(#fill-${row.part})`,
        order: parts.map(([key]) => `url(#fill-${key})`), insetLeft: 0.3, insetRight: 0.3 })),
      Plot.lineY(full, { x: (turn) => turn.turn + 0.5, y: "full_history", stroke: "currentColor", strokeOpacity: 0.5, strokeDasharray: "2,3" }),
      Plot.lineY(budgets, { x: "turn", y: "budget", stroke: "currentColor", strokeWidth: 1.5, curve: "step-after" }),
      Plot.dot(changes.length > 200 ? [] : changes, { x: (row) => row.turn + 0.5, y: "total", symbol: "triangle2", fill: "currentColor", r: 4, dy: -8 }),
      Plot.ruleY([0]),
    ],
  });
  const svg = plot;
  svg.addEventListener("click", (event) => {
    const turn = Math.floor(plot.scale("x").invert(d3.pointer(event, svg)[0]));
    if (turns.some((entry) => entry.turn === turn)) location.hash = link(at, "turn", turn);
  });
  const name = `Tokens of each turn's largest call by part, beside the budget and the full history; ${turns.length} turns`;
  return [patterns(parts), legend(parts, "— budget", "┄ full history", "▼ the plan changed"), figure(name, plot),
    changes.length ? folded(`${changes.length} changes of the plan`, () => table("Changes of the plan", ["Turn", "Why"],
      changes.map((row) => [make("a", { href: link(at, "turn", row.turn) }, `turn ${row.turn}`), row.why]))) : null];
}

function chooser(data, at, number) {
  const last = d3.max(data.turns, (turn) => turn.turn) || 1;
  const go = (turn) => { location.hash = link(at, "turn", Math.max(1, Math.min(last, turn))); };
  const input = make("input", { type: "number", id: "chosen", min: 1, max: last, value: number || last,
    onchange: (event) => go(Number(event.target.value)) });
  const step = (label, by) => make("button", { type: "button", onclick: () => go((number || last) + by) }, label);
  return make("div", { class: "controls" }, step("← Earlier", -1), make("label", { for: "chosen" }, "Turn"), input, step("Later →", 1));
}

async function contextView(at) {
  const data = await sessionOf(at);
  const rows = data.turns.slice(-200).map((turn) => [
    make("a", { href: link(at, "turn", turn.turn) }, `turn ${turn.turn}`), turn.efforts.join(", "),
    turn.calls.length, turn.calls.length ? d3.max(turn.calls, sum) : 0, turn.full_history || 0, turn.status]);
  return [make("h2", {}, "What the model was sent"), chooser(data, at, 0), ...contextFigure(data, at),
    folded("The figure as a table (the last 200 turns)", () => table("Calls by turn",
      ["Turn", "Efforts", "Calls", "Largest call, tokens", "Full history, tokens", "Status"], rows)),
    live(at)];
}

function happened(event) {
  const names = event.effort ? [event.effort] : event.efforts || [];
  const how = event.auto ? " by itself" : "";
  return `${event.type}${how}: ${names.join(", ") || "–"}`;
}

function counted(event) {
  const words = (event.words || []).join(", ");
  return `${event.effort} counted as mentioned${event.kind ? ` by ${event.kind}` : ""}${words ? `: ${words}` : ""}`;
}

function callTable(calls) {
  const parts = partsOf(calls);
  const rows = calls.map((call, at) => [`call ${at + 1}`, ...parts.map(([key]) => call.tokens[key] || 0), sum(call),
    call.budget || "", reason(call)]);
  return table("Calls of this turn, tokens by part", ["Call", ...parts.map(([, label]) => label), "Sent", "Budget", "The plan changed"], rows);
}

function messageOf(message) {
  const calls = (message.calls || []).map((call) => box(`${call.name} ${JSON.stringify(call.args, null, 1)}`));
  const other = (message.other || []).length ? make("p", { class: "quiet" }, `also: ${message.other.join(", ")}`) : null;
  const text = message.text ? box(message.text) : null;
  return make("section", { class: "panel" }, make("h3", {}, message.speaker), text, calls, other);
}

function promptOf(at, turn, number) {
  const place = make("div", {});
  const draw = async () => {
    const prompt = await remembered("prompt",
      { user: at.user, session: at.name, tip: at.tip, turn: turn.turn, call: number });
    const sign = { same: " ", came: "+", left: "−" };
    const head = make("p", { class: prompt.exact ? "quiet" : "why" },
      prompt.exact ? "Exactly what was sent: the digests are equal." : `Reconstructed: ${prompt.why || "not what was sent, byte for byte"}.`);
    const messages = prompt.messages.map((message) => make("section", { class: `panel ${{ came: "come", left: "left" }[message.change] || ""}` },
      make("h3", {}, `${sign[message.change] || ""} ${message.part} · ${message.speaker} · ${tokens(message.tokens)} tokens`),
      message.text ? box(message.text) : null,
      message.calls.map((call) => box(`${call.name} ${JSON.stringify(call.args, null, 1)}`))));
    place.replaceChildren(head, make("p", { class: "quiet" }, "+ came since the call before, − left since the call before."), ...messages);
  };
  draw().catch((error) => place.replaceChildren(make("p", { class: "why" }, error.message)));
  return place;
}

async function turnView(at) {
  const number = Number(at.item);
  const [data, turn] = await Promise.all([sessionOf(at), turnOf(at, number)]);
  if (!turn) return [make("h2", {}, `Turn ${at.item}`), chooser(data, at, number), make("p", {}, "This turn is not here.")];
  const lines = [...turn.events.map(happened), ...turn.mentions.map(counted)];
  const prompts = whole ? [make("p", { class: "quiet" }, "The prompts of the calls are not in this file: `ebbtide inspect` shows them.")] : turn.calls.map((call, place) => folded(`The prompt of call ${place + 1}`, () => promptOf(at, turn, place)));
  const standing = data.efforts.map((effort) => [effort, stateAt(effort, number)]).filter(([, state]) => state);
  return [
    make("h2", {}, `Turn ${turn.turn}`), make("p", { class: "quiet" }, `${day(turn.at)} UTC · ${turn.status} · ${turn.efforts.join(", ") || "ambient"}`),
    chooser(data, at, number),
    turn.calls.length ? callTable(turn.calls) : make("p", { class: "quiet" }, "No model was called in this turn."),
    make("div", { class: "grid" },
      make("div", {}, make("h2", {}, "Messages"), turn.messages.map(messageOf)),
      make("div", {}, make("h2", {}, "What happened"),
        lines.length ? make("ul", {}, lines.map((line) => make("li", {}, line))) : make("p", { class: "quiet" }, "Nothing changed."),
        make("h2", {}, "Efforts after this turn"),
        table("Efforts after this turn", ["Effort", "State", "Why"], standing.map(([effort, state]) =>
          [make("a", { href: link(at, "efforts", effort.id) }, effort.id), state.state,
            `${state.auto ? "by itself, " : ""}${state.type} in turn ${state.turn}`])))),
    make("h2", {}, "What was sent"), ...prompts,
  ];
}

function stateAt(effort, turn) {
  return effort.changes.filter((change) => change.turn <= turn).at(-1);
}

function effortFigure(data, at) {
  const last = (d3.max(data.turns, (turn) => turn.turn) || 1) + 1;
  const newest = data.efforts.slice(-60);
  const rows = newest.flatMap((effort) => effort.changes.map((change, place) => ({ effort: effort.id, ...change,
    end: effort.changes[place + 1]?.turn ?? last }))).filter((row) => row.end > row.turn);
  const names = new Set(newest.map((effort) => effort.id));
  const mentions = data.turns.flatMap((turn) => turn.mentions.filter((event) => names.has(event.effort))
    .map((event) => ({ turn: turn.turn, effort: event.effort })));
  const plot = Plot.plot({
    width: width(), height: 60 + 26 * newest.length, marginLeft: 150, style: { fontSize: "12px", background: "transparent" },
    x: { label: "turn →", domain: [1, last], grid: true },
    y: { label: null, domain: newest.map((effort) => effort.id), tickFormat: (name) => (name.length > 20 ? `${name.slice(0, 19)}…` : name) },
    marks: [
      Plot.barX(rows, { x1: "turn", x2: "end", y: "effort", fill: (row) => `url(#fill-${row.state})`, insetTop: 3, insetBottom: 3 }),
      Plot.dot(mentions, { x: (row) => row.turn + 0.5, y: "effort", r: 3, fill: "white", stroke: "black" }),
    ],
  });
  return [patterns(STATES), legend(STATES, "○ mentioned"), figure(`Efforts by turn: open, expanded, concluded, evicted; ${newest.length} efforts`, plot)];
}

async function effortsView(at) {
  const data = await sessionOf(at);
  if (!data.efforts.length) return [make("h2", {}, "Efforts"), make("p", {}, "No effort was opened in this session.")];
  const chosen = data.efforts.find((effort) => effort.id === at.item);
  const rows = [...data.efforts].reverse().map((effort) => [make("a", { href: link(at, "efforts", effort.id) }, effort.id),
    effort.changes.at(-1).state, effort.changes.at(-1).turn, effort.tokens || 0, effort.summary || effort.goal || ""]);
  const detail = chosen ? [make("h2", {}, chosen.id), make("p", {}, chosen.summary || chosen.goal || ""),
    table(`What happened to ${chosen.id}`, ["Turn", "State", "Event"], chosen.changes.map((change) =>
      [make("a", { href: link(at, "turn", change.turn) }, `turn ${change.turn}`), change.state, `${change.auto ? "by itself: " : ""}${change.type}`])),
    table(`Mentions of ${chosen.id}`, ["Turn", "Why it counted"], data.turns.flatMap((turn) => turn.mentions
      .filter((event) => event.effort === chosen.id).map((event) => [make("a", { href: link(at, "turn", turn.turn) }, `turn ${turn.turn}`), counted(event)])))] : [];
  return [make("h2", {}, "Efforts by turn"), ...effortFigure(data, at), ...detail,
    table("Efforts, the newest first", ["Effort", "State", "Since turn", "Log, tokens", "Summary or goal"], rows)];
}

async function searchView(at) {
  const input = make("input", { type: "search", id: "query", value: at.query, size: 40 });
  const form = make("form", { class: "controls", role: "search", onsubmit: (event) => {
    event.preventDefault();
    location.hash = `#/${at.key}/search?q=${encodeURIComponent(input.value)}`;
  } }, make("label", { for: "query" }, "Search"), input, make("button", {}, "Search"));
  if (!at.query) return [make("h2", {}, "Search"), form];
  const found = await fetched("search", { user: at.user, session: at.name, tip: at.tip, query: at.query });
  const rows = found.results.map((result) => [result.score == null ? "" : result.score.toFixed(2),
    result.turn ? make("a", { href: link(at, "turn", result.turn) }, `turn ${result.turn}`) : "", result.effort || "ambient",
    result.shown ? "shown" : "", make("span", { class: "text" }, result.text || "")]);
  return [make("h2", {}, "Search"), form, rows.length
    ? table(`Passages for “${at.query}”, the best first; “shown” is what the model gets`, ["Score", "Turn", "Effort", "Model", "Passage"], rows)
    : make("p", {}, found.why || "Nothing is found.")];
}

async function costView(at) {
  const { turns, metrics } = await sessionOf(at);
  const rows = [];
  let sent = 0, full = 0;
  for (const turn of turns) {
    for (const call of turn.calls) sent += sum(call);
    full += (turn.full_history || 0) * turn.calls.length;
    if (turn.calls.length) rows.push({ turn: turn.turn, tokens: sent, kind: "sent" }, { turn: turn.turn, tokens: full, kind: "full history" });
  }
  const thin = rows.length < 1600 ? rows : rows.filter((_, place) => place % (2 * Math.ceil(rows.length / 1600)) < 2);
  const line = (kind, extra) => Plot.lineY(thin.filter((row) => row.kind === kind), { x: "turn", y: "tokens", stroke: "currentColor", ...extra });
  const plot = Plot.plot({ width: width(), height: 300, marginLeft: 60, style: { fontSize: "12px", background: "transparent" },
    x: { label: "turn →" }, y: { label: "↑ tokens so far", grid: true, tickFormat: "s" },
    marks: [line("sent", { strokeWidth: 2 }), line("full history", { strokeDasharray: "2,3" }),
      Plot.text(thin, Plot.selectLast({ x: "turn", y: "tokens", z: "kind", text: "kind", textAnchor: "end", dy: -8 }))] });
  const usage = turns.flatMap((turn) => turn.calls.map((call) => call.usage).filter(Boolean));
  const total = (key) => d3.sum(usage, (entry) => entry[key] || 0);
  const cached = d3.sum(usage, (entry) => entry.input_token_details?.cache_read || 0);
  const facts = Object.entries(metrics).map(([name, value]) => [name.replaceAll("_", " "),
    value == null ? "–" : typeof value === "number" ? (Number.isInteger(value) ? tokens(value) : value.toFixed(3)) : String(value)]);
  return [make("h2", {}, "Tokens, call by call"), figure("Tokens sent so far, beside the full history", plot),
    usage.length ? table("As the provider reported them", ["Input", "of it cached", "Output"], [[total("input_tokens"), cached, total("output_tokens")]]) : null,
    make("h2", {}, "Metrics"), table("Metrics of this session", ["Metric", "Value"], facts)];
}

async function branchesView(at) {
  const data = await sessionOf(at);
  const rows = data.branches.map((end) => [make("a", { href: `#/${at.key}/context?tip=${encodeURIComponent(`${end.turn}:${end.id}`)}` }, end.id.slice(0, 12)),
    end.turn, end.id === data.session.id ? "shown here" : ""]);
  return [make("h2", {}, "Branches"), make("p", { class: "quiet" }, "A run that goes on from an older checkpoint starts a branch; a branch sees its own past."),
    table("The end of each branch", ["Branch", "Turns", ""], rows)];
}

async function memoriesView(at) {
  const { memories } = await fetched("memories", { user: at.user });
  const rows = memories.map((memory) => [memory.id, memory.in_attention ? "in attention" : memory.suppressed ? "suppressed" : "faded",
    memory.effective == null ? "" : memory.effective.toFixed(1), memory.fades || "", memory.why || ""]);
  return [make("h2", {}, "Memories across sessions"), rows.length
    ? table("Memories of this user, the strongest first", ["Memory", "State", "Salience now", "Fades", "Why"], rows)
    : make("p", {}, "This user has no memories across sessions.")];
}

function live(at) {
  if (whole || at.tip) return null;
  const status = make("p", { class: "quiet", role: "status" }, "Live: waits for the next turn.");
  const source = new EventSource(`api/live?${queryOf({ user: at.user, session: at.name })}`);
  source.addEventListener("turn", () => { cache.clear(); source.close(); draw(); });
  source.addEventListener("error", () => { status.textContent = "Live: no connection."; });
  sources.push(source);
  return status;
}

const sources = [];

async function draw() {
  const at = whole ? { ...place(), key: place().key || keyOf(whole.session), user: whole.session.user, name: whole.session.name } : place();
  const number = ++shown;
  sources.splice(0).forEach((source) => source.close());
  head(at);
  const view = at.name ? { context: contextView, turn: turnView, efforts: effortsView, search: searchView, cost: costView,
    branches: branchesView, memories: memoriesView }[at.view] : sessionsView;
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
addEventListener("hashchange", () => { draw().then(() => main.focus()); });
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(draw, 200); });
draw();
