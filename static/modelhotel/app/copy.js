// A click copies: data-copy="<id>" the text of that element, data-copy-text="…" that text, data-copy="" its own.
const SHOWN = 1500; // ms

/** Puts *text* into the clipboard and marks *element*. */
export async function copy(text, element) {
  try {
    await navigator.clipboard.writeText(text);
    mark(element, "Copied");
    return true;
  } catch {
    return false;
  }
}

function mark(element, word) {
  if (!element) return;
  clearTimeout(element.mhTimer);
  const plain = element.tagName === "BUTTON" && element.childElementCount === 0;
  if (plain) {
    if (element.mhText === undefined) element.mhText = element.textContent;
    element.textContent = word;
  } else element.dataset.copied = word;
  element.mhTimer = setTimeout(() => {
    if (plain) {
      element.textContent = element.mhText;
      delete element.mhText;
    } else delete element.dataset.copied;
  }, SHOWN);
}

async function clicked(element) {
  const source = document.getElementById(element.dataset.copy || "") || element;
  const text = element.dataset.copyText ?? source.textContent.trim();
  if (await copy(text, element)) return;
  // Without TLS the browser gives no clipboard: select it for the user to copy.
  window.getSelection().selectAllChildren(source);
  mark(element, "Selected, press Ctrl+C");
}

document.addEventListener("click", (event) => {
  const element = event.target instanceof Element && event.target.closest("[data-copy], [data-copy-text]");
  if (element) clicked(element);
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.target instanceof Element)) return;
  const element = event.target.closest("[data-copy]:not(button, a), [data-copy-text]:not(button, a)");
  if (element) clicked(element);
});
for (const button of document.querySelectorAll("button[data-copy][hidden]")) button.hidden = false;
