// The status of the circuits, asked for once for everybody on this page: every 15 s, and at once on their events.
import { every, on, onGap } from "./live.js";
import { source } from "./poll.js";
import { debounce } from "./ui.js";

const EVERY = 15_000; // ms

/** ``refresh()`` asks now; ``onStatus(fn)`` calls fn(status) with every new status, at once with one that is known. */
export const { refresh, onAnswer: onStatus } = source("/api/failover-groups/circuit-breaker-status?detail=1");

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
