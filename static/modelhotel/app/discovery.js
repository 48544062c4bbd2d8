// How many model changes wait for somebody, asked for once for everybody on this page.
import { every, on, onGap } from "./live.js";
import { source } from "./poll.js";
import { debounce } from "./ui.js";

const EVERY = 60_000; // ms
const GATHER = 200; // ms in which events become one question

/** ``refresh()`` asks now; ``onCounts(fn)`` calls fn({claim_count, informational_unseen}), at once where it is known. */
export const { refresh, onAnswer: onCounts } = source("/api/discovery/status?brief=1");

/** Calls fn() soon after something that claims are made of has changed. Returns what takes it back. */
export function onClaimsChanged(fn) {
  const soon = debounce(fn, GATHER);
  const kinds = ["provider", "model", "failover_group"];
  const back = [
    on("discovery.*", soon),
    on("model.auto_disabled_gone", soon),
    on("config.changed", ({ metadata }) => kinds.includes(metadata?.kind) && soon()),
    onGap(soon),
  ];
  return () => {
    soon.cancel();
    for (const one of back) one();
  };
}

let started = false;
export function start() {
  if (started) return;
  started = true;
  every(EVERY, refresh);
  onClaimsChanged(() => refresh().catch(() => {})); // the next poll shows it
  return refresh();
}
