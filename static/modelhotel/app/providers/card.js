// One provider as a card.
import { query } from "../api.js";
import { age, exact, instant, number } from "../format.js";
import { bar } from "../quotas/bar.js";
import { brief, trouble } from "../quotas/reading.js";
import { h } from "../ui.js";
import { hintOf, keyProblem } from "./fields.js";
import { many } from "./scans.js";

const HEALTH = {
  healthy: ["good", "Healthy", "check_circle"],
  recovering: ["info", "Recovering", "healing"],
  degraded: ["warn", "Degraded", "warning"],
  unhealthy: ["bad", "Unhealthy", "error"],
  circuit_open: ["bad", "Circuit open", "block"],
};

const SHORT = { bad: "Usage cannot be read", warn: "Usage cannot be read", muted: "No plan with a quota" };
const hidden = (text) => h("span", { class: "mh-visually-hidden" }, text);
const icon = (name) => h("span", { class: "material-symbols-outlined mh-icon", "aria-hidden": "true" }, name);

export function chip(tone, text, { title = null, symbol = null } = {}) {
  return h("span", { class: "mh-chip", dataset: { tone }, title }, symbol && icon(symbol), text);
}

/** An age that the page keeps ticking. */
export function when(iso) {
  if (!iso) return h("span", {}, "never");
  return h("time", { datetime: iso, title: instant(iso), dataset: { age: iso } }, age(iso));
}

function health(provider) {
  if (!provider.enabled) return chip("muted", "Disabled", { symbol: "block" });
  const [tone, text, symbol] = HEALTH[provider.health] || ["muted", provider.health, "help"];
  return chip(tone, text, { symbol, title: provider.health_reason || "Its models can be listed, and requests get through" });
}

function circuitLines(row) {
  const bad = row.circuits.filter((one) => one.state !== "closed");
  return bad.map((one) => `${one.model}: ${one.state}, ${one.last_cause || "no cause known"}`).join("\n");
}

/** What the breaker says of the provider: nothing while every circuit is closed. */
function circuit(row) {
  if (!row || row.state === "closed") return null;
  const title = circuitLines(row);
  const retry = row.next_retry_at ? [", next try ", when(row.next_retry_at)] : [];
  const open = (row.open_models || []).length;
  if (row.provider_open) return h("span", { class: "mh-chip", dataset: { tone: "bad" }, title }, icon("do_not_disturb_on"), h("span", {}, "skipped as a whole", retry));
  if (row.state === "half-open") return chip("warn", "probe due", { title, symbol: "hourglass_top" });
  return h("span", { class: "mh-chip", dataset: { tone: "warn" }, title }, icon("power_off"), h("span", {}, many(open || 1, "circuit"), " open", retry));
}

/** failover-loop 7.9: the last 429 that said its quota or balance is spent, where no reading says how much is left. */
function cap(note, quota) {
  if (!note || (quota && brief(quota))) return null;
  const at = instant(note.at).slice(11, 16);
  const said = note.phrase ? `last cap message: "${note.phrase}"` : "last cap";
  return chip("warn", `no usage API · ${note.entitled ? "balance spent" : "cap hit"} ${at}`, { title: `${said} at ${at} (from a 429 on ${note.model})` });
}

/** That it will be switched off, and that some of its quota is kept. */
function marks(provider, kind) {
  const { quota_reserve_percent: percent, scheduled_disable_on: day } = provider;
  const window = kind && kind.reserve;
  return [
    day && chip("info", [hidden("Switched off on "), day], { title: `It is switched off on ${day}, on the gateway's clock`, symbol: "event" }),
    percent > 0 && window && h("span", { class: "mh-chip mh-piggy", title: `${percent} % of the ${window} window is kept for use outside of the gateway` }, icon("savings"), hidden("Quota reserve of the "), hidden(`${window} window: `), `${percent} %`),
  ];
}

/** How much of its quota is used: a button that opens the rest. *look*(provider) opens it. */
function usage(provider, quota, kind, look) {
  if (!kind || !kind.quota || !provider.enabled) return null;
  const said = quota && brief(quota);
  const problem = quota && trouble(quota);
  const plan = quota && quota.plan;
  const words = said
    ? [h("span", { class: "mh-usage-name" }, said.name), bar(said.used, said.tone), h("strong", { class: "mh-usage-figure", dataset: { tone: said.tone } }, said.text), said.resets && h("span", { class: "mh-usage-reset" }, `resets ${said.resets}`)]
    : [h("span", { class: "mh-usage-name" }, plan ? `Plan: ${plan}` : problem ? SHORT[problem[0]] : quota ? "Usage: nothing told" : "Usage: not read yet")];
  return h(
    "button",
    { type: "button", class: "mh-usage-badge", dataset: { act: "usage" }, title: said ? said.title : problem ? problem[1] : null, on: { click: () => look(provider) } },
    hidden(`Usage of ${provider.name}: `),
    words,
    problem && problem[0] !== "muted" && h("span", { class: "mh-usage-problem", dataset: { tone: problem[0] } }, icon("warning"), hidden(problem[1])),
  );
}

function row(name, ...value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

function key(provider, kind, readable) {
  const [text, title] = keyProblem(provider, kind, readable) || [];
  const mask = provider.masked_key === "N/A" ? "none" : provider.masked_key;
  return row("Key", h("code", {}, mask), text && [" ", h("strong", { class: "mh-key-state", title }, icon("key_off"), text)]);
}

function discovery(provider) {
  if (!provider.autodiscovery_enabled) return row("Last discovery", when(provider.last_discovery_success_at), " · switched off");
  const failed = Boolean(provider.last_model_fetch_error);
  return row("Last discovery", when(failed ? provider.last_model_fetch_at : provider.last_discovery_success_at), failed && h("strong", { class: "mh-bad" }, " failed"));
}

/** What went wrong last, in the provider's own words. */
function problems(provider) {
  const lines = new Set([provider.last_model_fetch_error, provider.last_availability_error].filter(Boolean));
  const found = [...lines].map((text) => h("p", { class: "mh-problem", title: text }, text));
  if (provider.inventory_stale) {
    found.push(h("p", { class: "mh-problem", dataset: { tone: "warn" } }, "Stale inventory since ", when(provider.last_discovery_success_at), ": its last known models stay routable."));
  }
  return found;
}

/** The line under the buttons: a test or scan that runs, or how it ended. */
function outcome(provider, state, acts) {
  const line = h("p", { class: "mh-outcome", role: "status", dataset: { tone: state ? state.tone : "muted" } });
  if (!state) return line;
  const hint = state.error && hintOf(state.error);
  line.append(state.text, ...(hint ? [h("span", { class: "mh-why" }, ` ${hint}`)] : []));
  if (!state.ask || !provider.enabled || !provider.model_count) return line;
  const ask = { type: "button", class: "mh-btn mh-btn-quiet mh-small", dataset: { act: "ask" }, title: "One small question, on the way that requests take", on: { click: () => acts.ask(provider) } };
  return h("div", { class: "mh-outcome-more" }, line, h("button", ask, "Ask a model"));
}

function buttons(provider, acts, busy) {
  const button = (name, text, symbol, more = {}) =>
    h("button", { type: "button", class: "mh-btn mh-btn-quiet mh-small", "aria-label": `${text} ${provider.name}`, dataset: { act: name }, disabled: busy || more.disabled, title: more.title, on: { click: (event) => acts[name](provider, event.currentTarget) } }, icon(symbol), more.text ?? text);
  const off = !provider.enabled ? "The provider is disabled" : !provider.autodiscovery_enabled ? "Discovery is switched off for this provider" : null;
  return h(
    "footer",
    { class: "mh-provider-acts" },
    button("discover", "Discover Models", "travel_explore", { disabled: Boolean(off), title: off, text: "Discover" }),
    button("test", "Test", "network_check"),
    button("edit", "Edit", "edit"),
    button("remove", "Delete", "delete", { title: "Delete", text: "" }),
  );
}

function head(provider, kind, acts, busy) {
  const title = `provider-${provider.id}`;
  const toggle = h("button", {
    type: "button",
    class: "mh-switch",
    role: "switch",
    "aria-checked": String(provider.enabled),
    "aria-label": `${provider.name} enabled`,
    disabled: !acts || busy,
    on: { click: (event) => acts.toggle(provider, event.currentTarget) },
  });
  return h(
    "header",
    { class: "mh-provider-head" },
    h("h3", { id: title }, h("button", { type: "button", class: "mh-copyable", dataset: { copyText: provider.name }, title: "Copy the name" }, h("span", {}, provider.name))),
    h("span", { class: "mh-why" }, kind ? kind.label : provider.provider_type),
    toggle,
  );
}

/**
 * *acts*: what its buttons do, null for who may only look; *look*(provider) opens the usage. *quota*: its reading, null
 * for none. *state*: what runs or how it ended. *readable*: some stored key can be decrypted.
 */
export function card(provider, { kind, circuits, acts, state, quota = null, look = null, readable = true }) {
  const busy = Boolean(state && state.busy);
  return h(
    "article",
    { class: "mh-card mh-provider", dataset: { id: provider.id, enabled: String(provider.enabled) }, "aria-labelledby": `provider-${provider.id}`, "aria-busy": busy ? "true" : null },
    head(provider, kind, acts, busy),
    h(
      "div",
      { class: "mh-chips" },
      health(provider),
      provider.enabled && circuit(circuits),
      h("a", { class: "mh-chip", dataset: { tone: "info" }, href: `/models/${query({ provider: provider.id })}` }, many(provider.model_count, "model")),
      provider.total_tokens > 0 && chip("muted", `${number(provider.total_tokens)} tokens`, { title: exact(provider.total_tokens) }),
      cap(provider.last_cap, quota),
      provider.inflight_limit && chip("warn", `at most ${provider.inflight_limit} at once`, { title: "Learned from its busy answers; clean answers raise it, a quiet time drops it", symbol: "speed" }),
      marks(provider, kind),
    ),
    usage(provider, quota, kind, look),
    h("p", { class: "mh-address" }, h("button", { type: "button", class: "mh-copyable", dataset: { copyText: provider.base_url }, title: "Copy the address" }, h("code", {}, provider.base_url))),
    h(
      "dl",
      { class: "mh-facts" },
      provider.enabled && provider.health_reason && row("Health", provider.health_reason),
      key(provider, kind, readable),
      row("Last used", when(provider.last_used_at)),
      row("Last checked", when(provider.last_checked_at)),
      discovery(provider),
      row("Created", when(provider.created_at)),
    ),
    problems(provider),
    acts && buttons(provider, acts, busy),
    acts && outcome(provider, state, acts),
  );
}
