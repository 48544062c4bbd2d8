"use strict";
for (const button of document.querySelectorAll("[data-copy]")) {
  const source = document.getElementById(button.dataset.copy);
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      // Without TLS the browser gives no clipboard: select it for the user to copy.
      window.getSelection().selectAllChildren(source);
      button.textContent = "Selected, press Ctrl+C";
    }
  });
}
