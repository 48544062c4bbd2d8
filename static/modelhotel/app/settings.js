// The settings page: every control saves itself, what others change arrives here, what is being typed stays.
import { api, busy } from "./api.js";
import { confirm } from "./dialog.js";
import { every, on, onGap } from "./live.js";
import { toast } from "./toast.js";
import { debounce, readAddress, recall, remember, writeAddress } from "./ui.js";

const EVERY = 60_000; // ms
const UNITS = { d: 86_400, h: 3600, m: 60, s: 1, ms: 0.001 };
const page = document.getElementById("settings");
const mayChange = page.dataset.mayChange === "true";
const settings = new Map();

/** Seconds of "1h30m", "90s", "2d"; of a word of *tokens* what it stands for. NaN for what is none. */
export function seconds(text, tokens = {}) {
  const word = text.trim();
  if (word in tokens) return tokens[word];
  if (word === "0") return 0;
  if (!/^(\d+(\.\d+)?(ms|d|h|m|s))+$/.test(word)) return NaN;
  let total = 0;
  for (const [, amount, unit] of word.matchAll(/(\d+(?:\.\d+)?)(ms|d|h|m|s)/g)) total += Number(amount) * UNITS[unit];
  return total;
}

/** "1m30s", "10m", "24h", "0s". */
export function short(total) {
  const parts = [[Math.floor(total / 3600), "h"], [Math.floor((total % 3600) / 60), "m"], [Math.round(total % 60), "s"]];
  return parts.filter(([amount]) => amount).map(([amount, unit]) => `${amount}${unit}`).join("") || "0s";
}

class Setting {
  constructor(data, element) {
    Object.assign(this, data);
    this.element = element;
    this.control = element.querySelector(`#id_${this.key}`);
    this.range = element.querySelector(".mh-range");
    this.note = element.querySelector("[data-state]");
    this.resetter = element.querySelector("[data-reset]");
    this.zeroWord = element.querySelector("[data-zero]");
    this.shown = this.effective; // what the control was last given
    this.listen();
    this.draw();
  }

  get text() {
    return this.kind === "bool" ? this.control.getAttribute("aria-checked") : this.control.value.trim();
  }

  set text(value) {
    if (this.kind === "bool") this.control.setAttribute("aria-checked", value);
    else this.control.value = value;
  }

  get dirty() {
    return this.text !== this.shown;
  }

  words(text) {
    if (this.kind === "bool") return text === "true" ? "on" : "off";
    if (this.zero && ["", "0", "0s"].includes(text)) return this.zero;
    return text || "empty";
  }

  number(text) {
    return this.kind === "duration" ? seconds(text, this.tokens) : Number(text);
  }

  listen() {
    if (!mayChange || this.fixed) return;
    if (this.kind === "bool") {
      this.control.addEventListener("click", () => {
        this.text = this.text === "true" ? "false" : "true";
        this.save();
      });
    } else {
      this.control.addEventListener("change", () => this.save());
      this.control.addEventListener("input", () => this.follow());
      this.control.addEventListener("keydown", (event) => {
        if (event.key === "Enter") this.save();
        if (event.key === "Escape" && this.dirty) {
          event.preventDefault();
          this.draw();
        }
      });
    }
    this.range?.addEventListener("input", () => {
      this.control.value = this.kind === "duration" ? short(Number(this.range.value)) : this.range.value;
      this.sayZero();
    });
    this.range?.addEventListener("change", () => this.save());
    this.resetter?.addEventListener("click", () => this.reset());
  }

  /** Back to the value in force. */
  draw() {
    this.text = this.effective;
    this.shown = this.text;
    this.follow();
    if (this.resetter) this.resetter.disabled = !this.stored;
  }

  follow() {
    const number = this.number(this.text);
    // Beyond its ends the slider stands at the end; the value stays what it is.
    if (this.range && !Number.isNaN(number)) this.range.value = String(number);
    this.sayZero();
  }

  sayZero() {
    if (!this.zeroWord) return;
    const number = this.text === "" ? (this.tokens[""] ?? NaN) : this.number(this.text);
    this.zeroWord.textContent = this.zero && number === 0 ? this.zero : "";
    this.range?.setAttribute("aria-valuetext", this.zeroWord.textContent || this.text);
  }

  say(text, tone = "") {
    if (this.fixed) return;
    this.note.textContent = text;
    this.note.dataset.tone = tone;
    if (tone === "bad") this.note.setAttribute("role", "alert");
    else this.note.removeAttribute("role");
    this.control.setAttribute("aria-invalid", String(tone === "bad"));
  }

  async save() {
    const text = this.text;
    if (!this.dirty || this.saving === text) return;
    this.saving = text;
    try {
      const map = await api("PUT", "/api/settings", { [this.key]: text });
      this.take({ effective: map[this.key] ?? this.default, stored: this.key in map }, true);
      this.say("");
      toast(`${this.label} updated: ${this.words(this.effective)}`, "success");
    } catch (problem) {
      this.draw();
      this.say(problem.message, "bad");
      toast(problem.message, "error");
    } finally {
      this.saving = null;
    }
    moots();
  }

  async reset() {
    try {
      await busy(this.resetter, api("DELETE", "/api/settings", { keys: [this.key] }));
      this.take({ effective: this.default, stored: false }, true);
      this.say("");
      toast(`${this.label} is back to default: ${this.words(this.default)}`, "success");
    } catch (problem) {
      toast(problem.message, "error");
    }
    moots();
  }

  /** What the server says now. Something that is being typed is kept, and told about it. */
  take({ effective, stored }, own = false) {
    const changed = effective !== this.effective;
    this.effective = effective;
    this.stored = stored;
    if (!own && this.dirty) {
      if (changed) this.say(`Changed elsewhere meanwhile: now ${this.words(effective)}. Your input is kept; Esc drops it.`, "warn");
      if (this.resetter) this.resetter.disabled = !stored;
    } else {
      this.draw();
      if (changed) this.say("");
    }
  }
}

/** What its switch makes moot is disabled, and keeps its value. */
function moots() {
  markPresets();
  if (!mayChange) return;
  for (const setting of settings.values()) {
    const off = setting.switches.some((key) => settings.get(key)?.text === "false");
    for (const control of [setting.control, setting.range]) if (control && !setting.fixed) control.disabled = off;
  }
  for (const section of page.querySelectorAll("[data-section]")) {
    const button = section.querySelector("[data-reset-section]");
    if (button) button.disabled = stored(section).length === 0;
  }
}

const within = (section) => [...section.querySelectorAll("[data-key]")].map((element) => settings.get(element.dataset.key));
const stored = (section) => within(section).filter((setting) => setting.stored && !setting.fixed);
const lines = (found) => found.map((one) => `${one.label}: ${one.words(one.effective)} → ${one.words(one.default)}`);

async function refresh() {
  const { settings: found } = await api("GET", "/api/settings/catalogue");
  for (const entry of found) {
    settings.get(entry.key)?.take({ effective: entry.effective, stored: entry.stored !== null });
  }
  moots();
}

async function resetSection(section, button) {
  const found = stored(section);
  const title = `Reset the section ${section.dataset.section}?`;
  if (!(await confirm({ title, text: "These return to their defaults:", affects: lines(found), action: "Reset" }))) return;
  await resetKeys(found.map((one) => one.key), found.length, button);
}

async function resetAll(button) {
  const found = [...settings.values()].filter((one) => one.stored);
  if (!found.length) return toast("Every setting is at its default already.");
  const question = { title: "Reset all settings?", text: "These return to their defaults:", affects: lines(found) };
  if (await confirm({ ...question, action: "Reset all", word: "RESET" })) await resetKeys([], found.length, button);
}

async function resetKeys(keys, count, button) {
  try {
    await busy(button, api("DELETE", "/api/settings", { keys }));
    toast(count === 1 ? "1 setting back to default" : `${count} settings back to default`, "success");
    await refresh();
  } catch (problem) {
    toast(problem.message, "error");
  }
}

// -- presets: named sets of the failover settings

const presets = JSON.parse(document.getElementById("preset-values").textContent);
const inForce = (name) => Object.entries(presets[name]).every(([key, value]) => settings.get(key)?.effective === value);

function markPresets() {
  for (const button of page.querySelectorAll("[data-preset]")) button.setAttribute("aria-pressed", String(inForce(button.dataset.preset)));
}

async function applyPreset(button) {
  const name = button.dataset.preset;
  try {
    const { changes } = await busy(button, api("POST", "/api/settings/preset?dryRun=1", { name }));
    if (!changes.length) return toast(`Preset ${name} is in force already.`);
    const told = changes.map(({ key, from, to }) => {
      const setting = settings.get(key);
      return `${setting.label}: ${setting.words(from)} → ${setting.words(to)}`;
    });
    const question = { title: `Apply the preset ${name}?`, text: "It changes:", affects: told, action: "Apply", danger: false };
    if (!(await confirm(question))) return;
    await busy(button, api("POST", "/api/settings/preset", { name }));
    toast(`Preset ${name} applied`, "success");
    await refresh();
  } catch (problem) {
    toast(problem.message, "error");
  }
}

async function purge(button) {
  const age = document.getElementById("purge-age");
  const { what } = button.dataset;
  const which = age.value === "all" ? `all ${what}` : `${what} older than ${age.selectedOptions[0].textContent}`;
  const question = { title: `Delete ${which}?`, text: "They cannot be brought back. Requests in flight stay.", action: "Delete" };
  if (!(await confirm(question))) return;
  try {
    await busy(button, api("DELETE", button.dataset.purge, { older_than: age.value }));
    toast(`Deleted ${which}`, "success");
  } catch (problem) {
    toast(problem.message, "error");
  }
}

async function clearQuotas(button) {
  const text = "Every provider is asked again when its quota is next looked at or polled. Circuits that wait for one go on waiting until then.";
  if (!(await confirm({ title: "Clear the stored quota readings?", text, action: "Clear" }))) return;
  try {
    await busy(button, api("DELETE", "/api/providers/quotas"));
    toast("Quota cache cleared", "success");
  } catch (problem) {
    toast(problem.message, "error");
  }
}

function find(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (element) => words.every((word) => `${element.textContent} ${element.dataset.key || ""}`.toLowerCase().includes(word));
  let any = false;
  for (const section of page.querySelectorAll("[data-section]")) {
    const whole = words.every((word) => section.dataset.section.toLowerCase().includes(word));
    const items = [...section.querySelectorAll(".mh-setting, .mh-exports li, .mh-tools")];
    for (const item of items) item.hidden = !whole && !matches(item);
    for (const group of section.querySelectorAll(".mh-group:not(.mh-tools)")) {
      group.hidden = !group.querySelector(".mh-setting:not([hidden])");
    }
    section.hidden = !items.some((item) => !item.hidden);
    if (words.length && !section.hidden) section.querySelector("details").open = true;
    any ||= !section.hidden;
  }
  document.getElementById("nothing-found").hidden = any;
}

function finding() {
  const field = document.getElementById("find-setting");
  const apply = () => {
    writeAddress({ ...readAddress(), q: field.value.trim() }, { replace: true });
    find(field.value);
  };
  field.value = readAddress().q || "";
  if (field.value) find(field.value);
  field.addEventListener("input", debounce(apply));
  document.getElementById("find-clear").addEventListener("click", () => {
    field.value = "";
    apply();
    field.focus();
  });
}

function folding() {
  const closed = new Set(recall("settingsClosed", []));
  for (const section of page.querySelectorAll("[data-section]")) {
    const details = section.querySelector("details");
    details.open = !closed.has(section.dataset.section);
    section.querySelector("summary").addEventListener("click", () => {
      closed[details.open ? "add" : "delete"](section.dataset.section); // before it toggles
      remember("settingsClosed", [...closed]);
    });
  }
}

/** The accent of this browser: chosen, it is in force at once; "" is the site's own. */
function accents(group) {
  const own = document.getElementById("accent-own");
  const swatches = [...group.querySelectorAll("[data-colour]")];
  const mark = (colour) => {
    for (const swatch of swatches) swatch.setAttribute("aria-pressed", String(swatch.dataset.colour === colour));
    if (colour) own.value = colour;
  };
  const choose = (colour) => {
    remember("accentColor", colour);
    window.dispatchEvent(new Event("mh-accent"));
    mark(colour);
  };
  for (const swatch of swatches) swatch.addEventListener("click", () => choose(swatch.dataset.colour));
  own.addEventListener("input", () => choose(own.value));
  mark(recall("accentColor", ""));
}

function preferences() {
  for (const select of page.querySelectorAll("[data-preference]")) {
    const kept = recall(select.dataset.preference);
    if (kept !== null) select.value = String(kept);
    select.addEventListener("change", () => {
      const value = select.value;
      remember(select.dataset.preference, /^(\d+|true|false)$/.test(value) ? JSON.parse(value) : value);
      toast("Kept in this browser; it holds from the next page on", "success");
    });
  }
  accents(document.getElementById("accent"));
  document.getElementById("undismiss").addEventListener("click", () => {
    remember("ackedErrorKeys", []);
    toast("Dismissed failures are shown again from the next page on", "success");
  });
}

for (const data of JSON.parse(document.getElementById("settings-data").textContent)) {
  const element = page.querySelector(`[data-key="${data.key}"]`);
  if (element) settings.set(data.key, new Setting(data, element));
}
moots();
folding();
finding();
preferences();
document.getElementById("reset-all")?.addEventListener("click", (event) => resetAll(event.currentTarget));
for (const button of page.querySelectorAll("[data-reset-section]")) {
  button.addEventListener("click", () => resetSection(button.closest("[data-section]"), button));
}
for (const button of page.querySelectorAll("[data-preset]")) button.addEventListener("click", () => applyPreset(button));
for (const button of page.querySelectorAll("[data-purge]")) button.addEventListener("click", () => purge(button));
page.querySelector("#clear-quotas")?.addEventListener("click", (event) => clearQuotas(event.currentTarget));
const soon = debounce(refresh, 100);
on("config.changed", (event) => event.metadata?.kind === "setting" && soon());
onGap(refresh);
every(EVERY, refresh);
