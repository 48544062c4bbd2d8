// The attempts of one request as a chain. The rules what is said are pure.
import { duration } from "../format.js";
import { h } from "../ui.js";

/** circuit-breaker 17: what an attempt did to its circuit. */
const WORDS = { charge: "strike", success: "reset", noop: "untouched", alive: "alive", disabled: "disabled", skipped: "skipped" };
const KINDS = {
  hedge_superseded: "lost the race",
  internal: "internal error",
};

/** Whether a request went to the provider: not where the circuit or the lease of its probe forbade it, nor where it was full. */
export const asked = (one) => one.attempt >= 0 && one.breaker !== "skipped" && (Boolean(one.status) || one.error_kind !== "provider_saturated");

/** Whether those that were asked were racing and none of them failed: more than one attempt is then no failover. */
export const raced = (attempts) => attempts.every((one) => one.hedged && [undefined, null, "hedge_superseded"].includes(one.error_kind));

export const breakerWord = (value) => (value ? WORDS[value] || value : "");
export const phraseOf = (kind) => (kind ? KINDS[kind] || kind.replaceAll("_", " ") : "");

const plain = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, " ").trim();
/** What a text can be made of that says no more than status, verdict and phrase already do. */
const EMPTY = /\b(upstream|provider|http|status|code|error|returned|responded|answered|with|request|failed|the|a|was|is)\b/g;

/** *text*, where it says something that is not on the row already; else "". */
export function worthSaying(text, { status, error_kind: kind, breaker }) {
  if (!text) return "";
  if ((breaker === "skipped" && text === "circuit breaker open") || kind === "hedge_superseded") return "";
  let rest = ` ${plain(text)} `;
  const known = [phraseOf(kind), kind || "", status ? String(status) : ""].map(plain).filter(Boolean);
  for (const word of known) rest = rest.replaceAll(` ${word} `, " ");
  return rest.replace(EMPTY, " ").trim() ? text : "";
}

function badge(one) {
  const { status } = one;
  if (status) {
    const tone = status < 400 ? "good" : status < 500 ? "warn" : "bad";
    return h("span", { class: "mh-chip", dataset: { tone } }, String(status));
  }
  const blamed = asked(one) && one.error_kind !== "hedge_superseded";
  return h("span", { class: "mh-chip", dataset: { tone: blamed ? "bad" : "muted" } }, asked(one) ? "no response" : "not asked");
}

function shield(breaker) {
  const word = breakerWord(breaker);
  if (!word) return null;
  return h("span", { class: "mh-chain-breaker", title: "Effect on the circuit breaker" }, h("span", { class: "material-symbols-outlined", "aria-hidden": "true" }, "shield"), `breaker: ${word}`);
}

/** Seconds into the request need no clock: the number of the attempt is enough, skips carry none. */
function line(one, ended, message) {
  const text = worthSaying(ended ? message : one.detail, one);
  const marks = [one.hedged && "hedged", one.recovery && `recovered (${one.recovery})`].filter(Boolean);
  const place = one.attempt >= 0 ? String(one.attempt + 1) : "–";
  return h(
    "li",
    { class: "mh-chain-item", dataset: { skipped: String(!asked(one)) } },
    h("span", { class: "mh-chain-place", "aria-hidden": "true" }, place),
    h(
      "div",
      { class: "mh-chain-body" },
      h(
        "div",
        { class: "mh-chain-line" },
        badge(one),
        h("strong", {}, one.provider || "unknown"),
        h("span", { class: "mh-chain-model" }, one.model || ""),
        marks.map((mark) => h("span", { class: "mh-chip", dataset: { tone: "info" } }, mark)),
        h("span", { class: "mh-chain-time" }, one.attempt >= 0 ? duration(one.duration_ms) : "", one.ttft_ms ? ` · TTFT ${duration(one.ttft_ms)}` : ""),
      ),
      h(
        "div",
        { class: "mh-chain-line mh-chain-why" },
        shield(one.breaker),
        one.error_kind && h("span", { title: one.error_kind }, phraseOf(one.error_kind)),
        one.phrase && h("span", { class: "mh-chain-model", title: "The wording that decided" }, `“${one.phrase}”`),
      ),
      text && h("code", { class: "mh-chain-detail" }, text),
    ),
  );
}

/** *row* as the API has it. The attempt that ended the request is told in the words of the request's own error. */
export function chain(row) {
  const entries = row.attempts || [];
  if (!entries.length) return h("p", { class: "mh-log-muted" }, "No provider was reached.");
  // Of a race it need not be the one that stands last.
  const ended = entries.findLast((one) => one.attempt >= 0 && !one.detail);
  return h("ol", { class: "mh-chain", "aria-label": "Attempts" }, entries.map((one) => line(one, one === ended, row.error_message)));
}
