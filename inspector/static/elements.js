"use strict";
// Elements of the page. Every text is set as text, never as markup.

const MOST_TEXT = 50_000;  // characters of a text that are laid out at once

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.flat(2).filter((child) => child != null && child !== ""));
  return element;
}

// The entry of a name that a user chose, such as "constructor", which every object inherits.
const entryOf = (entries, name) => (entries && Object.hasOwn(entries, name) ? entries[name] : undefined);

const tokens = (number) => (number ?? 0).toLocaleString("en");
const short = (number) => (number < 10_000 ? tokens(number) : `${d3.format(".3~s")(number).replace("G", "B")}`);
const percent = (share) => (share == null ? "–" : `${Math.round(100 * share)} %`);
const day = (at) => (at ? at.slice(0, 16).replace("T", " ") : "");
const turns = (number) => `${tokens(number)} ${number === 1 ? "turn" : "turns"}`;
const quiet = (...text) => make("p", { class: "quiet" }, ...text);

function clipped(text, length = 160) {
  const line = text.slice(0, 20 * length).replace(/\s+/g, " ").trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

// A table; a `stacked` one shows each row as a card where the page is narrow, and says so by roles.
// `marks` has the swatch of each column.
function table(caption, heads, rows, options = {}) {
  const kind = heads.map((_, at) => rows.some((row) => typeof row[at] === "number" || /^\$[\d.,]+$/.test(row[at])));
  const role = (name) => (options.stacked ? name : null);
  const body = rows.map((row) => make("tr", { role: role("row") }, row.map((cell, at) =>
    make("td", { class: kind[at] ? "n" : null, role: role("cell"), "data-head": role(heads[at]) }, typeof cell === "number" ? tokens(cell) : cell ?? ""))));
  const head = make("tr", { role: role("row") }, heads.map((name, at) => make("th", { scope: "col", class: kind[at] ? "n" : null, role: role("columnheader") }, options.marks?.[at], name)));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", { class: `${options.wide ? "wide" : ""} ${options.stacked ? "stacked" : ""}`, role: role("table") },
      make("caption", { class: options.hidden ? "hidden" : "quiet" }, caption),
      make("thead", { role: role("rowgroup") }, head), make("tbody", { role: role("rowgroup") }, body)));
}

function folded(title, content, open = false, kind = "") {
  const details = make("details", { class: `panel ${kind}`, open }, make("summary", {}, title));
  const fill = () => { if (details.childElementCount === 1) details.append(...[content()].flat()); };
  if (open) fill(); else details.addEventListener("toggle", fill, { once: true });
  return details;
}

// A text in a box that scrolls. Of a very long one browsers lay out the beginning, then more on demand.
function box(text) {
  const pre = make("pre", { class: "long", tabindex: text.length > 400 || text.split("\n").length > 12 ? "0" : null }, text.slice(0, MOST_TEXT));
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

// Figures of the page's subject, large, each with its name: [name, value, what it means].
function facts(entries) {
  return make("dl", { class: "facts" }, entries.filter(Boolean).map(([name, value, more]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value, more ? make("small", {}, more) : null))));
}

function swatch(key, colour) {
  const drawn = d3.create("svg").attr("width", 14).attr("height", 14).attr("aria-hidden", "true").attr("class", "swatch");
  drawn.append("rect").attr("width", 14).attr("height", 14).attr("rx", 2).attr("fill", colour || `url(#fill-${key})`);
  return drawn.node();
}

// A question before what cannot be undone; resolves to whether it was answered with yes.
function asked(question, yes) {
  return new Promise((resolve) => {
    const answer = (value) => () => { dialog.close(); dialog.remove(); resolve(value); };
    const dialog = make("dialog", { "aria-label": question, oncancel: answer(false) }, make("p", {}, question),
      make("div", { class: "controls" }, make("button", { type: "button", class: "danger", onclick: answer(true) }, yes),
        make("button", { type: "button", autofocus: true, onclick: answer(false) }, "Cancel")));
    document.body.append(dialog);
    dialog.showModal();
  });
}
