// The request list: what is in flight on top, as it happens; the rest by page or as one scroll.
import { api, query } from "./api.js";
import { every, on, onGap, onState, state } from "./live.js";
import { ahead, h, narrow } from "./ui.js";
import { List } from "./logs/list.js";
import { deleteRequests, purge } from "./logs/purge.js";
import { choices, choose, clock, columns, interrupted } from "./logs/request-columns.js";
import { Detail } from "./logs/request-detail.js";
import { running } from "./logs/rows.js";

const GATHER = 60; // ms: events of one moment are answered by one look
const SPACING = 1000; // ms between two looks, whatever happens
const POLL = { pages: 30_000, scroll: 60_000 }; // ms
const SINGLES = 5; // rows read one by one in one look

const root = document.getElementById("requests");
const first = JSON.parse(document.getElementById("log-data").textContent);
clock.ahead = ahead(first.now);

const flying = (filters) => `/api/logs/cursor${query({ ...filters, state: "running", limit: 200 })}`;

let list = null;
const detail = new Detail({ row: (id) => list?.rows.get(id), closed: () => list.closed() });

list = new List(root, {
  name: "requests",
  path: "/api/logs",
  time: "created_at",
  noun: ["request", "requests"],
  columns,
  describe: (row) => ({ state: row.state || "", interrupted: String(interrupted(row)) }),
  flying,
  opened: (id) => detail.show(id),
  shown: () => detail.follow(list?.rows.get(detail.id)),
}, first);
if (list.total === null) list.reload();

narrow.addEventListener("change", () => list.relayout());

// -- live

/** What an event says is drawn at once where the filters can be judged by it: no filter, or a part of the model's name. */
function belongs(event) {
  if (!list.live) return false;
  const { model_id: text = "", ...others } = list.filters;
  if (Object.keys(others).length) return false;
  return String(event.metadata.model_id || "").toLowerCase().includes(text.toLowerCase());
}

let timer = 0;
let looking = false;
let wanted = false;
let lookedAt = -SPACING;

/** Looks soon, and again while there is something to look for; never two at a time, at most one a second. */
function look() {
  wanted = true;
  // A tab nobody sees reads once when it is shown again.
  if (timer || looking || document.hidden) return;
  timer = setTimeout(run, Math.max(GATHER, SPACING - (performance.now() - lookedAt)));
}

async function run() {
  timer = 0;
  looking = true;
  wanted = false;
  lookedAt = performance.now();
  try {
    if (list.mode === "scroll") await lookInScroll();
    else if (list.live) await list.reload();
    else list.announce();
    await fetchSome();
  } catch (problem) {
    // What is shown stays; the next event or poll reads again.
    if (problem.name !== "ApiError") throw problem;
  } finally {
    looking = false;
    if (wanted) look();
  }
}

/** A flood that overtook the stream is a gap every few frames: all of it is one look. */
let gap = false;

async function lookInScroll() {
  if (gap) {
    gap = false;
    return refreshScroll();
  }
  const missing = list.rows.unfinished();
  if (list.filtered || missing.length > SINGLES) return list.head();
}

/** The figures of requests that are over, one by one: those an answer from memory was too old for, too. */
async function fetchSome() {
  if (!list.live) return;
  const missing = list.rows.unfinished();
  await Promise.all(missing.slice(0, SINGLES).map((row) => single(row.id)));
  if (list.rows.unfinished().length) wanted = true;
  list.draw();
}

async function single(id) {
  try {
    list.rows.put(await api("GET", `/api/logs/${id}`));
  } catch (problem) {
    // Of another account, deleted, or of a process that is gone.
    if (problem.status === 404) list.rows.remove(id);
  }
}

on("request.*", (event) => {
  const said = event.metadata;
  if (!said || !said.request_id || !/^request\.(started|streaming|completed)$/.test(event.type)) return;
  const known = list.rows.get(said.request_id);
  const fresh = belongs(event) ? event.timestamp : null;
  const { request_id: id, model_id, provider_name, state: now, status_code, streaming } = said;
  const news = { model_id, state: now };
  if (provider_name) news.provider_name = provider_name;
  if (status_code !== undefined) news.status_code = status_code;
  if (streaming !== undefined) news.streaming = streaming;
  // A row that came and went on another page is none of this one.
  const shown = list.live && list.rows.tell(id, news, fresh, Date.now());
  if (shown) list.draw();
  if (!list.live && !known) list.announce();
  if (event.type === "request.completed" || (shown === false && list.live)) look();
});

onGap(() => {
  gap = true;
  look();
});
for (const [mode, ms] of Object.entries(POLL)) {
  every(ms, async () => {
    if (list.mode !== mode || !list.live) return;
    if (mode === "scroll") await refreshScroll();
    else await list.reload();
  });
}

/** The newest rows, and what became of those in flight. */
async function refreshScroll() {
  const before = [...list.rows.map.values()].filter(running).map((row) => row.id);
  await list.head();
  const now = await api("GET", flying(list.filters));
  for (const row of now.entries) list.rows.put(row);
  const still = new Set(now.entries.map((row) => row.id));
  const gone = before.filter((id) => !still.has(id) && running(list.rows.get(id) || {}));
  await Promise.all(gone.slice(0, SINGLES * 4).map(single));
  list.draw();
}

setInterval(() => document.hidden || list.table.refresh("duration", running), 1000);

// -- the head of the page

const badge = document.getElementById("requests-live");
const follow = (now) => {
  badge.textContent = now === "live" ? "Live" : now === "down" ? "Not live" : "Reconnecting";
  badge.dataset.tone = now === "live" ? "good" : "muted";
};
onState(follow);
follow(state());

const picker = document.getElementById("requests-columns");
for (const [key, label, shown] of choices()) {
  const box = h("input", { type: "checkbox", checked: shown, on: { change: () => {
    choose(key, box.checked);
    list.relayout();
  } } });
  picker.append(h("label", {}, box, label));
}
const menu = picker.closest("details");
document.addEventListener("click", (event) => menu.contains(event.target) || (menu.open = false));
menu.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !menu.open) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

const exactly = document.getElementById("requests-exact");
exactly.addEventListener("input", () => {
  const select = list.form.elements.status_code;
  if (!/^([1-5]\d\d)?$/.test(exactly.value)) return;
  if (exactly.value && ![...select.options].some((option) => option.value === exactly.value)) select.add(new Option(exactly.value, exactly.value));
  select.value = exactly.value;
});

document.getElementById("requests-delete")?.addEventListener("click", () => purge({
  noun: "requests",
  affects: ["They go for good, on every node, and with them what they cost.", "Running requests stay."],
  send: deleteRequests,
  done: () => list.reload(),
}));
