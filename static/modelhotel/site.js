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

// Times come in UTC; here they are in the browser's zone, with the full instant as the tooltip.
const localTimes = (root) => {
  const pad = (value) => String(value).padStart(2, "0");
  for (const element of root.querySelectorAll("time[datetime]:not([title])")) {
    const at = new Date(element.getAttribute("datetime"));
    if (Number.isNaN(at.getTime())) continue;
    const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
    element.textContent = `${day} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
    element.title = at.toISOString();
  }
};
document.addEventListener("DOMContentLoaded", () => localTimes(document));
