"use strict";
// The views: each returns the elements of the page for a place.

const VIEWS = { context: ["Context", contextView], efforts: ["Efforts", effortsView], search: ["Search", searchView], cost: ["Cost", costView],
  branches: ["Branches", branchesView], memories: ["Memories", memoriesView] };

const turnLink = (at, turn) => make("a", { class: "turn", href: link(at, "turn", turn) }, `turn ${turn}`);

async function sessionsView() {
  const all = await fetched("sessions", {});
  const rows = (filter) => all.filter((entry) => `${entry.user} ${entry.label} ${entry.said}`.toLowerCase().includes(filter))
    .map((entry) => [make("a", { href: `#/${keyOf(entry)}/context` }, entry.label), entry.user || "(anonymous)", entry.turn, day(entry.at), entry.said]);
  const list = make("div", {});
  const draw = (filter) => list.replaceChildren(rows(filter).length
    ? table("Sessions, the newest first", ["Session", "User", "Turns", "Last turn (UTC)", "Last message"], rows(filter), { wide: true, stacked: true })
    : make("p", {}, all.length ? "No session has that in its name, user or last message." : "There is no session in this archive yet."));
  draw("");
  const filter = make("input", { type: "search", id: "filter", oninput: (event) => draw(event.target.value.toLowerCase()) });
  const intro = quiet("Choose a session to see what its model was sent in each turn, what left the prompt, and why.");
  return [make("h2", {}, "Sessions"), intro, make("div", { class: "controls" }, make("label", { for: "filter" }, "Filter"), filter), list];
}

function chooser(data, at, number) {
  const last = d3.max(data.turns, (turn) => turn.turn) || 1;
  const first = d3.min(data.turns, (turn) => turn.turn) || 1;
  const go = (turn) => { location.hash = link(at, "turn", Math.max(first, Math.min(last, turn))); };
  const input = make("input", { type: "number", id: "chosen", min: first, max: last, value: number || last,
    onchange: (event) => go(Number(event.target.value)) });
  const step = (label, by) => make("button", { type: "button", disabled: (number || last) + by < first || (number || last) + by > last,
    onclick: () => go((number || last) + by) }, label);
  return make("div", { class: "controls" }, step("← Earlier", -1), make("label", { for: "chosen" }, "Turn"), input,
    number ? null : make("button", { type: "button", onclick: () => go(Number(input.value)) }, "Open"), step("Later →", 1));
}

// --- the context of every call ----------------------------------------------------------------

// What was sent, saved and cached, as the payload has it for a session and for a turn.
function sentFacts(figures, sent, largest) {
  const { full_history: full, saved, repeated, cached, cached_share: share, read } = figures;
  return [
    ["Sent", short(figures.sent), sent],
    full ? ["Full history", short(full), `tokens, had everything said been sent, without the memory's instructions and tools${saved ? `: ${percent(saved)} saved` : ""}`] : null,
    largest,
    repeated ? ["Repeated prefix", percent(repeated), "begins as the call before did: a provider can serve it from its cache"] : null,
    cached ? ["Cached by the provider", percent(share), `${short(cached)} of ${short(read)} input tokens`] : null,
  ];
}

function sessionFacts({ figures, session }) {
  const largest = figures.largest ? ["Largest call", short(figures.largest), "tokens"] : null;
  return facts(sentFacts(figures, `tokens in all calls of ${turns(session.turn)}`, largest));
}

function standingTable(data, at, standing) {
  const rows = Object.entries(standing).map(([name, entry]) => [nameOf(data, at, name), stateOf(entry.state), turnLink(at, entry.last), entry.leaves]);
  if (!rows.length) return quiet("No effort is in the prompt: the turns themselves are.");
  return table("Efforts in the prompt", ["Effort", "Form", "Last mention", "Leaves"], rows, { hidden: true, wide: true, stacked: true });
}

function stateOf(state) {
  const [key, label, colour] = STATES.find(([known]) => known === `state-${state}`);
  return make("span", { class: "state" }, swatch(key, colour), label);
}

async function contextView(at) {
  const data = await sessionOf(at);
  const drawn = contextFigure(data.turns, (turn, part) => { location.hash = link(at, "turn", turn, { part }); });
  const rows = data.turns.slice(-200).reverse().map((turn) => [
    turnLink(at, turn.turn), turn.efforts.join(", "),
    turn.calls.length, turn.largest || 0, turn.last_full_history || 0, turn.status]);
  return [patterns(STATES), make("h2", {}, "What the model was sent"), sessionFacts(data), chooser(data, at, 0), ...drawn.drawn,
    quiet("Click a bar to open its turn. The plan says which summaries, logs and turns the prompt shows; between two changes of it (▼) the prompt grows at its end only, so that a provider's cache holds."), live(at, data.session),
    make("h2", {}, `In the prompt after turn ${data.session.turn}`), standingTable(data, at, data.standing),
    drawn.changes.length ? folded(`Why the prompt changed: ${drawn.changes.length} changes of the plan`, () => table("Changes of the plan", ["Turn", "Because"],
      drawn.changes.map((row) => [turnLink(at, row.turn), row.why]).reverse(), { hidden: true, wide: true })) : null,
    folded("The figure as a table (the last 200 turns)", () => table("Calls by turn",
      ["Turn", "Efforts", "Calls", "Largest call, tokens", "Full history, tokens", "Status"], rows, { hidden: true, wide: true })),
    choice == null && !whole ? quiet("This page changes nothing: ebbtide inspect --actions can expand, conclude, erase, suppress and forget.") : null];
}

// --- one turn ---------------------------------------------------------------------------------

function turnFacts(turn, own) {
  const sent = `tokens in ${turn.calls.length} ${turn.calls.length === 1 ? "call" : "calls"}, each of at most ${tokens(turn.calls[0]?.budget)}`;
  return facts([
    ...sentFacts({ ...turn, ...own }, sent, null),
    turn.read ? ["Counted by the provider", short(turn.read), `in, ${short(turn.written ?? 0)} out${turn.asked ? `, with ${turn.asked} of the memory's own questions` : ""}`] : null,
    turn.money ? ["Money", turn.money, "at the prices of the cost view"] : null,
  ]);
}

function callTable(calls) {
  const parts = partsOf(calls);
  const rows = calls.map((call, at) => [make("span", { class: "turn" }, `call ${at + 1}`), ...parts.map(([key]) => call.tokens[key] || 0), call.total,
    call.budget || "", call.why]);
  return table("Calls of this turn, tokens by part", ["Call", ...parts.map(([, label]) => label), "Sent", "Budget", "The plan changed"], rows,
    { hidden: true, wide: true, stacked: true, marks: [null, ...parts.map(([key, , colour]) => swatch(key, colour))] });
}

function messageOf(message) {
  const calls = (message.calls || []).map((call) => box(`${call.name} ${JSON.stringify(call.args, null, 1)}`));
  const other = (message.other || []).length ? quiet(`also: ${message.other.join(", ")}`) : null;
  const text = message.text ? box(message.text) : null;
  const said = [text, calls, other].flat().filter(Boolean);
  if (message.type === "tool") return folded(make("span", { class: "line" }, make("b", {}, message.speaker), make("span", { class: "excerpt" }, clipped(message.text))), () => said);
  return make("section", { class: `said ${message.type}` }, make("h3", {}, message.speaker), said);
}

const SIGNS = { same: ["", ""], came: ["+", "came"], left: ["−", "left"] };

function promptMessage(message, part, why) {
  const [sign, word] = SIGNS[message.change] || ["", ""];
  const [key, label] = PARTS.find(([known]) => known === message.part) || [message.part, message.part];
  const said = message.text || message.calls.map((call) => `${call.name}(${Object.values(call.args || {}).filter((value) => value !== "").join(", ")})`).join(" ");
  const title = make("span", { class: "line" }, make("b", { class: "sign" }, sign), swatch(key, PARTS.find(([known]) => known === key)?.[2]),
    make("b", {}, label), make("span", { class: "quiet" }, `${message.speaker}, ${tokens(message.tokens)} tokens${word ? `, ${word}` : ""}`), make("span", { class: "excerpt" }, clipped(said)));
  const content = () => [message.change === "left" && why ? make("p", { class: "why" }, `It left because ${why}.`) : null,
    message.text ? box(message.text) : null, message.calls.map((call) => box(`${call.name} ${JSON.stringify(call.args, null, 1)}`))].flat().filter(Boolean);
  const isOpen = message.change === "came" || message.part === part;
  const element = folded(title, content, isOpen, { came: "come", left: "left" }[message.change] || "");
  element.dataset.part = message.part;
  return element;
}

function promptOf(at, turn, number, part) {
  const place = make("div", {}, quiet("Loading …"));
  const draw = async () => {
    const prompt = await promptAt(at, turn.turn, number);
    if (prompt.missing) throw new Error(prompt.missing);
    const call = turn.calls[number];
    const state = make("p", { class: prompt.exact ? "exact" : "why" }, prompt.exact
      ? "✓ Exactly what was sent: it was made again from the archive, and its digest is that taken when the model started."
      : `Reconstructed: ${prompt.why}.`);
    const { same = 0, came = 0, left = 0 } = prompt.beside;
    const what = quiet(`Beside the call before: ${same} messages stayed, ${came} came (+), ${left} left (−)${call.why ? `. The plan changed: ${call.why}` : ""}.`);
    const all = make("div", {}, prompt.messages.map((message) => promptMessage(message, part, call.why)));
    const switched = (open) => () => all.querySelectorAll("details").forEach((details) => { details.open = open; });
    place.replaceChildren(state, what, make("div", { class: "controls" }, make("button", { type: "button", onclick: switched(true) }, "Open all"),
      make("button", { type: "button", onclick: switched(false) }, "Close all")), all);
    if (part) all.querySelector(`[data-part="${CSS.escape(part)}"]`)?.scrollIntoView({ block: "center" });
  };
  draw().catch((error) => place.replaceChildren(make("p", { class: "why" }, `The prompt cannot be shown: ${error.message}.`)));
  return place;
}

// The calls of a long turn as a figure; a click opens the prompt of a call.
function rounds(turn, prompts) {
  if (turn.calls.length < 4) return [];
  return contextFigure(turn.calls.map((call, at) => ({ turn: at + 1, calls: [call], largest: call.total })), (call) => {
    prompts[call - 1].open = true;
    prompts[call - 1].scrollIntoView();
  }, "call").drawn;
}

async function turnView(at) {
  const number = Number(at.item);
  if (!Number.isInteger(number)) return [make("h2", {}, "Turn"), make("p", {}, `A turn has a number: “${clipped(at.item)}” is none.`)];
  const data = await sessionOf(at);
  if (!whole && !at.tip && number === data.session.turn + 1) {
    const why = make("p", {}, `Turn ${number} is not committed yet (running, or stopped at a breakpoint); it appears here when it ends.`);
    return [make("h2", {}, `Turn ${number}`), chooser(data, at, 0), why, live(at, data.session)];
  }
  const turn = await turnOf(at, number);
  if (!turn) return [make("h2", {}, `Turn ${at.item}`), chooser(data, at, number), make("p", {}, "This turn is not here.")];
  const own = data.turns.find((entry) => entry.turn === number);
  const last = turn.calls.length - 1;
  const prompts = turn.calls.map((call, place) => folded(`The prompt of call ${place + 1}: ${tokens(call.total)} tokens`, () => promptOf(at, turn, place, at.part), place === last));
  const question = turn.messages.find((message) => message.type === "human")?.text;
  return [patterns(STATES), make("h2", {}, `Turn ${turn.turn}`),
    quiet(`${day(turn.at)} UTC · ${turn.status} · ${turn.efforts.length ? `effort ${turn.efforts.join(", ")}` : "no effort"}`),
    question ? make("blockquote", {}, clipped(question, 280)) : null, chooser(data, at, number),
    ...(turn.calls.length ? [turnFacts(turn, own), ...rounds(turn, prompts), callTable(turn.calls)] : [quiet("No model was called in this turn.")]),
    make("div", { class: "grid" },
      make("div", { class: "beside" }, make("h2", {}, "What happened"),
        turn.happened.length ? make("ul", { class: "events" }, turn.happened.map(([name, text]) => make("li", {}, make("b", {}, nameOf(data, at, name)), ` ${text}`))) : quiet("Nothing changed in the memory."),
        make("h2", {}, "What was said"), turn.messages.map(messageOf), actions("turn", { thread_id: data.session.thread, turn: number }, at),
        make("h2", {}, "In the prompt afterwards"), standingTable(data, at, turn.standing)),
      make("div", {}, make("h2", {}, "What was sent"), prompts))];
}

const nameOf = (data, at, name) => (data.efforts.some((effort) => effort.id === name) ? make("a", { href: link(at, "efforts", name) }, name) : name);

// --- efforts ----------------------------------------------------------------------------------

function effortDetail(data, at, effort) {
  const changes = effort.changes.slice(-40).map((change) => [turnLink(at, change.turn), stateOf(change.state), change.did, change.why]);
  const uses = effort.uses.map(([turn, why]) => [turnLink(at, turn), why]).reverse();
  return make("section", { class: "panel chosen" }, make("h2", {}, effort.id),
    make("p", { class: "answer" }, effort.where),
    effort.summary ? make("p", {}, make("b", {}, "Summary: "), effort.summary) : null,
    effort.goal ? make("p", {}, make("b", {}, "Goal: "), effort.goal) : null,
    make("h3", {}, "Why it came and went"),
    table(`What happened to ${effort.id}`, ["Turn", "Since then", "What happened", "Because, or what was said"], changes, { hidden: true, wide: true, stacked: true }),
    uses.length ? folded(`${turns(uses.length)} that mentioned or used it, and why each counted`, () => table(`Mentions of ${effort.id}`, ["Turn", "Why it counted"], uses, { hidden: true, wide: true })) : null,
    make("div", { class: "controls" }, actions("effort", { thread_id: data.session.thread, effort: effort.id }, at, effort.changes.at(-1).state)));
}

async function effortsView(at) {
  const data = await sessionOf(at);
  if (!data.efforts.length) return [make("h2", {}, "Efforts"), make("p", {}, "No effort was opened in this session.")];
  const chosen = data.efforts.find((effort) => effort.id === at.item);
  const newest = data.efforts.slice(-MOST_EFFORTS);
  const shownOnes = chosen && !newest.includes(chosen) ? [chosen, ...newest.slice(1)] : newest;
  const rows = [...data.efforts].reverse().map((effort) => {
    const change = effort.changes.at(-1);
    return [make("a", { href: link(at, "efforts", effort.id), "aria-current": effort === chosen ? "true" : null }, effort.id), stateOf(change.state), change.turn,
      entryOf(data.standing, effort.id)?.leaves ?? "–", effort.tokens || "–", clipped(effort.summary || effort.goal || "", 200)];
  });
  return [make("h2", {}, "Efforts by turn"), quiet("An effort is a piece of work with a beginning and an end. Choose one to see why it is in the prompt or not."),
    ...effortFigure(data, shownOnes, (name) => { location.hash = link(at, "efforts", name); }), chosen ? effortDetail(data, at, chosen) : at.item ? make("p", {}, `No effort of this session is called “${clipped(at.item)}”.`) : null,
    make("h2", {}, "All efforts, the newest first"),
    table("All efforts, the newest first", ["Effort", "Now", "Since turn", "Leaves", "Tokens of its log as stored", "Summary or goal"], rows, { hidden: true, wide: true, stacked: true })];
}

// --- search -----------------------------------------------------------------------------------

async function searchView(at) {
  const input = make("input", { type: "search", id: "query", value: at.query, size: 40 });
  const form = make("form", { class: "controls", role: "search", onsubmit: (event) => {
    event.preventDefault();
    location.hash = `#/${at.key}/search?q=${encodeURIComponent(input.value)}`;
  } }, make("label", { for: "query" }, whole ? "Search the texts of this file" : "Search everything that was said"), input, make("button", {}, "Search"));
  const heading = make("h2", {}, "Search");
  if (whole) return [heading, quiet("This file is searched for words alone: for turns, efforts and summaries that have all of them, in any order. `ebbtide inspect` has the search of the tool search_efforts, with its scores."), form,
    ...(at.query ? [foundInFile(at)] : [])];
  if (!at.query) return [heading, quiet("It finds what left the prompt too. Results are those of the tool search_efforts, with the scores that the model does not see."), form];
  const found = await fetched("search", { user: at.user, session: at.name, tip: at.tip, query: at.query });
  const top = d3.max(found.results, (result) => result.score) || 1;
  const rows = found.results.map((result) => {
    const where = result.session ? { key: keyOf({ user: at.user, name: result.session }) } : at;
    const marks = [result.session, result.newest_with.length ? `the newest with ${result.newest_with.join(", ")}` : "", result.weak ? "weak" : ""];
    return [meter(result.score, top), turnLink(where, result.turn),
      result.effort ? make("a", { href: link(where, "efforts", result.effort) }, result.effort) : "–",
      [result.shown ? make("b", {}, "✓ given ") : "", marks.filter(Boolean).join("; ")], marked(result.pieces)];
  });
  const rest = [found.note, found.more && `${found.more} more turns match`, found.unmatched && `nothing says ${found.unmatched.join(", ")}`];
  const how = quiet(found.meaning ? "Searched by words and by meaning." : "Searched by words, in their other forms too; ebbtide inspect --embeddings minilm searches by meaning as well.", ...rest.filter(Boolean).map((text) => ` ${text}.`));
  return [heading, form, how, rows.length
    ? table(`${tokens(rows.length)} passages for “${at.query}”, the best first; “given” is what the tool search_efforts would give the model`, ["Score", "Turn", "Effort", "To the model", "Passage"], rows, { wide: true, stacked: true })
    : make("p", {}, found.why || "Nothing is found.")];
}

const MOST_FOUND = 100;

// What of the file has all words of the query, the newest first.
function foundInFile(at) {
  const words = at.query.toLowerCase().split(/\s+/).filter(Boolean);
  const places = [
    ...whole.efforts.flatMap((effort) => [effort.id, effort.goal, effort.summary].map((text) => [effort.changes.at(-1).turn, effort.id, text])),
    ...Object.values(whole.details).flatMap((turn) => turn.messages.map((message) => [turn.turn, turn.efforts[0], message.text])),
  ];
  const hits = places.filter(([, , text]) => text && words.every((word) => text.toLowerCase().includes(word))).sort((one, other) => other[0] - one[0]);
  if (!hits.length) return make("p", {}, "No turn, effort or summary of this file has all of these words.");
  const rows = hits.slice(0, MOST_FOUND).map(([turn, effort, text]) => [entryOf(whole.details, turn) ? turnLink(at, turn) : `turn ${turn}`,
    effort ? make("a", { href: link(at, "efforts", effort) }, effort) : "–", marked([around(text, words[0])])]);
  const most = hits.length > MOST_FOUND ? `, the newest ${MOST_FOUND} of ${tokens(hits.length)}` : "";
  return table(`Texts with all words of “${at.query}”${most}`, ["Turn", "Effort", "Text"], rows, { wide: true, stacked: true });
}

// The part of a text around a word of it.
function around(text, word) {
  const begin = Math.max(0, text.toLowerCase().indexOf(word) - 80);
  return `${begin ? "…" : ""}${clipped(text.slice(begin, begin + 400), 300)}`;
}

function meter(score, top) {
  if (score == null) return "";
  const bar = d3.create("svg").attr("width", 48).attr("height", 8).attr("aria-hidden", "true").attr("class", "swatch");
  bar.append("rect").attr("width", Math.max(1, (48 * score) / top)).attr("height", 8).attr("fill", "#2f7ebc");
  return make("span", { class: "score" }, score.toFixed(2), " ", bar.node());
}

// A text in pieces, of which each second one says words of the query.
const marked = (pieces) => make("span", { class: "text" }, pieces.map((piece, at) => (at % 2 ? make("mark", {}, piece) : piece)));

// --- cost -------------------------------------------------------------------------------------

const PRICES = [["input", "Input"], ["cached", "Cached input"], ["output", "Output"]];

// The fields stay while the reader types: `again` draws what follows from them.
function priceForm(again) {
  const given = prices();
  const fields = PRICES.flatMap(([key, label]) => [make("label", { for: `price-${key}` }, label),
    make("input", { type: "number", id: `price-${key}`, min: 0, step: "any", value: given[key] ?? "", onchange: (event) => {
      localStorage.setItem("ebbtide-prices", JSON.stringify({ ...prices(), [key]: event.target.value }));
      again();
    } })]);
  return make("div", { class: "controls" }, make("span", { class: "quiet" }, "Dollars per million tokens:"), fields);
}

async function costView(at) {
  const data = await sessionOf(at);
  const results = make("div", {}, costsOf(at, data));
  const again = async () => {
    const [asked, data_] = [priced(), await sessionOf(at)];
    if (asked === priced()) results.replaceChildren(...costsOf(at, data_));
  };
  const { costs, meanings = {}, ...figures } = data.metrics;
  const named = Object.entries(figures).filter(([, value]) => value != null).map(([name, value]) => [name.replaceAll("_", " "),
    typeof value === "number" ? (Number.isInteger(value) ? tokens(value) : value.toFixed(3)) : String(value), meanings[name] || ""]);
  return [make("h2", {}, "What it cost"), sessionFacts(data), whole ? null : priceForm(again), costFigure(data.turns), results,
    folded("All metrics of this session", () => table("Metrics of this session", ["Metric", "Value", "What it counts"], named, { hidden: true, wide: true }))];
}

function costsOf(at, { turns: entries, figures: all, metrics }) {
  const paid = (value) => (all.money ? [value || "–"] : []);
  const rows = entries.filter((turn) => turn.calls.length).slice(-200).reverse().map((turn) => [turnLink(at, turn.turn), turn.calls.length,
    turn.sent, turn.full_history || 0, turn.read || 0, turn.cached || 0, turn.written || 0, ...paid(turn.money)]);
  const purposes = metrics.costs.map((part) => [part.purpose, part.calls, part.read, part.cached, part.written, part.unreported, ...paid(part.money)]);
  return [...(all.read ? [facts([["Input", short(all.read), "as the provider counted"], ["Cached input", short(all.cached ?? 0), "of it, from the provider's cache"], ["Output", short(all.written ?? 0), "as the provider counted"],
    all.money ? ["Money", all.money, "at these prices"] : null])] : []),
    ...(purposes.length ? [make("h2", {}, "By purpose"), table("Calls by purpose, tokens as the provider counted", ["Purpose", "Calls", "Input", "Cached", "Output", "Calls without usage", ...(all.money ? ["Money"] : [])], purposes, { wide: true })] : []),
    make("h2", {}, "Turn by turn"),
    table("The last 200 turns, tokens", ["Turn", "Calls", "Sent", "Full history", "Input", "Cached", "Output", ...(all.money ? ["Money"] : [])], rows, { wide: true })];
}

// --- branches and memories --------------------------------------------------------------------

async function branchesView(at) {
  const data = await sessionOf(at);
  const rows = data.branches.map((end) => [make("a", { href: `#/${at.key}/context?tip=${encodeURIComponent(`${end.turn}:${end.id}`)}` }, end.id.slice(0, 12)),
    end.turn, end.from ? `turn ${end.from.turn} of ${end.from.id.slice(0, 12)}` : "the beginning", end.id === data.session.id ? "✓ here" : ""]);
  return [make("h2", {}, "Branches"), quiet("A run that goes on from an older checkpoint starts a branch; a branch sees its own past alone."),
    data.branches.length > 1 ? branchFigure(data.branches, data.session.id) : quiet("This session has one branch."),
    table("The end of each branch", ["Branch", "Turns", "Began at", "Shown"], rows, { wide: true })];
}

async function memoriesView(at) {
  const { memories, threshold } = await fetched("memories", { user: at.user });
  const rows = memories.map((memory) => [memory.id, clipped(memory.text), make("span", { class: "state" }, swatch("", ATTENTION[memory.state]), memory.standing),
    memory.effective.toFixed(1), `${memory.base}, ${memory.days.toFixed(1)} days old, ${memory.accesses} ${memory.accesses === 1 ? "access" : "accesses"}`,
    memory.fades ? day(memory.fades).slice(0, 10) : "never", ...(acting ? [make("span", { class: "controls" }, actions("memory", { memory: memory.id }, at, memory.state))] : [])]);
  return [make("h2", {}, "Memories across sessions"), quiet("What the sessions of this user left. A memory that nobody uses fades, and is not shown below the threshold; search finds it still."),
    ...(rows.length ? [...attentionFigure(memories, threshold), table("Memories of this user: in attention, the strongest first, then suppressed", ["Memory", "Text", "State", "Attention now", "Base, age and use", "Fades", ...(acting ? ["Change"] : [])], rows, { wide: true, stacked: true })]
      : [make("p", {}, at.user ? "This user has no memories across sessions." : "Sessions without a user have no memories across sessions.")])];
}
