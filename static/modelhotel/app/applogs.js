// The product's own log: new lines join on top while the top is looked at.
import { api, query } from "./api.js";
import { open } from "./dialog.js";
import { instant, number } from "./format.js";
import { every } from "./live.js";
import { h, narrow } from "./ui.js";
import { List } from "./logs/list.js";
import { moment } from "./logs/moment.js";
import { deleteLines, purge } from "./logs/purge.js";

const APPEND = 2000; // ms
const COUNTS = 15_000; // ms
const OVERLAP = 3000; // ms; another node's lines come into the table a little later than their time
const TOP = 40; // px from the top that still count as the top
const TONES = { debug: "muted", info: "info", warning: "warn", error: "bad" };

const root = document.getElementById("applogs");
const first = JSON.parse(document.getElementById("log-data").textContent);
const badge = document.getElementById("applogs-live");
let list = null;
let shownId = "";
let close = null;

const tone = (row) => TONES[row.level] || "muted";

/** Without the source in front, which has a column of its own. */
function firstLine(row) {
  const [text] = row.message.slice(0, 400).split("\n", 1);
  return text.startsWith(`${row.source}: `) ? text.slice(row.source.length + 2) : text;
}

const columns = [
  { key: "time", label: "Time", width: 9, sort: "time", cell: (row) => moment(row.timestamp) },
  { key: "level", label: "Level", width: 6.5, sort: "level", cell: (row) => ({ text: row.level, class: "mh-chip", "data-tone": tone(row) }) },
  { key: "source", label: "Source", width: 9, sort: "source", cell: (row) => ({ text: row.source, title: row.source }) },
  { key: "message", label: "Message", width: 46, sort: "message", cell: firstLine },
];
/** Where there is little room the message says whose it is. */
const slim = [
  { ...columns[0], width: 7.5 },
  { ...columns[1], width: 5.5 },
  { ...columns[3], width: 40, cell: (row) => row.message.slice(0, 400).split("\n", 1)[0] },
];

async function show(id) {
  if (id === shownId) return;
  close?.();
  shownId = id;
  if (!id) return;
  const row = list?.rows.get(id) || first.entries.find((entry) => entry.id === id);
  const text = row ? `${row.timestamp} ${row.level} ${row.message}` : "";
  const dialog = h(
    "dialog",
    { class: "mh-line", dataset: { size: "wide" } },
    h("h2", {}, row ? row.source : "Log line"),
    row
      ? [
          h("p", {}, h("span", { class: "mh-chip", dataset: { tone: tone(row) } }, row.level), " ", h("time", { datetime: row.timestamp, title: row.timestamp }, instant(row.timestamp)), row.node && ` · node ${row.node}`),
          h("pre", {}, row.message),
        ]
      : h("p", {}, "This line is not on this page any more. ", h("a", { href: `/requestlogs/applog/${encodeURIComponent(id)}/change/` }, "Open it by itself")),
    h(
      "div",
      { class: "mh-dialog-actions" },
      row && h("button", { type: "button", class: "mh-btn mh-btn-quiet", "data-copy-text": text }, "Copy"),
      h("button", { type: "button", class: "mh-btn mh-btn-quiet", "data-close": true, autofocus: true }, "Close"),
    ),
  );
  dialog.addEventListener("close", () => {
    if (shownId !== id) return;
    shownId = "";
    close = null;
    list.closed();
  });
  close = open(dialog);
}

list = new List(root, {
  name: "applogs",
  path: "/api/logs/app",
  fixed: { history: "true" },
  time: "timestamp",
  noun: ["line", "lines"],
  columns: () => (narrow.matches ? slim : columns),
  describe: (row) => ({ level: row.level }),
  opened: (id) => (list ? show(id) : setTimeout(() => show(id))),
  taken: (answer) => answer.level_counts && counts(answer),
}, first);

narrow.addEventListener("change", () => list.relayout());

/** The choices of both filters with how many lines each has. */
function counts({ level_counts: levels, source_counts: sources }) {
  const { level, source } = root.querySelector("form").elements;
  for (const option of level.options) if (option.value) option.textContent = `${option.value} (${number(levels[option.value] ?? 0)})`;
  const chosen = source.value;
  const names = Object.keys(sources);
  if (chosen && !names.includes(chosen)) names.push(chosen);
  const wanted = names.map((name) => [name, `${name} (${number(sources[name] ?? 0)})`]);
  const present = [...source.options].slice(1).map((option) => option.textContent);
  if (present.join("\n") === wanted.map(([, text]) => text).join("\n")) return;
  source.replaceChildren(source.options[0], ...wanted.map(([name, text]) => h("option", { value: name }, text)));
  source.value = chosen;
}

const atTop = () => list.live && document.scrollingElement.scrollTop <= TOP && !document.querySelector("dialog[open]");

async function append() {
  if (!atTop()) return state(list.live ? "Paused" : "Not live");
  const newest = list.rows.ordered()[0];
  const from = newest ? new Date(newest.at - OVERLAP).toISOString() : "";
  const turn = list.turn;
  const later = list.filters.from && list.filters.from > from ? list.filters.from : from;
  const answer = await api("GET", `/api/logs/app/cursor${query({ ...list.filters, from: later, limit: 200 })}`);
  if (turn !== list.turn) return;
  state("Live");
  if (answer.has_after && newest) return list.reload();
  let added = 0;
  for (const row of answer.entries) {
    if (!list.rows.get(row.id)) added += 1;
    list.rows.put(row);
  }
  if (added) {
    if (list.total !== null) list.total += added;
    list.draw();
  }
}

function state(word) {
  if (badge.textContent === word) return;
  badge.textContent = word;
  badge.dataset.tone = word === "Live" ? "good" : "muted";
  badge.title = word === "Paused" ? "New lines join while the top of the list is looked at" : "";
}

const recount = async () => counts(await api("GET", "/api/logs/app?history=true&per_page=1"));

let running = false;
every(APPEND, async () => {
  if (running) return;
  running = true;
  try {
    await append();
  } catch (problem) {
    state("Not live");
    throw problem;
  } finally {
    running = false;
  }
});
every(COUNTS, recount);
if (list.total === null) list.reload();
if (list.mode === "scroll") recount().catch(() => {}); // the next one tells
state(list.live ? "Live" : "Not live");

document.getElementById("applogs-delete")?.addEventListener("click", () => purge({
  noun: "log lines",
  affects: ["They go for good, on every node.", "Requests and their rows are not touched."],
  send: deleteLines,
  done: () => list.reload(),
}));
