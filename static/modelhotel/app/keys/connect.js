// The snippets once more, after a key was shown: with a placeholder where its text belongs.
import { open } from "../dialog.js";
import { h } from "../ui.js";
import { Clients } from "./clients.js";
import { PLACEHOLDER_KEY } from "./snippets.js";

export class ConnectDialog {
  /** *key*: the one whose access counts, null for one that may use everything. *names*: the page's list of models. */
  constructor(key, names, { base, endpoints }) {
    const clients = new Clients(base, PLACEHOLDER_KEY, endpoints);
    const allowed = key?.allowed_providers;
    clients.offer(allowed ? names.filter((name) => name.providers.some((id) => allowed.includes(id))) : names);
    this.element = h(
      "dialog",
      { class: "mh-keys-dialog mh-keys-created", "data-size": "wide" },
      h("h2", {}, key ? `Connect a client with the key “${key.name}”` : "Connect a client"),
      h("p", { class: "mh-why" }, "A key is shown once, when it is made. Put yours where ", h("code", {}, PLACEHOLDER_KEY), " stands."),
      clients.facts,
      clients.parts,
      h("div", { class: "mh-dialog-actions" }, h("button", { type: "button", class: "mh-btn", "data-close": true, autofocus: true }, "Close")),
    );
  }

  show() {
    open(this.element);
  }
}
