// A share as a bar; the figure beside it says the same in words.
import { h } from "../ui.js";

/** *used*: percent, null for none. *tone*: good, warn or bad. */
export function bar(used, tone) {
  const fill = h("span", { class: "mh-bar-fill", dataset: { tone } });
  fill.style.width = `${Math.min(100, Math.max(0, used || 0))}%`;
  return h("span", { class: "mh-bar", "aria-hidden": "true", hidden: used === null }, fill);
}
