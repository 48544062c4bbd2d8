"use strict";
// A form is sent once: a second click while the first runs would do the same thing twice.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || (form.method || "").toLowerCase() !== "post") return;
  if (form.dataset.sent) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = "1";
});
// Back from the browser's page cache the form may be sent again.
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});
