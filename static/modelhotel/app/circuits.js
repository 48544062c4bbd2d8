// The status of the circuits, asked for once for everybody on this page: every 15 s, and at once on their events.
import { api } from "./api.js";
import { every, on, onGap } from "./live.js";
import { debounce } from "./ui.js";

const EVERY = 15_000; // ms

const listeners = new Set();
let last = null;
let running = null;
let next = null;

/** Asks now. Resolves to the answer of the status API, which is not older than this call. Throws ApiError. */
export function refresh() {
  if (running) {
    // The answer on its way may be older than what this call is about; all who wait share one more.
    next ??= running.catch(() => {}).then(() => {
      next = null;
      return refresh();
    });
    return next;
  }
  running = api("GET", "/api/failover-groups/circuit-breaker-status?detail=1")
    .then((found) => {
      last = found;
      for (const fn of listeners) fn(found);
      return found;
    })
    .finally(() => { running = null; });
  return running;
}

/** Calls fn(status) with every new status, at once with one that is known. Returns what takes it back. */
export function onStatus(fn) {
  listeners.add(fn);
  if (last) fn(last);
  return () => listeners.delete(fn);
}

/** The numbers of the badge: providers, not groups, with their names. */
export function count(status) {
  const rows = status.providers || [];
  return {
    degraded: rows.filter((row) => !row.provider_open && row.state !== "closed").map((row) => row.provider_name),
    skipped: rows.filter((row) => row.provider_open).map((row) => row.provider_name),
    pinned: rows.filter((row) => row.quota_pinned && row.state === "open").map((row) => row.provider_name),
  };
}

let started = false;
export function start() {
  if (started) return;
  started = true;
  const soon = debounce(() => refresh().catch(() => {}), 100); // an outage opens many circuits in one moment
  every(EVERY, refresh);
  on("circuit_breaker.*", soon);
  on("config.changed", (event) => ["setting", "provider", "failover_group"].includes(event.metadata?.kind) && soon());
  onGap(refresh);
  return refresh();
}
