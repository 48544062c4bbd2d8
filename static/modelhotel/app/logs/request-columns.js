// What the request list shows of a row.
import { duration, exact, money, number } from "../format.js";
import { narrow, recall, remember } from "../ui.js";
import { asked, raced } from "./attempts.js";
import { moment } from "./moment.js";
import { running } from "./rows.js";

const KEY = "requestsColumns";
const NONE = "–";
export const INTERRUPTED = "request interrupted";

/** ms the server's clock is ahead of this browser's; set once by the page. */
export const clock = { ahead: 0 };

export const interrupted = (row) => (row.error_message || "").startsWith(INTERRUPTED);
const soFar = (row) => Math.max(0, Date.now() + clock.ahead - row.at);
const figure = (value) => (value ? duration(value) : NONE);
export const speed = (value) => (!value ? NONE : value < 100 ? value.toFixed(1) : number(Math.round(value)));

export function statusTone(row) {
  if (running(row)) return "info";
  const code = row.status_code;
  if (code >= 200 && code < 400) return "good";
  return code >= 400 && code < 500 ? "warn" : "bad";
}

/** The word for where a request stands: "200", "Live", "Pending", "Interrupted", "0". */
export function statusText(row) {
  if (row.state === "streaming") return "Live";
  if (row.state === "pending") return "Pending";
  if (row.status_code !== null && row.status_code !== undefined) return String(row.status_code);
  return interrupted(row) ? "Interrupted" : "none";
}

function status(row) {
  const kind = (row.error_kind || "").replaceAll("_", " ");
  const chip = { text: statusText(row), class: "mh-chip", "data-tone": statusTone(row), title: kind || null };
  const badge = interrupted(row) && statusText(row) !== "Interrupted" && { text: "Interrupted", class: "mh-chip", "data-tone": "bad", title: row.error_message };
  return [chip, badge];
}

/** Attempts that were sent; skips are in the trail only. */
export const sent = (row) => (row.attempts || []).filter(asked);

/** "failover, 2 attempts"; "" for a request that went to its only provider. */
export function course(row) {
  const attempts = sent(row);
  return attempts.length > 1 ? `${raced(attempts) ? "hedged" : "failover"}, ${attempts.length} attempts` : "";
}

function provider(row) {
  const name = row.provider_name || (running(row) ? "Resolving…" : NONE);
  const told = course(row);
  const mark = told && { text: `↻ ${sent(row).length}`, class: "mh-log-failover", title: told, "aria-label": told };
  return mark ? [{ text: name, class: "mh-log-name", title: name }, mark] : { text: name, title: name };
}

function model(row) {
  const asked = row.model_id || NONE;
  const resolved = row.resolved_model_id;
  if (!resolved) return { text: asked, title: asked };
  const both = `${asked} [${resolved}]`;
  // What the name says already would only push the end of it out of sight.
  return { text: asked.endsWith(`/${resolved}`) ? asked : both, title: both };
}

function tokens(row) {
  if (running(row) || row.tokens_prompt === undefined) return NONE;
  return { text: `${number(row.tokens_prompt)} → ${number(row.tokens_completion)}`, title: `${exact(row.tokens_prompt)} in, ${exact(row.tokens_completion)} out` };
}

function spent(row) {
  if (running(row)) {
    const seconds = Math.floor(soFar(row) / 1000);
    return seconds < 60 ? `${seconds} s` : duration(seconds * 1000);
  }
  return row.full ? duration(row.duration_ms) : NONE;
}

/** *fixed*: always shown; *off*: not shown unless chosen. *width*: the least, in em; what is left over is shared out.
 * Those that are shown by default make 74.75 em and fit a window of 1280 px. *slim*: where there is little room. */
const ALL = [
  { key: "time", label: "Time", width: 7.25, slim: 8, sort: "time", fixed: true, cell: (row) => moment(row.created_at) },
  { key: "hash", label: "Hash", width: 10.5, off: true, cell: (row) => (row.request_hash ? { text: row.request_hash, class: "mh-log-mono", "data-copy-text": row.request_hash } : NONE) },
  { key: "model", label: "Model", width: 13.25, slim: 14.5, sort: "model", fixed: true, cell: model },
  { key: "provider", label: "Provider", width: 8, sort: "provider", cell: provider },
  { key: "status", label: "Status", width: 6, slim: 5.5, sort: "status", fixed: true, cell: status },
  { key: "tokens", label: "Tokens", hint: "in → out", width: 7, sort: "tokens", num: true, cell: tokens },
  { key: "tps", label: "T/s", hint: "tokens per second", width: 4.5, sort: "tps", num: true, cell: (row) => speed(row.tokens_per_second) },
  { key: "headers", label: "Headers", hint: "until the head of the answer", width: 5.75, sort: "response_header_ms", num: true, cell: (row) => figure(row.response_header_ms) },
  { key: "ttft", label: "TTFT", hint: "time to first token", width: 4.75, sort: "ttft", num: true, cell: (row) => figure(row.ttft_ms) },
  { key: "duration", label: "Duration", width: 6, sort: "duration", num: true, cell: spent },
  { key: "overhead", label: "Overhead", hint: "what the gateway itself took", width: 6.25, sort: "overhead", num: true, cell: (row) => (row.full ? duration(row.proxy_overhead_ms) : NONE) },
  { key: "key", label: "Key", width: 6, sort: "key", cell: (row) => ({ text: row.virtual_key_name || NONE, title: row.virtual_key_deleted ? "Deleted" : row.virtual_key_name || null, class: row.virtual_key_deleted ? "mh-log-gone" : null }) },
  { key: "ip", label: "Address", width: 8.5, sort: "ip", off: true, cell: (row) => row.client_ip || NONE },
  { key: "cost", label: "Cost", width: 5.5, off: true, num: true, cell: (row) => ({ text: money(row.cost_usd), title: row.cost_usd === null || row.cost_usd === undefined ? null : `$${row.cost_usd}` }) },
];

const chosen = () => recall(KEY, {}) || {};
const isShown = (column, choice) => column.fixed || (choice[column.key] ?? !column.off);

export function columns() {
  const choice = chosen();
  const shown = ALL.filter((column) => isShown(column, choice));
  if (!narrow.matches) return shown;
  const first = shown.filter((column) => column.slim);
  const rest = shown.filter((column) => !column.slim);
  return [...first.map((column) => ({ ...column, width: column.slim })), ...rest];
}

/** Those that may be hidden: [key, label, shown]. */
export function choices() {
  const choice = chosen();
  return ALL.filter((column) => !column.fixed).map((column) => [column.key, column.label, isShown(column, choice)]);
}

export function choose(key, shown) {
  remember(KEY, { ...chosen(), [key]: shown });
}
