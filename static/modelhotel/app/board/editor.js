// The dialog that makes a group or changes one: names, members in priority order and options; of an auto group, whose
// names and members are kept by sync, only the options.
import { api, busy } from "../api.js";
import { open } from "../dialog.js";
import { toast } from "../toast.js";
import { h } from "../ui.js";
import { Picker } from "./picker.js";
import { MIN_ACTIVE, orderOf, signature } from "./rules.js";

const FIELDS = ["display_model", "display_name", "description"];
const RECOVERY = [["", "Default"], ["off", "Off"], ["continue", "Continue"]];

class Editor {
  constructor(board, group, candidates) {
    this.board = board;
    this.group = group;
    this.known = group;
    this.options = Boolean(group?.auto_created);
    const field = (name, label, more = {}) => {
      const input = h(more.tag ?? "input", { name, autocomplete: "off", class: "mh-input", ...more.props });
      input.value = group?.[name] ?? "";
      return h("label", { class: "mh-field" }, label, input, more.help && h("small", {}, more.help));
    };
    const required = { maxlength: 128, required: true, autofocus: true };
    this.problem = h("p", { class: "mh-problem", role: "alert", hidden: true });
    this.elsewhere = h("div", { class: "mh-notice", hidden: true });
    this.results = h("ul", { class: "mh-results", "aria-live": "polite" });
    this.submit = h("button", { type: "submit", class: "mh-btn mh-btn-primary" }, group ? "Save" : "Create group");
    this.picker = new Picker(candidates, group?.entries ?? [], () => this.#counted());
    this.retry = h("button", { type: "button", class: "mh-btn mh-btn-quiet", on: { click: () => busy(this.retry, this.#retry()) } }, "Retry N/A");
    this.drop = h("button", { type: "button", class: "mh-btn mh-btn-quiet", on: { click: () => this.#drop() } }, "Delete N/A");
    this.recovery = h("select", { class: "mh-input", name: "midstream_recovery" }, RECOVERY.map(([value, word]) => h("option", { value }, word)));
    this.recovery.value = group?.midstream_recovery ?? "";
    const names = () => [
      field("display_model", "Display model", { props: required, help: "This becomes hotel/<name> in the model list" }),
      field("display_name", "Display name (optional)", { props: { maxlength: 128 } }),
      field("description", "Description (optional)", { tag: "textarea", props: { rows: 2, maxlength: 500 } }),
      this.picker.element,
      h("div", { class: "mh-toolbar" }, this.retry, this.drop),
      this.results,
    ];
    this.form = h(
      "form",
      { method: "dialog", novalidate: true, on: { submit: (event) => this.#send(event) } },
      h("h2", {}, group ? `${this.options ? "Options of" : "Edit"} hotel/${group.display_model}` : "New group"),
      this.elsewhere,
      !this.options && names(),
      h("label", { class: "mh-field" }, "Mid-stream recovery", this.recovery, h("small", {}, "A stream that breaks after its first words is finished by the next member. Default: as the settings say")),
      this.problem,
      h("div", { class: "mh-dialog-actions" }, h("button", { type: "button", class: "mh-btn mh-btn-quiet", "data-close": true }, "Cancel"), this.submit),
    );
    this.dialog = h("dialog", { class: "mh-dialog mh-board-dialog" }, this.form);
    this.#counted();
  }

  show() {
    // Changed by somebody else while this is open: told, not overwritten; only what was edited here is sent.
    const look = setInterval(() => this.#look(), 500);
    this.dialog.addEventListener("close", () => clearInterval(look), { once: true });
    this.close = open(this.dialog);
    (this.form.elements.display_model ?? this.recovery).focus();
  }

  #look() {
    if (!this.group || this.submit.disabled) return; // being sent
    const now = this.board.store.get(this.group.id);
    if (now && signature(now) === signature(this.known)) return;
    this.known = now ?? this.known;
    const load = h("button", { type: "button", class: "mh-btn mh-btn-quiet", on: { click: () => this.#load(now) } }, "Load the other version");
    this.elsewhere.hidden = false;
    this.elsewhere.replaceChildren(
      h("span", {}, now ? "This group was changed elsewhere. Only what you edit here is saved over it." : "This group was deleted elsewhere."),
      now ? load : "",
    );
  }

  #load(now) {
    this.close();
    editGroup(this.board, now);
  }

  #counted() {
    const few = !this.options && this.picker.chosen.length < MIN_ACTIVE;
    this.submit.disabled = few;
    const dead = this.#dead();
    this.retry.hidden = !dead.some((one) => one.entry && !one.entry.model_enabled && one.entry.provider_enabled);
    this.drop.hidden = dead.length === 0;
    this.problem.hidden = true;
  }

  #dead() {
    return this.picker.chosen.filter((one) => one.unavailable);
  }

  #values() {
    const found = {};
    const recovery = this.recovery.value || null;
    if (recovery !== (this.group?.midstream_recovery ?? null)) found.midstream_recovery = recovery;
    if (this.options) return found;
    for (const name of FIELDS) {
      const text = this.form.elements[name].value.trim();
      if (!this.group || text !== this.group[name]) found[name] = text;
    }
    const ids = this.picker.chosen.map((one) => one.id);
    if (!this.group) return { ...found, entry_ids: ids };
    return String(ids) === String(orderOf(this.group)) ? found : { ...found, priority_order: ids };
  }

  async #send(event) {
    event.preventDefault();
    if (this.submit.disabled) return;
    const values = this.#values();
    const { store } = this.board;
    try {
      const saved = await busy(this.submit, this.group ? store.save(this.group.id, values) : store.create(values));
      this.close();
      toast(`hotel/${saved.display_model} ${this.group ? "saved" : "created"}`, "success");
    } catch (problem) {
      this.problem.hidden = false;
      this.problem.textContent = problem.message;
      if (problem.status === 409) toast(`hotel/${values.display_model.toLowerCase()} already exists`, "error");
      else toast(problem.message, "error");
    }
  }

  async #retry() {
    this.results.replaceChildren();
    const say = (one, tone, text) => this.results.append(h("li", { dataset: { tone } }, `${one.label}: ${text}`));
    for (const one of this.#dead()) {
      if (!one.entry || one.entry.model_enabled || !one.entry.provider_enabled) continue;
      try {
        const done = await api("POST", `/api/models/${one.id}/test?allow_disabled=true`);
        if (done.success) await api("PATCH", `/api/models/${one.id}`, { enabled: true });
        if (done.success) this.picker.revive(one.id);
        say(one, done.success ? "good" : "bad", done.success ? "answers, enabled again" : (done.error ?? "no answer"));
      } catch (problem) {
        say(one, "bad", problem.message);
      }
    }
    this.#counted();
    await this.board.store.refresh(this.group.id).catch(() => {});
    this.known = this.board.store.get(this.group.id) ?? this.known;
  }

  async #drop() {
    const left = this.picker.chosen.filter((one) => !one.unavailable);
    if (left.length >= MIN_ACTIVE || !this.group) {
      this.picker.keep(left);
      return;
    }
    if (await this.board.remove(this.group.id)) this.close();
  }
}

/** Opens the editor for *group*, or for a new one (null). */
export async function editGroup(board, group) {
  try {
    const editor = new Editor(board, group, await board.store.candidates());
    editor.show();
  } catch (problem) {
    if (problem.name !== "ApiError") throw problem;
    toast(problem.message, "error");
  }
}
