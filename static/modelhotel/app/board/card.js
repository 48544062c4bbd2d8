// One group as a card. Made once, then patched: whoever stands on a control keeps standing there.
import { age, duration, exact, instant, tokens } from "../format.js";
import { h } from "../ui.js";
import { arrange } from "./drag.js";
import * as rules from "./rules.js";

const icon = (name) => h("span", { class: "material-symbols-outlined", "aria-hidden": "true" }, name);

/** Sets what differs only, so that nothing is painted or read out for nothing. */
function put(element, name, value) {
  if (value === null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const PIN_SOURCES = {
  advisor: "the quota reading",
  reserve: "the quota reserve",
  response: "the provider's answer",
  account: "the provider's answer about the account",
};

// A countdown: whole seconds, so that it goes down evenly.
const left = (until, now) => {
  const seconds = Math.max(0, Math.ceil((until - now) / 1000));
  return seconds < 60 ? `${seconds} s` : duration(seconds * 1000);
};

/** What stands behind a chip, in words. */
export function why(found) {
  const { chip, circuit, skipped, retryAt } = found;
  if (!circuit) return "No circuit: nothing has failed.";
  const parts = [];
  if (skipped) parts.push("The whole provider is skipped.");
  if (circuit.last_cause) {
    const status = circuit.last_status && !circuit.last_cause.includes(String(circuit.last_status));
    parts.push(`Last: ${circuit.last_cause}${status ? ` (status ${circuit.last_status})` : ""}, ${instant(circuit.last_at)}.`);
  }
  if (circuit.quota_pinned) parts.push(`Pinned by ${PIN_SOURCES[circuit.pin_source] ?? "a quota"}.`);
  if (chip === "probe due") {
    parts.push(circuit.probing ? "Another request is probing right now." : "The next request probes.");
  }
  if (retryAt) parts.push(`Next retry ${instant(new Date(retryAt).toISOString())}.`);
  return parts.join(" ");
}

/** The line under a member that is not plainly live: short, with the countdown in words. */
function shortly(found, now) {
  const { chip, circuit, skipped, retryAt } = found;
  if (chip === "live" || !circuit) return "";
  const cause = circuit.last_cause || "circuit open";
  const wait = retryAt && retryAt > now ? `retry in ${left(retryAt, now)}` : "";
  if (chip === "busy") return cause;
  if (chip === "probe due") return circuit.probing ? `${cause} · being probed` : `${cause} · next request probes`;
  return [skipped ? `provider skipped: ${cause}` : cause, wait].filter(Boolean).join(" · ");
}

class Row {
  constructor(card) {
    const change = card.board.mayChange;
    this.card = card;
    this.badge = h("span", { class: "mh-place", "aria-hidden": "true" });
    this.provider = h("span", {});
    this.model = h("span", { class: "mh-member-model" });
    this.name = h("span", { class: "mh-member-name" }, this.provider, this.model);
    this.why = h("span", { class: "mh-why" });
    this.state = h("span", { class: "mh-chip" });
    this.handle = change && h("button", { type: "button", class: "mh-handle", "aria-pressed": "false" }, icon("drag_indicator"));
    this.up = change && this.#button("mh-step", "keyboard_arrow_up", () => card.step(this, -1));
    this.down = change && this.#button("mh-step", "keyboard_arrow_down", () => card.step(this, 1));
    this.reset = change && this.#button("mh-reset-circuit", "refresh", () => card.board.resetCircuit(this.entry, this.reset));
    this.toggle = change && h("button", { type: "button", role: "switch", class: "mh-switch", on: { click: () => this.#flip() } });
    const tools = change && h("span", { class: "mh-row-tools" }, this.reset, this.up, this.down, this.toggle);
    this.text = h("span", { class: "mh-row-text" }, this.name);
    this.element = h("li", { class: "mh-row" }, this.badge, this.handle, this.text, this.state, tools, this.why);
  }

  #button(kind, name, act) {
    return h("button", { type: "button", class: `mh-icon-btn ${kind}`, on: { click: act } }, icon(name));
  }

  #flip() {
    this.card.board.toggle(this.card.id, this.entry.model_uuid, !this.entry.enabled);
  }

  show(entry, index, count, group) {
    this.entry = entry;
    const name = rules.label(entry);
    const useless = rules.unusable(entry);
    this.element.dataset.id = entry.model_uuid;
    this.element.classList.toggle("mh-row-off", !entry.enabled);
    this.element.classList.toggle("mh-row-dead", Boolean(useless));
    write(this.provider, entry.provider_name);
    write(this.model, ` / ${entry.model_id}`);
    put(this.name, "title", name);
    this.tick(this.card.board.store.now());
    this.number(index, count);
    if (!this.toggle) return;
    put(this.handle, "disabled", group.group_enabled ? null : "");
    put(this.toggle, "aria-checked", String(entry.enabled));
    put(this.toggle, "aria-label", `Use ${name} in this group`);
  }

  /** The position as it stands, also in the middle of a drag. */
  number(index, count) {
    const name = rules.label(this.entry);
    write(this.badge, String(index + 1));
    if (!this.toggle) return;
    put(this.handle, "aria-label", `Reorder ${name}, position ${index + 1} of ${count}`);
    put(this.up, "aria-label", `Move ${name} up`);
    put(this.down, "aria-label", `Move ${name} down`);
    const off = !this.card.group.group_enabled;
    put(this.up, "disabled", off || index === 0 ? "" : null);
    put(this.down, "disabled", off || index === count - 1 ? "" : null);
  }

  /** The chip and its words at *now*. Returns when they change by themselves, or null. */
  tick(now) {
    const useless = rules.unusable(this.entry);
    const found = !useless && this.entry.enabled ? rules.chipOf(this.entry, this.card.board.store.circuits, now) : null;
    const chip = useless ? useless.badge : (found?.chip ?? "off");
    write(this.state, chip);
    put(this.state, "data-tone", useless || !found ? "muted" : rules.TONES[chip]);
    put(this.state, "title", useless ? useless.reason : found ? why(found) : "Switched off in this group.");
    write(this.why, found ? shortly(found, now) : "");
    this.#outline(found, now);
    const dark = found && (rules.DARK.has(chip) || chip === "probe due");
    if (this.reset) {
      this.reset.hidden = !dark;
      put(this.reset, "aria-label", `Reset circuit breaker of ${this.entry.provider_name}`);
      put(this.reset, "title", "Reset circuit breaker");
    }
    return found ? rules.chipUntil(found) : null;
  }

  #outline(found, now) {
    const waits = found && rules.DARK.has(found.chip);
    const kind = waits ? "dark" : found?.chip === "probe due" ? "due" : null;
    const rest = waits && found.retryAt ? found.retryAt - now : 0;
    const burning = rest > 0 && rest <= rules.BURNING_MS;
    put(this.element, "data-circuit", kind);
    const started = burning ? `${found.circuit.opened_at}/${found.retryAt}` : null;
    if (this.element.getAttribute("data-burning") === started) return;
    put(this.element, "data-burning", started);
    if (!burning) return;
    const whole = Math.max(rest, found.circuit.cooldown_ms ?? 0);
    this.element.style.setProperty("--burn", `${whole}ms`);
    this.element.style.setProperty("--burnt", `${rest - whole}ms`);
    this.element.style.setProperty("--burn-steps", String(Math.max(1, Math.round(whole / 1000))));
  }
}

export class Card {
  /** *board*: store, mayChange and what the buttons do (board.js). The inside is made when the card is first near. */
  constructor(board, group) {
    this.board = board;
    this.id = group.id;
    this.group = group;
    this.rows = new Map();
    this.filled = false;
    this.waiting = null;
    this.element = h("article", { class: "mh-card mh-fgroup", dataset: { group: group.id } });
    this.show(group);
  }

  get shown() {
    return !this.element.hidden;
  }

  fill() {
    if (this.filled) return;
    this.filled = true;
    const { board, id } = this;
    const change = board.mayChange;
    this.check = change && h("input", { type: "checkbox", class: "mh-check", on: { change: () => board.selection.choose(id, this.check.checked) } });
    this.title = h("button", { type: "button", class: "mh-fgroup-name", on: { click: () => board.copyName(this) } });
    this.auto = h("span", { class: "mh-chip", dataset: { tone: "info" }, title: "Made and kept by sync" }, "auto");
    this.power = h("button", { type: "button", role: "switch", class: "mh-power", on: { click: () => board.power(id) } });
    this.about = h("p", { class: "mh-fgroup-about" });
    this.notice = h("div", { class: "mh-notice", "data-notice": true, hidden: true });
    this.listing = h("ol", { class: "mh-rows" });
    this.live = h("span", { class: "mh-live-count" });
    this.total = h("span", { class: "mh-tokens" });
    this.edit = change && h("button", { type: "button", class: "mh-btn mh-btn-quiet", on: { click: () => board.edit(id) } }, "Edit");
    this.trash = change && h("button", { type: "button", class: "mh-btn mh-btn-quiet", on: { click: () => board.remove(id) } }, "Delete");
    if (!change) this.power.disabled = true;
    this.element.append(
      h("header", { class: "mh-fgroup-head" }, this.check, this.title, this.auto, this.power),
      this.about,
      this.listing,
      this.notice, // below the rows: they must not jump under a pointer
      h("footer", { class: "mh-fgroup-foot" }, h("span", { class: "mh-fgroup-sums" }, this.live, this.total), this.edit, this.trash),
    );
    this.show(this.group);
  }

  show(group) {
    this.group = group;
    this.element.style.setProperty("--rows", String(group.entries.length));
    this.element.classList.toggle("mh-fgroup-off", !group.group_enabled);
    put(this.element, "aria-label", `hotel/${group.display_model}`);
    if (!this.filled) return;
    const name = `hotel/${group.display_model}`;
    write(this.title, name);
    put(this.title, "title", `Copy ${name}`);
    this.auto.hidden = !group.auto_created;
    write(this.power, group.group_enabled ? "ON" : "OFF");
    put(this.power, "aria-checked", String(group.group_enabled));
    put(this.power, "aria-label", `${name} answers`);
    const reason = group.auto_disabled ? "Switched off automatically: fewer than two members were usable." : null;
    put(this.power, "title", reason);
    const about = [group.display_name, group.description, reason].filter(Boolean).join(" · ");
    write(this.about, about);
    this.about.hidden = !about;
    if (this.check) {
      this.check.checked = this.board.selection?.ids.has(this.id) ?? false;
      put(this.check, "aria-label", `Select ${name}`);
      const word = group.auto_created ? "Options" : "Edit"; // the members of an auto group are kept by sync
      write(this.edit, word);
      put(this.edit, "aria-label", group.auto_created ? `Options of ${name}` : `Edit ${name}`);
      put(this.trash, "aria-label", `Delete ${name}`);
    }
    this.#members(group);
    write(this.total, group.total_tokens ? `${tokens(group.total_tokens)} tokens` : "");
    put(this.total, "title", group.total_tokens ? `${exact(group.total_tokens)} tokens in the last 30 days` : null);
    this.tick(this.board.store.now());
  }

  #members(group) {
    const order = rules.orderOf(group);
    const gone = new Set(this.rows.keys());
    group.entries.forEach((entry, index) => {
      gone.delete(entry.model_uuid);
      if (!this.rows.has(entry.model_uuid)) this.rows.set(entry.model_uuid, new Row(this));
      this.rows.get(entry.model_uuid).show(entry, index, order.length, group);
    });
    for (const id of gone) this.rows.delete(id);
    arrange(this.listing, order.map((id) => this.rows.get(id).element));
  }

  /** Chips, countdowns and footer at *now*. True while something of it moves by itself. */
  tick(now) {
    if (!this.filled) return false;
    let moving = false;
    for (const row of this.rows.values()) moving = row.tick(now) !== null || moving;
    const sum = rules.summary(this.group, this.board.store.circuits, now);
    this.live.classList.toggle("mh-dark", sum.dark);
    const retry = sum.retryAt && sum.retryAt > now ? ` · first retry in ${left(sum.retryAt, now)}` : "";
    let text = `${sum.live} of ${sum.of} entries live`;
    if (sum.dark) text = `all entries dark${retry}`;
    else if (!sum.of) text = "no entry can be used";
    write(this.live, text);
    put(this.live, "title", sum.dark && sum.retryAt ? `Earliest retry ${age(new Date(sum.retryAt).toISOString())}` : null);
    return moving;
  }

  /** The members' ids in the order of the page, which is not yet the group's while a row is lifted. */
  order() {
    return [...this.listing.children].map((row) => row.dataset.id);
  }

  renumber() {
    const ids = this.order();
    ids.forEach((id, index) => this.rows.get(id).number(index, ids.length));
  }

  step(row, by) {
    this.board.moves.step(this, row.entry.model_uuid, by);
    const button = by < 0 ? row.up : row.down;
    (button.disabled ? (by < 0 ? row.down : row.up) : button).focus();
  }

  /** A bar in the card: *text* and buttons [[word, act]]; nothing takes it away. */
  say(text = "", buttons = []) {
    if (!this.filled) {
      if (!text) return;
      this.fill();
    }
    this.notice.hidden = !text;
    this.notice.replaceChildren(
      h("span", {}, text),
      ...buttons.map(([word, act]) => h("button", { type: "button", class: "mh-btn mh-btn-quiet", on: { click: act } }, word)),
    );
  }
}
