// How a model test ended.
import { duration } from "../format.js";
import { h } from "../ui.js";
import { hintOf } from "../providers/fields.js";

/** How a test ended, in nodes; an error stands there as the provider wrote it, keys masked by the server. */
export function verdict(found) {
  const headers = found.response_header_ms === undefined ? "" : `, headers after ${duration(found.response_header_ms)}`;
  if (found.success) {
    const said = found.response && h("p", { class: "mh-why" }, `It said: ${found.response}`);
    return [h("p", { class: "mh-outcome", dataset: { tone: "good" } }, `Answered in ${duration(found.duration_ms)}${headers}.`), said].filter(Boolean);
  }
  const hint = hintOf(found.error);
  return [
    h("p", { class: "mh-outcome", dataset: { tone: "bad" } }, `Failed after ${duration(found.duration_ms)}. ${hint}`),
    h("pre", { class: "mh-code mh-test-error", tabindex: "0" }, found.error),
  ];
}
