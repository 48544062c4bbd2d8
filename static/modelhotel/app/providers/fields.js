// What the provider form knows by itself: the type of an address, the field of a refusal, what to set for a private one.

const FIELDS = [
  [/^(invalid name|name "|a provider with this name)/, "name"],
  [/^(unknown provider_type|invalid provider_type)/, "provider_type"],
  [/^api_key /, "api_key"],
  [/^max_in_flight /, "max_in_flight"],
  [/^quota_reserve_percent /, "quota_reserve_percent"],
  [/^(invalid scheduled_disable_on|scheduled_disable_on )/, "scheduled_disable_on"],
  [/^circuit_breaker_slow_call_threshold /, "circuit_breaker_slow_call_threshold"],
  [/^(base_url |invalid base URL|a provider for this address|host "|provider host "|loopback addresses|could not reach a server|the server at this address)/, "base_url"],
];
const ADDRESS_CODES = new Set([
  "provider_url_rejected",
  "provider_duplicate_address",
  "provider_unreachable",
  "provider_type_unconfirmed",
  "provider_type_mismatch",
]);

/** The form field that *text* of a refusal is about, "" when it is about none. *code* decides where there is one. */
export function fieldOf(text, code = "") {
  if (ADDRESS_CODES.has(code)) return "base_url";
  const found = FIELDS.find(([pattern]) => pattern.test(text));
  return found ? found[1] : "";
}

/** The host of an address, "" when it is none. */
export function hostOf(address) {
  try {
    return new URL(address.trim()).hostname.replace(/^\[|\]$/g, "").toLowerCase();
  } catch {
    return "";
  }
}

/** The type whose vendor's host this is, "openai" for every other host, "" for what is no address yet. */
export function typeOf(address, rules) {
  const host = hostOf(address).replace(/\.$/, "");
  if (!host || !/^https?:\/\//i.test(address.trim())) return "";
  const path = new URL(address.trim()).pathname;
  const found = rules.find((rule) => new RegExp(rule.host).test(host) && path.includes(rule.path));
  return found ? found.type : "openai";
}

/** Whether a host is this machine or in a private network, as far as its text says. */
export function isPrivate(host) {
  return (
    /^(localhost|.*\.(local|lan|internal|home\.arpa))$/.test(host) ||
    /^(127\.|10\.|192\.168\.|169\.254\.|172\.(1[6-9]|2\d|3[01])\.)/.test(host) ||
    /^(::1$|f[cd][0-9a-f]{2}:|fe80:)/.test(host)
  );
}

/** The lines to put into the environment so that the refused *address* is allowed; empty when that is not the matter. */
export function toSet(address, text) {
  const lines = [];
  const host = hostOf(address);
  const http = /^http:/i.test(address.trim());
  const lan = /ALLOWED_PROVIDER_HOSTS/.test(text);
  if (/ALLOW_HTTP_PROVIDERS/.test(text) || (lan && http)) lines.push("ALLOW_HTTP_PROVIDERS=true");
  if (host && (lan || (lines.length && isPrivate(host)))) lines.push(`ALLOWED_PROVIDER_HOSTS=${host}`);
  return lines;
}

/** A sentence for what the provider said to a test or scan; "" when there is nothing to add. */
export function hintOf(error) {
  if (/^HTTP 40[13]\b/.test(error)) return "The provider refused the key.";
  if (/^HTTP 404\b/.test(error)) return "Nothing answers there: is the path right? Most addresses end in /v1.";
  if (/^HTTP 429\b/.test(error)) return "The provider is limiting this account right now.";
  if (/^HTTP 5\d\d\b/.test(error)) return "The provider has a problem of its own.";
  if (/does not resolve/.test(error)) return "Is the host spelled right?";
  if (/no models/.test(error)) return "It answers, but offers this account no model.";
  return "";
}

/** What is wrong with a provider's name where the server says no more than "invalid name"; "" when nothing is. */
export function nameProblem(name) {
  const text = name.replace(/^ +| +$/g, "");
  if (!text) return "A provider needs a name: clients ask for its models as name/model.";
  if (text.includes("/")) return "A name cannot contain a slash: clients ask for its models as name/model.";
  if (/[\p{Cc}\u200b-\u200d\u2060-\u2064\ufeff\u00a0\u2028\u2029\u3000]/u.test(text)) return "The name contains a character that cannot be seen. Type it anew.";
  return "";
}

/** The start of a name for what answers at *host*: its vendor's label in a domain, an address as it is. */
export function nameOf(host) {
  if (/^127\.|^::1$/.test(host)) return "localhost";
  if (/^[\d.]+$/.test(host) || host.includes(":")) return host;
  return host.replace(/^api\./, "").split(".")[0];
}

/** *name*, or with the first number that makes it free. Names differ in more than blanks and hyphens. */
export function freeName(name, taken) {
  const form = (text) => text.replaceAll(" ", "-");
  const used = new Set(taken.map(form));
  for (let at = 1; ; at += 1) {
    const wanted = at === 1 ? name : `${name} ${at}`;
    if (!used.has(form(wanted))) return wanted;
  }
}

/**
 * What is wrong with a provider's key, in short and at length; null when nothing is. *readable*: some other stored key
 * can be decrypted, so that the master key is not the first suspect.
 */
export function keyProblem({ key_state: state }, kind, readable) {
  if (state === "damaged") return ["damaged", "What is stored is no whole encrypted key. Enter it anew."];
  if (state === "unreadable" && readable) return ["cannot be decrypted", "What is stored was damaged, or stored under another MASTER_KEY. Enter it anew."];
  if (state === "unreadable") return ["wrong MASTER_KEY?", "It was stored under another MASTER_KEY. Start the gateway with that one, or enter the key anew."];
  if (state === "none" && kind && !kind.keyless) return ["missing", "This type needs a key, and none is stored."];
  return null;
}
