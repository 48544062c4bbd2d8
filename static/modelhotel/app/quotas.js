// What is left of the providers' quotas, asked for once for everybody on this page: from what the gateway keeps.
import { api } from "./api.js";
import { every, on, onGap } from "./live.js";
import { debounce } from "./ui.js";

const EVERY = 60_000; // ms; the gateway itself asks every few minutes
const KEPT = "mh-quotas";

const listeners = new Set();
let last = null;
let running = null;
let started = false;

/** [when in ms, readings] of this tab's last answer, however many pages ago. */
function kept() {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEPT));
    return Array.isArray(found) && Array.isArray(found[1]) ? found : [0, null];
  } catch {
    return [0, null];
  }
}

function tell(quotas) {
  last = quotas;
  try {
    sessionStorage.setItem(KEPT, JSON.stringify([Date.now(), quotas]));
  } catch {
    // The next page asks at once.
  }
  for (const fn of listeners) fn(quotas);
}

/** Reads what is stored. Throws ApiError. */
export function read() {
  running ??= api("GET", "/api/providers/quotas")
    .then(({ quotas }) => {
      tell(quotas);
      return quotas;
    })
    .finally(() => { running = null; });
  return running;
}

/** Has every provider asked anew, then reads. Gives the answer of the refresh. Throws ApiError. */
export async function refresh() {
  const answer = await api("POST", "/api/providers/refresh-quotas");
  running = null; // an answer on its way is older
  await read();
  return answer;
}

/** Calls fn(readings) with every reading of all providers, at once with one that is known. Returns what takes it back. */
export function onQuotas(fn) {
  listeners.add(fn);
  if (last) fn(last);
  return () => listeners.delete(fn);
}

export function start() {
  if (started) return;
  started = true;
  const [at, known] = kept();
  if (known) {
    last = known;
    for (const fn of listeners) fn(known);
  }
  const again = () => read().catch(() => {}); // the next reading shows it
  const soon = debounce(again, 200);
  every(EVERY, again);
  on("config.changed", (event) => event.metadata?.kind === "provider" && soon());
  onGap(again);
  if (Date.now() - at >= EVERY) again();
}
