// Questions and dialogs, on the browser's own <dialog>: focus stays inside, Esc closes the topmost only.
import { h } from "./ui.js";

let serial = 0;

function label(dialog) {
  dialog.setAttribute("role", "dialog");
  if (dialog.hasAttribute("aria-label") || dialog.hasAttribute("aria-labelledby")) return;
  const heading = dialog.querySelector("h1, h2, h3");
  if (!heading) return;
  if (!heading.id) heading.id = `mh-dialog-${(serial += 1)}`;
  dialog.setAttribute("aria-labelledby", heading.id);
}

/** Finds the button again from which a dialog was opened, should what it stands on be drawn anew meanwhile. */
function returning(opener) {
  const about = opener?.dataset?.act && opener.closest("[data-id]");
  const selector = about && `[data-id="${CSS.escape(about.dataset.id)}"] [data-act="${CSS.escape(opener.dataset.act)}"]`;
  return () => (opener?.isConnected || !selector ? opener : document.querySelector(selector));
}

/**
 * Opens *dialog*, a <dialog>; one that was not in the page leaves it again with its end. Returns what closes it.
 * A click outside changes nothing, so no input is lost. Buttons with data-close inside close it.
 */
export function open(dialog) {
  const opener = returning(document.activeElement);
  const own = !dialog.isConnected;
  if (own) document.body.append(dialog);
  dialog.classList.add("mh-dialog");
  label(dialog);
  const close = () => dialog.open && dialog.close();
  const clicked = (event) => event.target.closest("[data-close]") && close();
  dialog.addEventListener("click", clicked);
  dialog.addEventListener(
    "close",
    () => {
      dialog.removeEventListener("click", clicked);
      if (own) dialog.remove();
      const back = opener();
      if (back?.isConnected && typeof back.focus === "function") back.focus();
    },
    { once: true },
  );
  dialog.showModal();
  return close;
}

/**
 * Asks before something is done. *affects*: what else it touches, one line each. *word* has to be typed first.
 * True only for the button itself.
 */
export function confirm({ title, text = "", affects = [], action = "Delete", danger = true, word = "" }) {
  return new Promise((resolve) => {
    let agreed = false;
    const go = h("button", { type: "submit", class: danger ? "mh-btn mh-btn-danger" : "mh-btn", disabled: Boolean(word) }, action);
    const field = word && h("input", { class: "mh-input", autocomplete: "off", autofocus: true });
    if (field) field.addEventListener("input", () => { go.disabled = field.value.trim() !== word; });
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", {}, title),
      text && h("p", {}, text),
      affects.length > 0 && h("ul", {}, affects.map((line) => h("li", {}, line))),
      field && h("label", { class: "mh-field" }, `Type ${word} to go on`, field),
      h(
        "div",
        { class: "mh-dialog-actions" },
        h("button", { type: "button", class: "mh-btn mh-btn-quiet", "data-close": true, autofocus: !field }, "Cancel"),
        go,
      ),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (go.disabled) return;
      agreed = true;
      close();
    });
    const dialog = h("dialog", {}, form);
    dialog.addEventListener("close", () => resolve(agreed), { once: true });
    const close = open(dialog);
  });
}
