// The dialog of one request.
import { api } from "../api.js";
import { open } from "../dialog.js";
import { duration, exact, instant, money, number } from "../format.js";
import { h } from "../ui.js";
import { chain } from "./attempts.js";
import { running } from "./rows.js";
import { course, interrupted, sent, speed, statusText, statusTone } from "./request-columns.js";

/** [column, words, key of cache_hits]: the seven parts of the overhead (operations 4.1). */
const PARTS = [
  ["parse_ms", "Reading the body"],
  ["failover_lookup_ms", "Group lookup", "failover"],
  ["model_lookup_ms", "Model lookup", "model"],
  ["provider_lookup_ms", "Provider lookup", "provider"],
  ["key_decrypt_ms", "Key decryption", "key"],
  ["settings_read_ms", "Settings", "settings"],
  ["dial_ms", "Connecting"],
];

const small = (ms) => (ms ? (ms < 1 ? `${Number(ms.toFixed(3))} ms` : duration(ms)) : "0 ms");

function tile(label, text, hint = null) {
  return h("div", { class: "mh-fact-tile", title: hint }, h("span", {}, label), h("strong", {}, text));
}

function tiles(row) {
  const flying = running(row);
  const figure = (value) => (value ? duration(value) : "–");
  return h(
    "div",
    { class: "mh-fact-tiles" },
    tile("Duration", flying ? "running" : row.full ? duration(row.duration_ms) : "–"),
    tile("Headers", figure(row.response_header_ms)),
    tile("TTFT", figure(row.ttft_ms)),
    tile("Tokens/s", speed(row.tokens_per_second)),
    tile("Tokens", number((row.tokens_prompt || 0) + (row.tokens_completion || 0)), exact((row.tokens_prompt || 0) + (row.tokens_completion || 0))),
  );
}

const copied = (text) => h("button", { type: "button", class: "mh-fact-copy", "data-copy-text": text, "aria-label": `Copy ${text}` }, text);

function facts(row) {
  const lines = [
    ["Time", h("time", { datetime: row.created_at, title: row.created_at }, instant(row.created_at))],
    ["Model", row.model_id && copied(row.model_id)],
    ["Resolved model", row.resolved_model_id && copied(row.resolved_model_id)],
    ["Provider", row.provider_name],
    ["Endpoint", row.endpoint_type],
    ["Streaming", row.streaming === undefined ? "" : row.streaming ? "yes" : "no"],
    ["Key", row.virtual_key_name && (row.virtual_key_deleted ? `${row.virtual_key_name} (deleted)` : row.virtual_key_name)],
    ["Address", row.client_ip],
    ["Node", row.node],
    ["Hash", row.request_hash && copied(row.request_hash)],
    ["Row", copied(row.id)],
  ];
  return h("dl", { class: "mh-facts" }, lines.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function tokenTable(row) {
  // Both are 0 where the provider says nothing of its cache.
  const split = Boolean(row.tokens_prompt_cache_hit || row.tokens_prompt_cache_miss);
  const lines = [
    ["Prompt", row.tokens_prompt],
    ["cached", split ? row.tokens_prompt_cache_hit : null, true],
    ["uncached", split ? row.tokens_prompt_cache_miss : null, true],
    ["Completion", row.tokens_completion],
    ["reasoning", row.tokens_completion_reasoning, true],
  ];
  return h(
    "table",
    { class: "mh-table mh-fact-tokens", "aria-label": "Tokens" },
    h("tbody", {}, lines.map(([name, value, inner]) => h("tr", {}, h("th", { scope: "row", class: inner ? "mh-fact-inner" : null }, name), h("td", { class: "mh-num" }, value === null ? "–" : exact(value ?? 0)))),
      h("tr", {}, h("th", { scope: "row" }, "Cost"), h("td", { class: "mh-num", title: row.cost_usd === null || row.cost_usd === undefined ? "The model has no price" : `$${row.cost_usd}` }, money(row.cost_usd)))),
  );
}

function overhead(row) {
  const hits = row.cache_hits || {};
  const most = Math.max(...PARTS.map(([name]) => row[name] || 0), 0.001);
  const reached = Boolean(row.provider_id) && sent(row).length > 0;
  const bars = PARTS.map(([name, words, key]) => {
    const hit = Boolean(key && hits[key]);
    const note = hit ? "cache hit" : name === "dial_ms" && reached && !row[name] ? "reused connection" : "";
    const share = Math.round(((row[name] || 0) / most) * 100);
    const bar = h("div", { class: "mh-part-bar", "aria-hidden": "true", dataset: { hit: String(hit) } }, h("div", { style: `width:${share}%` }));
    return h("li", { class: "mh-part" }, h("span", {}, words), bar, h("span", { class: "mh-num" }, small(row[name])), h("span", { class: "mh-part-note" }, note));
  });
  return h("details", { class: "mh-fact-more" }, h("summary", {}, `Overhead: ${small(row.proxy_overhead_ms)}`), h("ul", { class: "mh-parts", "aria-label": "Overhead in parts" }, bars));
}

function error(row) {
  if (!row.error_message && !row.error_kind) return null;
  const kind = (row.error_kind || "").replaceAll("_", " ");
  return h(
    "section",
    { class: "mh-fact-error" },
    h("h3", {}, "Error", kind && h("span", { class: "mh-chip", dataset: { tone: "bad" }, title: row.error_kind }, kind)),
    row.error_message && h("pre", {}, row.error_message),
    row.error_message && h("button", { type: "button", class: "mh-btn mh-btn-quiet", "data-copy-text": row.error_message }, "Copy error"),
  );
}

function body(row) {
  const told = course(row);
  const recovered = (row.attempts || []).some((one) => one.recovery);
  return [
    h(
      "div",
      { class: "mh-fact-head" },
      h("h2", {}, row.model_id || "Request"),
      h("span", { class: "mh-chip", dataset: { tone: statusTone(row) } }, statusText(row)),
      interrupted(row) && statusText(row) !== "Interrupted" && h("span", { class: "mh-chip", dataset: { tone: "bad" } }, "Interrupted"),
      told && h("span", { class: "mh-chip", dataset: { tone: "warn" } }, told),
      recovered && h("span", { class: "mh-chip", dataset: { tone: "info" } }, "recovered stream"),
      h("button", { type: "button", class: "mh-btn mh-btn-quiet mh-btn-icon mh-fact-close", "data-close": true, "aria-label": "Close" }, "×"),
    ),
    tiles(row),
    error(row),
    h("section", {}, h("h3", {}, "Attempts"), running(row) && !row.attempts ? h("p", { class: "mh-log-muted" }, "Still running: the attempts are written when it ends.") : chain(row)),
    h("div", { class: "mh-fact-columns" }, h("section", {}, h("h3", {}, "Request"), facts(row)), h("section", {}, h("h3", {}, "Tokens"), tokenTable(row))),
    row.full && overhead(row),
    h("p", { class: "mh-log-muted" }, "No prompt or answer is stored."),
  ];
}

export class Detail {
  /** *closed*(): the dialog is gone. *row*(id): what is known of it. */
  constructor({ row, closed }) {
    this.row = row;
    this.closed = closed;
    this.id = "";
  }

  /** Opens, changes or (with "") closes the dialog. */
  async show(id) {
    if (id === this.id) return;
    this.id = id;
    if (!id) {
      this.close?.();
      return;
    }
    this.known = null;
    const dialog = this.dialog ?? h("dialog", { dataset: { size: "wide" }, class: "mh-request", "aria-label": "Request", tabindex: "-1" });
    if (!this.dialog) {
      this.dialog = dialog;
      dialog.addEventListener("close", () => {
        this.dialog = null;
        this.id = "";
        this.closed();
      }, { once: true });
      this.draw(this.row(id) || { id, state: "" });
      this.close = open(dialog);
    }
    await this.fetch();
  }

  async fetch() {
    const { id } = this;
    try {
      const row = await api("GET", `/api/logs/${encodeURIComponent(id)}`);
      if (id === this.id) this.draw({ ...row, at: Date.parse(row.created_at), full: !running(row) });
    } catch (problem) {
      if (id === this.id && !this.known?.created_at) this.dialog.replaceChildren(h("h2", {}, "Request"), h("p", { role: "alert" }, problem.message), h("div", { class: "mh-dialog-actions" }, h("button", { type: "button", class: "mh-btn mh-btn-quiet", "data-close": true }, "Close")));
      if (problem.name !== "ApiError") throw problem;
    }
  }

  /** The list has something new of this request. */
  follow(row) {
    if (row && row.id === this.id && this.dialog && (!this.known || row.state !== this.known.state || row.full !== this.known.full)) {
      if (row.full || running(row)) this.draw(row);
    }
  }

  draw(row) {
    if (this.known?.full && !row.full) return;
    this.known = row;
    const wasOpen = this.dialog.querySelector("details")?.open;
    const inside = this.dialog.contains(document.activeElement) && document.activeElement !== this.dialog;
    this.dialog.replaceChildren(...body(row).filter(Boolean));
    const more = this.dialog.querySelector("details");
    if (more && wasOpen) more.open = true;
    if (inside) this.dialog.querySelector("[data-close]").focus();
  }
}
