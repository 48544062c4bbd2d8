// "Delete …": rows by age, after a question.
import { api, busy } from "../api.js";
import { open } from "../dialog.js";
import { toast } from "../toast.js";
import { h } from "../ui.js";

const AGES = [
  ["1h", "older than an hour"],
  ["1d", "older than a day"],
  ["1w", "older than a week"],
  ["1m", "older than a month"],
  ["all", "all of them"],
];

/** *noun*: what is deleted; *affects*: what else that means. *send*(age) does it, *done*() follows. */
export function purge({ noun, affects, send, done }) {
  const age = h("select", { class: "mh-input" }, AGES.map(([value, words]) => h("option", { value }, words)));
  age.value = "1m";
  const go = h("button", { type: "submit", class: "mh-btn mh-btn-danger" }, "Delete");
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", {}, `Delete ${noun}`),
    h("label", { class: "mh-field" }, "Which", age),
    h("ul", {}, affects.map((line) => h("li", {}, line))),
    h("div", { class: "mh-dialog-actions" }, h("button", { type: "button", class: "mh-btn mh-btn-quiet", "data-close": true, autofocus: true }, "Cancel"), go),
  );
  const close = open(h("dialog", {}, form));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (go.disabled) return;
    try {
      const answer = await busy(go, send(age.value));
      close();
      toast(answer && answer.deleted !== undefined ? `${answer.deleted} ${noun} deleted.` : `The ${noun} are deleted.`, "success");
      done();
    } catch (problem) {
      toast(problem.message, "error");
    }
  });
}

export const deleteRequests = (age) => api("DELETE", "/api/logs/purge", { older_than: age });
export const deleteLines = (age) => api("DELETE", "/api/logs/app", { older_than: age });
