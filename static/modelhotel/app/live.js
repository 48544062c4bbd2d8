// One event stream for this tab: it resumes where it broke, and where the page before this one stopped listening.
import { signedOut } from "./api.js";

const ADDRESS = "/api/events";
const FIRST_WAIT = 1000; // ms before the first new attempt
const LONGEST_WAIT = 30_000; // ms
const OPENING = 15_000; // ms until the answer's head has to be there
const SILENCE = 75_000; // ms; a heartbeat comes every 30 s
const HIDDEN = 60_000; // ms a hidden tab keeps its stream: a browser has six connections for all tabs of one host
const RESUMABLE = 300_000; // ms the server keeps events
const DOWN_AFTER = 4; // failed attempts in a row
const KEY = "mh-last-event";

const listeners = new Set();
const gapListeners = new Set();
const stateListeners = new Set();
let now = "reconnecting";
let started = false;
let lastId = "";
let connected = false; // ever, on this page
let failures = 0;
let timer = 0;
let hiddenTimer = 0;
let parked = false;
let running = null;
let waiting = [];
let scheduled = false;

/** Calls fn(event) for events of *type*, which is exact or ends in "*". Returns what takes it back. */
export function on(type, fn) {
  const prefix = type.endsWith("*") ? type.slice(0, -1) : null;
  const listener = { hears: (name) => (prefix === null ? name === type : name.startsWith(prefix)), fn };
  listeners.add(listener);
  start();
  return () => listeners.delete(listener);
}

/** Calls fn() when events were lost: read your data again, once. */
export function onGap(fn) {
  gapListeners.add(fn);
  return () => gapListeners.delete(fn);
}

/** "live", "reconnecting" or "down". */
export function state() {
  return now;
}

export function onState(fn) {
  stateListeners.add(fn);
  return () => stateListeners.delete(fn);
}

/** Runs fn every *ms*; not in a hidden tab, but once when it is shown again. Returns what stops it. */
export function every(ms, fn) {
  let last = Date.now();
  const run = () => {
    last = Date.now();
    guarded(fn);
  };
  const clock = setInterval(() => document.hidden || run(), ms);
  const shown = () => !document.hidden && Date.now() - last >= Math.min(ms, 1000) && run();
  document.addEventListener("visibilitychange", shown);
  return () => {
    clearInterval(clock);
    document.removeEventListener("visibilitychange", shown);
  };
}

function guarded(fn, argument) {
  // One listener that fails must not cost the others their event.
  try {
    const result = fn(argument);
    if (result && typeof result.catch === "function") result.catch(report);
  } catch (problem) {
    report(problem);
  }
}

function report(problem) {
  // What the API says is shown where it was asked; a page that is left aborts its calls.
  if (problem && (problem.name === "ApiError" || problem.name === "AbortError")) return;
  console.error(problem);
}

function become(state) {
  if (now === state) return;
  now = state;
  for (const fn of stateListeners) guarded(fn, state);
}

function gap() {
  for (const fn of gapListeners) guarded(fn);
}

function deliver() {
  scheduled = false;
  const batch = waiting;
  waiting = [];
  for (const event of batch) {
    for (const listener of listeners) if (listener.hears(event.type)) guarded(listener.fn, event);
  }
}

function accept(event) {
  waiting.push(event);
  if (scheduled) return;
  scheduled = true;
  // A hidden tab has no animation frames.
  if (document.hidden) setTimeout(deliver, 100);
  else requestAnimationFrame(deliver);
}

/** Reads lines of the stream. Returned as one function, so that a chunk may end anywhere. */
export function reader({ event, comment }) {
  let rest = "";
  let id = "";
  let data = "";
  const line = (text) => {
    if (text === "") {
      if (data) event(data, id);
      data = "";
    } else if (text.startsWith(":")) comment(text.slice(1).trim());
    else if (text.startsWith("id:")) id = text.slice(3).trim();
    else if (text.startsWith("data:")) data += (data ? "\n" : "") + text.slice(5).trimStart();
  };
  return (chunk) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop();
    for (const text of lines) line(text.endsWith("\r") ? text.slice(0, -1) : text);
  };
}

function note(id) {
  lastId = id;
  try {
    sessionStorage.setItem(KEY, JSON.stringify([id, Date.now()]));
  } catch {
    // The next page starts without it.
  }
}

function known() {
  try {
    const [id, at] = JSON.parse(sessionStorage.getItem(KEY) || "[]");
    return Date.now() - at < RESUMABLE ? id || "" : "";
  } catch {
    return "";
  }
}

async function listen(abort) {
  const headers = { Accept: "text/event-stream" };
  if (lastId) headers["Last-Event-ID"] = lastId;
  let alarm = setTimeout(() => abort.abort(), OPENING);
  const alive = () => {
    clearTimeout(alarm);
    alarm = setTimeout(() => abort.abort(), SILENCE);
  };
  try {
    const response = await fetch(ADDRESS, { headers, cache: "no-store", signal: abort.signal });
    if (response.status === 401) return signedOut();
    if (!response.ok) throw new Error(`events: status ${response.status}`);
    const blind = connected && !lastId; // nothing to resume from, so something may be missing
    const feed = reader({
      event: (data, id) => {
        if (id) note(id);
        try {
          accept(JSON.parse(data));
        } catch {
          // A frame that is no JSON is not one of ours.
        }
      },
      comment: (text) => {
        if (text === "connected") {
          failures = 0;
          connected = true;
          become("live");
          if (blind) gap();
        } else if (text === "resync" || text.startsWith("dropped")) {
          if (text === "resync") lastId = "";
          gap();
        }
      },
    });
    const stream = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await stream.read();
      if (done) return;
      alive();
      feed(value);
    }
  } finally {
    clearTimeout(alarm);
  }
}

async function connect() {
  clearTimeout(timer);
  if (running || parked) return;
  const abort = new AbortController();
  running = abort;
  try {
    await listen(abort);
  } catch {
    // Told by the state; the next attempt follows.
  } finally {
    running = null;
  }
  if (parked) return;
  failures += 1;
  become(failures >= DOWN_AFTER ? "down" : "reconnecting");
  const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (failures - 1));
  timer = setTimeout(connect, wait * (0.75 + Math.random() / 4));
}

function visibility() {
  clearTimeout(hiddenTimer);
  if (document.hidden) {
    hiddenTimer = setTimeout(() => {
      parked = true;
      clearTimeout(timer);
      if (running) running.abort();
    }, HIDDEN);
  } else if (parked || !running) {
    parked = false;
    failures = 0;
    if (running) setTimeout(connect, 0);
    else connect();
  }
}

function start() {
  if (started) return;
  started = true;
  lastId = known();
  document.addEventListener("visibilitychange", visibility);
  // Left for another page: not a broken stream. Restored from the browser's page cache: one that has to be opened.
  window.addEventListener("pagehide", () => {
    parked = true;
    clearTimeout(timer);
    if (running) running.abort();
  });
  window.addEventListener("pageshow", (event) => event.persisted && visibility());
  window.addEventListener("online", () => !running && !parked && connect());
  connect();
}
