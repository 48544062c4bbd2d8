// What the board concludes from groups and circuits. Pure: no page, no network, the time comes as an argument (ms).

export const MIN_ACTIVE = 2;
export const TOO_FEW = "At least 2 members must stay active.";
/** Longest wait whose countdown burns down; a longer one has a still outline. */
export const BURNING_MS = 15 * 60_000;
const BUSY_MS = 60_000;
const BUSY_CAUSE = "upstream status 429 (saturated)";
/** Sources of a pin that speak of the whole account, not of one model. */
const ACCOUNT_PINS = new Set(["account", "advisor", "reserve"]);

export const DARK = new Set(["reserved", "pinned", "open"]);
export const LIVE = new Set(["live", "busy"]);
export const TONES = { live: "good", busy: "warn", open: "bad", "probe due": "warn", pinned: "bad", reserved: "info" };

const instantOf = (text) => (text ? Date.parse(text) : NaN);

/** A member that the router may ask: toggle, model and provider are all on. */
export const routable = (entry) => entry.enabled && entry.model_enabled && entry.provider_enabled;

export const label = (entry) => `${entry.provider_name} / ${entry.model_id}`;

/** Why the router skips a member whatever its toggle says: {badge, reason}, or null. The provider comes first. */
export function unusable(entry) {
  if (!entry.provider_enabled) return { badge: "Provider disabled", reason: "The provider is switched off." };
  if (entry.model_enabled) return null;
  const reason = entry.disabled_manually ? "The model was disabled by hand." : "The provider no longer offers this model.";
  return { badge: "Model disabled", reason };
}

/** Circuits by provider: Map(provider id -> {row, own: Map(model -> circuit) | null}) of a detailed status answer. */
export function circuitsOf(status) {
  const found = new Map();
  for (const row of status?.providers ?? []) {
    const own = Array.isArray(row.circuits) ? new Map(row.circuits.map((one) => [one.model, one])) : null;
    found.set(row.provider_id, { row, own });
  }
  return found;
}

// An answer without circuits still tells which models are dark and how the worst one is.
function guessed(row, model) {
  const dark = (row.open_models ?? []).includes(model);
  return dark || row.state === "half-open" ? { ...row, model, state: dark ? "open" : "half-open" } : null;
}

const over = (circuit, now) => circuit.state === "open" && instantOf(circuit.next_retry_at) <= now;

function ofProvider(held, now) {
  const { row, own } = held;
  const blocking = [...(own?.values() ?? [row])].filter((one) => one.state === "open" && !over(one, now));
  if (!row.provider_open || !blocking.length) return null;
  const pins = blocking.filter((one) => one.quota_pinned && ACCOUNT_PINS.has(one.pin_source)).map((one) => one.pin_source);
  const reserve = pins.length && pins.every((source) => source === "reserve");
  const retries = blocking.map((one) => instantOf(one.next_retry_at)).filter((at) => at > now);
  const first = blocking.reduce((a, b) => (instantOf(a.next_retry_at) <= instantOf(b.next_retry_at) ? a : b));
  return {
    chip: pins.length ? (reserve ? "reserved" : "pinned") : "open",
    circuit: first,
    skipped: true,
    retryAt: retries.length ? Math.min(...retries) : null,
  };
}

/**
 * The chip of a routable member: {chip, circuit, skipped, retryAt}; *circuit* is what its words come from (or null),
 * *skipped*: the whole provider is left out, *retryAt* in ms or null. First match of the table wins.
 */
export function chipOf(entry, circuits, now) {
  const held = circuits.get(entry.provider_id);
  if (!held) return { chip: "live", circuit: null, skipped: false, retryAt: null };
  const circuit = held.own ? (held.own.get(entry.model_id) ?? null) : guessed(held.row, entry.model_id);
  const due = circuit && (circuit.state === "half-open" || over(circuit, now));
  if (circuit?.state === "open" && !due) {
    const chip = circuit.quota_pinned ? (circuit.pin_source === "reserve" ? "reserved" : "pinned") : "open";
    return { chip, circuit, skipped: false, retryAt: instantOf(circuit.next_retry_at) || null };
  }
  const whole = ofProvider(held, now);
  if (whole) return whole;
  if (due) return { chip: "probe due", circuit, skipped: false, retryAt: null };
  const busy = circuit && circuit.last_cause === BUSY_CAUSE && now - instantOf(circuit.last_at) <= BUSY_MS;
  return { chip: busy ? "busy" : "live", circuit, skipped: false, retryAt: null };
}

/** When the chip changes by itself: the end of its wait or of "busy", in ms; null for never. */
export function chipUntil(found) {
  if (found.chip === "busy") return instantOf(found.circuit.last_at) + BUSY_MS;
  return found.retryAt;
}

/** The footer: {live, of, dark, retryAt}; *of* counts routable members, *dark* is true when none of them is asked. */
export function summary(group, circuits, now) {
  const found = group.entries.filter(routable).map((entry) => chipOf(entry, circuits, now));
  const retries = found.map((one) => one.retryAt).filter((at) => at !== null);
  return {
    live: found.filter((one) => LIVE.has(one.chip)).length,
    of: found.length,
    dark: found.length > 0 && found.every((one) => DARK.has(one.chip)),
    retryAt: retries.length ? Math.min(...retries) : null,
  };
}

/** Whether this member may be switched off: one that is of no use anyway always. */
export const mayLeave = (group, entry) => !routable(entry) || group.entries.filter(routable).length > MIN_ACTIVE;

/** The complete toggle map with some members set: *only* decides which, *on* what to. */
export function toggleMap(group, only, on) {
  return Object.fromEntries(group.entries.map((entry) => [entry.model_uuid, only(entry) ? on : entry.enabled]));
}

/**
 * What a cascade sends to one group, or null where it changes nothing: the toggles, and the switch of a group that
 * falls below two active members, or comes back above after it had been switched off automatically.
 */
export function cascade(group, only, on) {
  if (!group.entries.some((entry) => only(entry) && entry.enabled !== on)) return null;
  const flags = toggleMap(group, only, on);
  const left = group.entries.filter((entry) => routable({ ...entry, enabled: flags[entry.model_uuid] })).length;
  const patch = { entry_enabled: flags };
  if (left < MIN_ACTIVE && group.group_enabled) patch.group_enabled = false;
  if (left >= MIN_ACTIVE && !group.group_enabled && group.auto_disabled) patch.group_enabled = true;
  return patch;
}

/** A provider counts as off when some group holds it and each of its entries is toggled off. */
export function providerIsOff(groups, providerId) {
  const mine = groups.flatMap((group) => group.entries.filter((entry) => entry.provider_id === providerId));
  return mine.length > 0 && mine.every((entry) => !entry.enabled);
}

export const orderOf = (group) => group.entries.map((entry) => entry.model_uuid);

/** *group* with its members in the order of *ids*; members that are not named follow as they were. */
export function reordered(group, ids) {
  const place = new Map(ids.map((id, index) => [id, index]));
  const at = (entry) => place.get(entry.model_uuid) ?? ids.length;
  return { ...group, entries: [...group.entries].sort((a, b) => at(a) - at(b)) };
}

/** Everything of a group that an operator sees and changes; two groups with the same text look the same. */
export const signature = (group) =>
  JSON.stringify([
    group.display_model,
    group.display_name,
    group.description,
    group.group_enabled,
    group.midstream_recovery,
    group.auto_created,
    group.auto_disabled,
    group.entries.map((one) => [
      one.model_uuid,
      one.model_id,
      one.provider_name,
      one.enabled,
      one.model_enabled,
      one.provider_enabled,
      one.disabled_manually,
    ]),
  ]);

/** The section a group stands in: "Custom", its first letter, or "#" for everything else. */
export function sectionOf(group) {
  if (!group.auto_created) return "Custom";
  const first = group.display_model.charAt(0).toUpperCase();
  return first >= "A" && first <= "Z" ? first : "#";
}

const sectionRank = (name) => (name === "Custom" ? "0" : name === "#" ? "1" : `2${name}`);

/** [[section, groups]] in the order of the page. */
export function sections(groups) {
  const found = new Map();
  for (const group of [...groups].sort((a, b) => (a.display_model < b.display_model ? -1 : 1))) {
    const name = sectionOf(group);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(group);
  }
  return [...found].sort(([a], [b]) => (sectionRank(a) < sectionRank(b) ? -1 : 1));
}

export const FILTERS = { q: "", provider: "", state: "", origin: "" };

/** Whether *group* passes the filters {q, provider (id), state: ""|enabled|disabled, origin: ""|auto|custom}. */
export function passes(group, filters) {
  if (filters.q && !group.display_model.includes(filters.q.trim().toLowerCase())) return false;
  if (filters.provider && !group.entries.some((entry) => entry.provider_id === filters.provider)) return false;
  if (filters.state && group.group_enabled !== (filters.state === "enabled")) return false;
  return !filters.origin || group.auto_created === (filters.origin === "auto");
}

/** Toasts about a sync, [text, severity]: *before* and *after* are the names of the groups around it. */
export function syncReport(body, before, after) {
  const said = [];
  const known = new Set(before);
  const created = after.filter((name) => !known.has(name)).map((name) => `hotel/${name}`);
  if (created.length) {
    const shown = created.slice(0, 5).join(", ") + (created.length > 5 ? ` and ${created.length - 5} more` : "");
    said.push([`${created.length === 1 ? "1 group" : `${created.length} groups`} created: ${shown}`, "info"]);
  }
  for (const gone of body.deleted_groups ?? []) {
    const names = gone.provider_names.length ? ` (${gone.provider_names.join(", ")})` : "";
    said.push([`hotel/${gone.display_model} deleted: ${gone.reason}${names}`, "warning"]);
  }
  for (const off of body.disabled_groups ?? []) {
    said.push([`hotel/${off.display_model} switched off: ${off.effective_count} of its members can be routed to`, "warning"]);
  }
  for (const one of body.purged_entries ?? []) {
    const count = one.pruned_model_ids.length;
    said.push([`hotel/${one.group_display_model}: ${count === 1 ? "1 deleted model" : `${count} deleted models`} taken out`, "info"]);
  }
  for (const text of body.sync_errors ?? []) said.push([`Sync error: ${text}`, "error"]);
  return said.length ? said : [["Failover groups synced", "success"]];
}
