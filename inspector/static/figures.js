"use strict";
// The figures: each has one name for who hears the page, and its data in a table beside it.

const LABELS = JSON.parse(document.body.dataset.labels);
const COLOURS = {
  system: ["#6b7280", ""], tools: ["#9aa3af", "/"], memory: ["#2f7ebc", "-"], quotes: ["#7fb7df", "."], expanded: ["#c26a1c", "x"],
  turns: ["#3f9464", "|"], open: ["#8cc9a1", "\\"], anchor: ["#8b5fb0", "o"], hints: ["#c9a0dc", "/"], turn: ["#c9a227", "."],
  "state-open": ["#3f9464", ""], "state-expanded": ["#c26a1c", "x"], "state-concluded": ["#2f7ebc", "-"], "state-evicted": ["#9aa3af", "."],
};
const PARTS = Object.entries(LABELS.parts).map(([key, label]) => [key, label, ...COLOURS[key]]);
const STATES = Object.entries(LABELS.states).map(([state, label]) => [`state-${state}`, label, ...COLOURS[`state-${state}`]]);
const ATTENTION = { attended: "#2f7ebc", suppressed: "#9aa3af" };
const STROKES = { "/": "M0,6L6,0", "\\": "M0,0L6,6", x: "M0,6L6,0M0,0L6,6", "-": "M0,3H6", "|": "M3,0V6" };
const MOST_BARS = 400;
const MOST_EFFORTS = 60;
const wholeNumber = (value) => (Number.isInteger(value) ? String(value) : "");
// A turn fills the room from its number to the next: its tick stands in the middle.
const between = (last) => ({ ticks: d3.ticks(1, last - 1, Math.min(10, last - 1)).filter(Number.isInteger).map((turn) => turn + 0.5), tickFormat: (at) => String(at - 0.5) });
const STYLE = { fontSize: "12px", background: "transparent" };

// Fills that differ without colour: each kind has a pattern over its colour.
function patterns(kinds) {
  const svg = d3.create("svg").attr("width", 0).attr("height", 0).attr("aria-hidden", "true").attr("class", "patterns");
  const defs = svg.append("defs");
  for (const [key, , colour, sign] of kinds) {
    const pattern = defs.append("pattern").attr("id", `fill-${key}`).attr("width", 6).attr("height", 6)
      .attr("patternUnits", "userSpaceOnUse");
    pattern.append("rect").attr("width", 6).attr("height", 6).attr("fill", colour);
    if (STROKES[sign]) pattern.append("path").attr("d", STROKES[sign]).attr("stroke", "#fff").attr("stroke-width", 1.2);
    if (sign === "o") pattern.append("circle").attr("cx", 3).attr("cy", 3).attr("r", 1.8).attr("fill", "none").attr("stroke", "#fff");
    if (sign === ".") pattern.append("circle").attr("cx", 3).attr("cy", 3).attr("r", 1.1).attr("fill", "#fff");
  }
  return svg.node();
}

function legend(kinds, ...lines) {
  const entries = kinds.map(([key, label]) => make("li", {}, swatch(key), label));
  return make("ul", { class: "legend" }, entries, lines.map((line) => make("li", { class: "quiet" }, line)));
}

// Plot names groups by aria-label, which says nothing to a reader: the figure has one name. `plotted`
// draws it, again where the width of the page changed.
function figure(name, plotted) {
  const frame = make("figure", {});
  frame.redraw = () => {
    const plot = plotted();
    const svg = plot.tagName.toLowerCase() === "svg" ? plot : plot.querySelector("svg:last-of-type");
    for (const part of svg.querySelectorAll("[aria-label]")) part.removeAttribute("aria-label");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", name);
    frame.replaceChildren(plot);
  };
  frame.redraw();
  return frame;
}

const width = () => Math.max(320, Math.min(1400, main.clientWidth - 32));
const isNarrow = () => width() < 600;

function partsOf(calls) {
  const known = new Set(PARTS.map(([key]) => key));
  const used = new Set(calls.flatMap((call) => Object.keys(call.tokens).filter((key) => call.tokens[key])));
  const others = [...used].filter((key) => !known.has(key));
  const all = [...PARTS, ...others.map((key, at) => [key, key, d3.schemeTableau10[at % 10], "\\"])];
  return all.filter(([key]) => used.has(key));
}

function bars(entries, parts) {
  const size = Math.ceil(entries.length / MOST_BARS);
  const rows = [];
  for (let at = 0; at < entries.length; at += size) {
    const group = entries.slice(at, at + size).filter((turn) => turn.calls.length);
    if (!group.length) continue;
    const largest = d3.greatest(group, (turn) => turn.largest);
    const call = d3.greatest(largest.calls, (one) => one.total);
    let from = 0;
    for (const [part, label] of parts) {
      const size_ = call.tokens[part];
      if (!size_) continue;
      rows.push({ turn: entries[at].turn, end: entries[at].turn + size, part, label, tokens: size_, of: largest.turn, from, to: from + size_ });
      from += size_;
    }
  }
  return rows;
}

// Tokens of each turn's largest call by part; `open(turn, part)` is called for a click on a part.
// With another `unit` the entries are the calls of one turn.
function contextFigure(entries, open, unit = "turn") {
  const calls = entries.flatMap((turn) => turn.calls);
  const parts = partsOf(calls);
  const rows = bars(entries, parts);
  const every = Math.ceil(entries.length / MOST_BARS);
  const some = entries.filter((_, place) => place % every === 0 || place === entries.length - 1);
  const budgets = some.filter((turn) => turn.calls.some((call) => call.budget))
    .map((turn) => ({ turn: turn.turn, budget: turn.calls.find((call) => call.budget).budget }));
  const changes = entries.flatMap((turn) => turn.calls.filter((call) => call.why).slice(0, 1)
    .map((call) => ({ turn: turn.turn, why: call.why, total: turn.largest })));
  const top = d3.max([...calls.map((call) => call.total), ...budgets.map((row) => row.budget)]) || 1;
  const ceiling = 1.5 * top;
  const all = some.filter((turn) => turn.last_full_history != null);
  const above = all.findIndex((turn) => turn.last_full_history > ceiling);
  const full = above < 0 ? all : all.slice(0, above);
  const end = all.length ? `full history${above < 0 ? "" : ` ↗ ${short(all.at(-1).last_full_history)} in turn ${all.at(-1).turn}`} ` : "";
  const last = (d3.max(entries, (turn) => turn.turn) || 1) + 1;
  const plotted = () => {
    const plot = Plot.plot({
      width: width(), height: isNarrow() ? 280 : 380, marginLeft: 48, marginTop: 26, marginRight: 12, marginBottom: 40, style: STYLE,
      x: { label: `${unit} →`, domain: [1, last], ...between(last) },
      y: { label: unit === "turn" ? "↑ tokens of the largest call" : "↑ tokens", grid: true, tickFormat: "s" },
      marks: [
        Plot.rectY(rows, { x1: "turn", x2: "end", y1: "from", y2: "to", fill: (row) => `url(#fill-${row.part})`, insetLeft: 0.4, insetRight: 0.4,
          title: (row) => `${unit} ${row.of}: ${row.label}, ${tokens(row.tokens)} tokens` }),
        Plot.lineY(full, { x: (turn) => turn.turn + 0.5, y: "last_full_history", stroke: "currentColor", strokeOpacity: 0.65, strokeWidth: 1.5, strokeDasharray: "3,3" }),
        Plot.text(full.slice(-1), { x: (turn) => turn.turn + 0.5, y: "last_full_history", text: () => end, textAnchor: (full.at(-1)?.turn ?? 0) > last / 4 ? "end" : "start", dx: (full.at(-1)?.turn ?? 0) > last / 4 ? -8 : 8, stroke: "var(--paper)", fill: "currentColor" }),
        Plot.lineY(budgets.length ? [...budgets, { ...budgets.at(-1), turn: last }] : [], { x: "turn", y: "budget", stroke: "currentColor", strokeWidth: 1.5, curve: "step-after" }),
        Plot.text(budgets.slice(-1), { x: last, y: "budget", text: () => "budget", textAnchor: "end", dy: -8, stroke: "var(--paper)", fill: "currentColor" }),
        Plot.dot(changes.length > 200 ? [] : changes, { x: (row) => row.turn + 0.5, y: "total", symbol: "triangle", rotate: 180, fill: "currentColor", r: 4, dy: -9,
          title: (row) => `${unit} ${row.turn}: ${row.why}` }),
        Plot.ruleY([0]),
      ],
    });
    plot.addEventListener("click", (event) => {
      const [x, y] = d3.pointer(event, plot);
      const [turn, size] = [Math.floor(plot.scale("x").invert(x)), plot.scale("y").invert(y)];
      const hit = rows.find((row) => row.turn <= turn && turn < row.end && row.from <= size && size < row.to);
      if (entries.some((entry) => entry.turn === turn)) open(hit && hit.end - hit.turn > 1 ? hit.of : turn, hit?.part);
    });
    plot.classList.add("clicked");
    return plot;
  };
  const name = unit === "turn" ? `Tokens of each turn's largest call by part, beside the budget and the full history; ${turns(entries.length)}`
    : `Tokens of the ${entries.length} calls of this turn by part, beside the budget`;
  return { parts, changes, drawn: [patterns(parts), legend(parts, "▼ the plan changed"), figure(name, plotted)] };
}

// The states of efforts over the turns, and when each was mentioned.
function effortFigure(data, efforts, open) {
  const last = (d3.max(data.turns, (turn) => turn.turn) || 1) + 1;
  const rows = efforts.flatMap((effort) => effort.changes.map((change, place) => ({ effort: effort.id, ...change,
    end: effort.changes[place + 1]?.from ?? last }))).filter((row) => row.end > row.from);
  const uses = efforts.flatMap((effort) => effort.uses.map(([turn, why]) => ({ turn, why, effort: effort.id })));
  const room = isNarrow() ? 12 : 22;
  const plotted = () => {
    const plot = Plot.plot({
      width: width(), height: 54 + 30 * efforts.length, marginTop: 6, marginBottom: 40, marginLeft: isNarrow() ? 92 : 160, style: STYLE,
      x: { label: "turn →", domain: [1, last], grid: true, ...between(last) },
      y: { label: null, domain: efforts.map((effort) => effort.id), tickSize: 0, tickFormat: (name) => (name.length > room ? `${name.slice(0, room - 1)}…` : name) },
      marks: [
        Plot.barX(rows, { x1: "from", x2: "end", y: "effort", fill: (row) => `url(#fill-state-${row.state})`, insetTop: 4, insetBottom: 4, insetLeft: 0.5,
          title: (row) => `${row.effort}, turn ${row.turn}: ${row.did}` }),
        Plot.dot(uses, { x: (row) => row.turn + 0.5, y: "effort", r: 3.5, fill: "white", stroke: "black",
          title: (row) => `turn ${row.turn} mentions ${row.effort}: ${row.why}` }),
      ],
    });
    plot.addEventListener("click", (event) => {
      const { apply, bandwidth } = plot.scale("y");
      const at = d3.pointer(event, plot)[1];
      const hit = efforts.find((effort) => apply(effort.id) <= at && at < apply(effort.id) + bandwidth);
      if (hit) open(hit.id);
    });
    plot.classList.add("clicked");
    return plot;
  };
  return [patterns(STATES), legend(STATES, "○ mentioned, concluded or asked for: its countdown begins again"), figure(`Efforts by turn: open, expanded, concluded, evicted; ${efforts.length} efforts`, plotted)];
}

// Tokens so far, sent and as full history would have been.
function costFigure(entries) {
  const rows = entries.filter((turn) => turn.calls.length).flatMap(({ turn, so_far: [sent, full] }) =>
    [{ turn, tokens: sent, kind: "sent" }, { turn, tokens: full, kind: "full history" }]);
  const [sent, full] = entries.at(-1)?.so_far ?? [0, 0];
  const thin = rows.length < 1600 ? rows : rows.filter((_, place) => place % (2 * Math.ceil(rows.length / 1600)) < 2);
  const line = (kind, extra) => Plot.lineY(thin.filter((row) => row.kind === kind), { x: "turn", y: "tokens", stroke: "currentColor", ...extra });
  const plotted = () => Plot.plot({ width: width(), height: 290, marginLeft: 52, marginTop: 26, marginBottom: 40, style: STYLE,
    x: { label: "turn →", tickFormat: wholeNumber }, y: { label: "↑ tokens so far", grid: true, tickFormat: "s", zero: true },
    marks: [line("sent", { strokeWidth: 2.5 }), line("full history", { strokeDasharray: "3,3" }),
      ["sent", "full history"].map((kind) => Plot.text(thin.filter((row) => row.kind === kind).slice(-1),
        { x: "turn", y: "tokens", text: "kind", textAnchor: "end", dy: (kind === "sent") === (sent > full) ? -12 : 14, dx: -6, stroke: "var(--paper)", fill: "currentColor" }))] });
  return figure("Tokens sent so far, beside the full history", plotted);
}

// Branches as lanes: each begins where it left another one.
function branchFigure(branches, shownId) {
  const lanes = branches.map((end, lane) => ({ ...end, lane, start: end.from ? end.from.turn : 0 }));
  const laneOf = new Map(lanes.map((end) => [end.id, end.lane]));
  const links = lanes.filter((end) => end.from).map((end) => ({ x: end.start, y1: laneOf.get(end.from.id), y2: end.lane }));
  const plotted = () => Plot.plot({ width: width(), height: 60 + 30 * lanes.length, marginLeft: 20, marginRight: 110, style: STYLE,
    x: { label: "turn →", domain: [0, d3.max(lanes, (end) => end.turn) + 1], grid: true, tickFormat: wholeNumber }, y: { axis: null, domain: [-0.5, lanes.length - 0.5], reverse: true },
    marks: [
      Plot.ruleY(lanes, { x1: "start", x2: "turn", y: "lane", stroke: "currentColor", strokeWidth: (end) => (end.id === shownId ? 3 : 1.2) }),
      Plot.ruleX(links, { x: "x", y1: "y1", y2: "y2", stroke: "currentColor" }),
      Plot.dot(lanes, { x: "turn", y: "lane", r: 4, fill: (end) => (end.id === shownId ? "currentColor" : "var(--paper)"), stroke: "currentColor" }),
      Plot.text(lanes, { x: "turn", y: "lane", text: (end) => `${end.id.slice(0, 8)}${end.id === shownId ? " (shown)" : ""}`, textAnchor: "start", dx: 10 }),
    ] });
  return figure(`Branches as a tree: ${branches.length} ends`, plotted);
}

// The attention of memories by day, from its law: before today dashed, then as it will be if nothing is used.
function attentionFigure(memories, threshold) {
  const rows = memories.flatMap((memory) => [...memory.curve, [0, memory.effective]].map(([at, attention]) => ({ id: memory.id, state: memory.state, at, attention })))
    .sort((one, other) => one.at - other.at);
  const [first, end] = [Math.min(-1, d3.min(memories, (memory) => -memory.days)), 60];
  const past = rows.filter((row) => row.at <= 0), future = rows.filter((row) => row.at >= 0 && row.at <= end);
  const stroke = { x: "at", y: "attention", z: "id", stroke: (row) => ATTENTION[row.state] };
  let free = Infinity;  // labels stand below each other
  const now = d3.sort(memories, (memory) => -memory.effective).slice(0, 8).map((memory) => {
    free = Math.min(free - 6, memory.effective + 4);
    return { id: memory.id, name: `${clipped(memory.id, 34)}${memory.state === "suppressed" ? ", suppressed" : ""}`, at: 0, attention: memory.effective, label: free };
  });
  const plotted = () => Plot.plot({ width: width(), height: 330, marginLeft: 40, marginTop: 26, marginBottom: 40, style: STYLE,
    x: { label: "days from today →", domain: [first, end] }, y: { label: "↑ attention", domain: [0, 100], grid: true },
    marks: [
      Plot.lineY(past, { ...stroke, strokeDasharray: "3,3" }), Plot.lineY(future, { ...stroke, strokeWidth: 2 }),
      Plot.ruleY([threshold], { stroke: "currentColor", strokeWidth: 1.5 }),
      Plot.text([threshold], { x: end, y: (value) => value, text: (value) => `threshold ${value}`, textAnchor: "end", dy: 9, stroke: "var(--paper)", fill: "currentColor" }),
      Plot.ruleX([0], { stroke: "currentColor", strokeOpacity: 0.4 }),
      Plot.dot(now, { x: "at", y: "attention", r: 3.5, fill: "currentColor", title: "id" }),
      Plot.text(now, { x: "at", y: "label", text: "name", textAnchor: "start", dx: 8, stroke: "var(--paper)", fill: "currentColor" }),
    ] });
  const kinds = Object.entries(ATTENTION).map(([state, colour]) => make("li", {}, swatch("", colour), LABELS.memories[state]));
  const dashed = make("li", { class: "quiet" }, "dashed: before today");
  return [make("ul", { class: "legend" }, kinds, dashed), figure(`Attention of ${memories.length} memories by day, and the threshold below which one fades`, plotted)];
}
