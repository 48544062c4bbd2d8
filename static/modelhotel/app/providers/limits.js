// What may be asked of a provider: how much at once, how slow, until when, and what is kept of its quota.
import { h } from "../ui.js";
import { Field, text, toggle } from "./field.js";

const DAY = 86_400_000; // ms

/** The day after *day*, both as YYYY-MM-DD. */
export function dayAfter(day) {
  return new Date(Date.parse(`${day}T00:00:00Z`) + DAY).toISOString().slice(0, 10);
}

/** What the reserve slider says of *percent* where a kind keeps it of *window*; "" is a kind that keeps none. */
export function reserveText(percent, window) {
  if (!window) return percent ? "This type keeps no reserve: the value has no effect. Move it to 0 to clear it." : "Cleared when it is saved.";
  if (!percent) return `The ${window} window is used to its end.`;
  return `hotel/ names stop coming here when ${percent} % of the ${window} window is left, so that it stays for use outside of the gateway.`;
}

export class Limits {
  /** *stored*: the provider, null for a new one. *today*: the server's day, on which the switch-off would be at once. */
  constructor(stored, today) {
    this.stored = stored;
    this.most = new Field("max_in_flight", "Most requests at once", text({ inputmode: "numeric", placeholder: "no ceiling", value: stored && stored.max_in_flight !== null ? String(stored.max_in_flight) : "" }));
    this.most.hint.textContent = "Empty: no ceiling. What the provider's busy answers teach is kept below it.";
    this.slow = new Field("circuit_breaker_slow_call_threshold", "Slow answer after", text({ placeholder: "as the setting says", value: (stored && stored.circuit_breaker_slow_call_threshold) || "" }));
    this.slow.hint.textContent = "Such as 60s: a slower answer is charged to its circuit. 0s: never. Empty: Slow Call Threshold of the settings.";
    this.enabled = toggle("Enabled", "enabled", stored ? stored.enabled : true);
    this.discovery = toggle("Its models may be discovered", "autodiscovery_enabled", stored ? stored.autodiscovery_enabled : true);
    this.#date(today);
    this.#reserve();
  }

  #date(today) {
    const clear = h("button", { type: "button", class: "mh-btn mh-btn-quiet mh-small", "aria-label": "Do not switch it off by itself" }, "Clear");
    const input = h("input", { class: "mh-input", type: "date", min: dayAfter(today), value: (this.stored && this.stored.scheduled_disable_on) || "" });
    this.off = new Field("scheduled_disable_on", "Switch off on", input, clear);
    this.off.hint.textContent = "At the start of that day on the gateway's clock, once. Empty: it stays on.";
    const follow = () => {
      clear.hidden = !input.value;
      input.disabled = !this.enabled.input.checked;
    };
    clear.addEventListener("click", () => {
      input.value = "";
      this.off.refuse("");
      follow();
      input.focus();
    });
    input.addEventListener("input", follow);
    this.enabled.input.addEventListener("change", follow);
    follow();
  }

  #reserve() {
    const input = h("input", { class: "mh-range", type: "range", min: "0", max: "90", step: "10", value: String(this.stored ? this.stored.quota_reserve_percent : 0) });
    this.share = h("output", { class: "mh-range-value" });
    this.reserve = new Field("quota_reserve_percent", "Quota reserve", input, this.share);
    input.addEventListener("input", () => this.#said());
  }

  #said() {
    const percent = Number(this.reserve.control.value);
    this.share.textContent = `${percent} %`;
    this.reserve.control.setAttribute("aria-valuetext", `${percent} %`);
    this.reserve.hint.textContent = reserveText(percent, this.window);
  }

  /** Shows what means something for *kind*, null for one that is not known yet. */
  show(kind) {
    this.window = (kind && kind.reserve) || "";
    const left = Boolean(this.stored && this.stored.quota_reserve_percent);
    this.reserve.element.hidden = !this.window && !left;
    if (this.reserve.element.hidden) this.reserve.control.value = "0";
    this.#said();
  }

  get fields() {
    return [this.most, this.slow, this.off, this.reserve];
  }

  get element() {
    if (!this.stored) return h("div", { class: "mh-limits" }, this.most.element, this.reserve.element);
    return h(
      "div",
      { class: "mh-limits" },
      h("div", { class: "mh-pair" }, this.most.element, this.slow.element),
      this.reserve.element,
      this.off.element,
      this.enabled.element,
      this.discovery.element,
    );
  }

  /** null for no ceiling; what is no whole number goes as 0, which the server refuses in its own words. */
  get #ceiling() {
    if (!this.most.value) return null;
    return /^\d+$/.test(this.most.value) ? Number(this.most.value) : 0;
  }

  /** The members of a create or an edit; a date half typed is refused by the server in its own words. */
  given() {
    const { control: date } = this.off;
    const made = { max_in_flight: this.#ceiling, quota_reserve_percent: Number(this.reserve.control.value) };
    if (!this.stored) return made;
    return {
      ...made,
      circuit_breaker_slow_call_threshold: this.slow.value || null,
      scheduled_disable_on: date.validity.badInput ? "?" : date.disabled ? null : date.value || null,
      enabled: this.enabled.input.checked,
      autodiscovery_enabled: this.discovery.input.checked,
    };
  }
}
