"use strict";
// What happened, and why, in sentences.

const BECAUSE = {
  new: "the session began",
  concluded: "an effort was concluded",
  collapsed: "a log that nobody mentioned collapsed",
  reopened: "an effort was reopened",
  returned: "a summary came back",
  expanded: "a log was expanded",
  compressed: "an open effort was compressed",
  due: "what nobody used had been due to leave for five turns: a summary, a long result, or the turn that concluded an effort",
  window: "old turns without an effort left",
  "state-blocks": "a newer state block replaced older ones",
  "high-water": "the prompt was close to its budget: the oldest turns left it",
  application: "the application added or removed a system message",
  "cold-cache": "the provider's cache had expired, so a rebuild cost nothing",
  command: "a command by hand changed an effort",
  edited: "the state was edited",
  "every-turn": "the settings rebuild it every turn",
};
const because = (why) => BECAUSE[why] || why;

const CHANGES = {
  opened: () => "opened",
  reopened: () => "reopened",
  concluded: () => "concluded: its summary takes the place of its turns",
  expanded: (change) => (change.again ? "its log was asked for again" : "its log came back into the prompt"),
  collapsed: (change) => (change.auto ? "its log left the prompt by itself, the summary stays" : "its log left the prompt, the summary stays"),
  evicted: () => "its summary left the prompt; the archive keeps everything",
  returned: () => "its summary came back into the prompt",
  surfaced: () => "its summary came from an earlier session",
};
// What happens after the last call of a turn shows in the next turn's first call.
const since = (change) => (change.from > change.turn ? `, from turn ${change.from} on` : "");
const changed = (change) => `${(CHANGES[change.type] || (() => change.type))(change)}${since(change)}`;

// Who used the words that count as a mention.
const SPEAKERS = { user: "the user's message has", answer: "the answer has", "user,answer": "the user's message and the answer have" };
const KINDS = { id: "its name", keywords: "its keywords" };
const OTHERS = { tool: "a tool named it", search: "a result of a search was used" };

function counted(event) {
  const words = (event.words || []).join(", ");
  const kind = KINDS[event.kind] ? `${SPEAKERS[(event.by || []).join()] || "the message or the answer has"} ${KINDS[event.kind]}` : OTHERS[event.kind] || event.kind || "mentioned";
  return `${kind}${words ? `: “${words}”` : ""}`;
}

// What counts as a mention besides words.
const USED = { concluded: "it was concluded", expanded: "its log was asked for", reopened: "it was reopened" };

// The turns that mentioned an effort or used it, each with why it counted.
function usesOf(data, effort) {
  const mentioned = data.turns.flatMap((turn) => turn.mentions.filter((event) => event.effort === effort.id).map((event) => ({ turn: turn.turn, why: counted(event) })));
  const used = effort.changes.filter((change) => USED[change.type]).map((change) => ({ turn: change.turn, why: USED[change.type] }));
  return d3.groups([...mentioned, ...used], (use) => use.turn).map(([turn, uses]) => ({ turn, why: [...new Set(uses.map((use) => use.why))].join("; ") }))
    .sort((one, other) => one.turn - other.turn);
}

// Why the plan changed at a call, and which turns left the prompt with it.
const whyOf = (call) => `${because(call.why)}${call.left ? `; ${/^\d+$/.test(call.left) ? `turn ${call.left} is` : `turns ${call.left} are`} no longer shown` : ""}`;

// One line of what happened in a turn, null for what has a view of its own.
function happened(event) {
  const names = event.effort ? [event.effort] : event.efforts || [];
  if (CHANGES[event.type]) return [names.join(", "), `${changed(event)}${whyChanged(event)}`];
  if (event.type === "searched") return ["search", names.length ? `found ${names.join(", ")}` : "found nothing"];
  if (event.type === "hinted") return ["hint", `the model was told of ${event.hints.map((hint) => hint.effort || `turn ${hint.turn}`).join(", ")}`];
  if (event.type === "compressed") return [names.join(", "), "older turns became a background and quotes"];
  if (event.type === "not_compressed") return [names.join(", "), "could not be compressed; tried again later"];
  if (event.type === "paused" || event.type === "switched") return [names.join(", "), event.type === "paused" ? "paused" : "became the active effort"];
  if (event.type === "anchored") return ["state block", "the model wrote it anew"];
  return [names.join(", ") || "memory", event.type];
}

// Why a log collapsed or a summary left the prompt.
const whyFaded = (event) => `nobody mentioned it${event.silent ? ` for ${turns(event.silent)}` : ""}`;
const whyChanged = (event) => (event.type === "collapsed" && event.auto ? `, since ${whyFaded(event)}` : "");

const lastMention = (data, name, before) => d3.max(data.turns.flatMap((turn) =>
  turn.turn <= before && turn.mentions.some((event) => event.effort === name) ? [turn.turn] : []));

// A summary leaves together with others: when the plan changes, or five turns after it is due.
// An open effort stays.
const leaving = (entry) => (entry.state === "open" ? "when it is concluded" : entry.state === "expanded" ? `in ${turns(entry.leaves)}`
  : entry.leaves > 0 ? `due in ${turns(entry.leaves)}` : "due: within five turns, together with others");

// Where an effort is now, and why, for people who see the page for the first time.
function whyNow(data, effort, entry) {
  const change = effort.changes.at(-1);
  if (change.state === "open") return `${effort.id} is open since turn ${change.turn}: its turns are in the prompt as far as the budget goes.`;
  if (change.state === "evicted") return `${effort.id} is not in the prompt any more. Its summary left in turn ${change.turn}, because ${whyFaded(change)}. The archive has all of it: a mention of its name or keywords brings the summary back, and search finds it.`;
  const why = change.type === "collapsed" && change.auto ? ` The log collapsed in turn ${change.turn}, because ${whyFaded(change)}.` : "";
  const where = change.state === "expanded" ? `The whole log of ${effort.id} is in the prompt since turn ${change.turn}.` : `${effort.id} is in the prompt with its summary.`;
  if (!entry || entry.state === "open") return `${where}${why}`;
  const next = change.state === "expanded" ? `It collapses ${leaving(entry)}`
    : entry.leaves > 0 ? `The summary is due to leave in ${turns(entry.leaves)}` : "The summary is due to leave, and does so within five turns, together with others";
  return `${where}${why} ${next} unless it is mentioned (last in turn ${entry.last}).`;
}
