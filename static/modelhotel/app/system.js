// The system widget of the sidebar: what the gateway uses, asked for every ten seconds; grey while nobody answers.
import { api, query } from "./api.js";
import { bytes, duration, exact, number, percent } from "./format.js";
import { every } from "./live.js";
import { recall, remember } from "./ui.js";

const EVERY = 10_000; // ms
const KEPT = "mh-system";
const FOLDED = "systemFolded";
const MIB = 1 << 20;
const TALL = 760; // px of the window from which it is unfolded by itself

const known = (value) => value !== null && value !== undefined;
const rate = (value) => (known(value) ? `${bytes(value)}/s` : "–");

/** The figures of an answer of ``/api/system`` as the widget words them; null leaves the line out. */
export function figures({ app, db }) {
  const some = db || {};
  const load = [known(some.connections) && `${exact(some.connections)} conn.`, known(some.tx_per_sec) && `${number(some.tx_per_sec)} tx/s`];
  return {
    uptime: known(app.uptime_seconds) ? `up ${duration(app.uptime_seconds * 1000)}` : "",
    cpu: known(app.cpu_percent) ? `${app.cpu_percent} %` : "–",
    memory: bytes(app.memory_current_bytes) + (known(app.memory_limit_bytes) ? ` of ${bytes(app.memory_limit_bytes)}` : ""),
    network: `↓ ${rate(app.net_rx_bytes_sec)} ↑ ${rate(app.net_tx_bytes_sec)}`,
    disk: `↓ ${rate(app.disk_read_bytes_sec)} ↑ ${rate(app.disk_write_bytes_sec)}`,
    today: `${number(app.requests_today)} ${app.requests_today === 1 ? "request" : "requests"}`,
    size: known(some.size_mb) ? bytes(some.size_mb * MIB) : "–",
    cache: known(some.cache_hit_ratio) ? `${percent(some.cache_hit_ratio)} hit` : null,
    load: load.filter(Boolean).join(" · ") || null,
  };
}

/** The last answer of this tab, however many pages ago: [when in ms, answer]. */
function kept() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT)) || [0, null];
  } catch {
    return [0, null];
  }
}

function keep(answer) {
  try {
    sessionStorage.setItem(KEPT, JSON.stringify([Date.now(), answer]));
  } catch {
    // The next page asks at once.
  }
}

function midnight() {
  const day = new Date();
  day.setHours(0, 0, 0, 0);
  return day.toISOString();
}

/** Fills *place*, and keeps it filled; folded it still says whether the API is up. */
export function system(place) {
  if (!place) return;
  const parts = Object.fromEntries([...place.querySelectorAll("[data-figure]")].map((part) => [part.dataset.figure, part]));
  const draw = (answer) => {
    for (const [name, text] of Object.entries(figures(answer))) {
      const line = parts[name].closest("dl > div");
      if (line) line.hidden = text === null;
      parts[name].textContent = text ?? "";
    }
    const { version, node } = answer.app;
    place.title = `Model Hotel ${version} on ${node}. CPU, memory and disk are those of the process that answered.`;
  };
  const become = (state, word) => {
    place.dataset.state = state;
    if (parts.state.textContent !== word) parts.state.textContent = word;
  };
  const ask = async () => {
    try {
      const answer = await api("GET", `/api/system${query({ since: midnight() })}`);
      keep(answer);
      draw(answer);
      become("up", "API up");
    } catch (problem) {
      // A page that is left aborts its calls.
      if (problem.name !== "ApiError") throw problem;
      become("away", "unreachable");
    }
  };
  const [at, last] = kept();
  place.open = !recall(FOLDED, innerHeight < TALL);
  place.querySelector("summary").addEventListener("click", () => remember(FOLDED, place.open)); // before it toggles
  if (last) {
    draw(last);
    become("up", "API up");
  }
  every(EVERY, ask);
  if (Date.now() - at >= EVERY) ask();
}
