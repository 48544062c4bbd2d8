// The sign-in page: show and hide the token, count a lock down.
(() => {
  "use strict";
  const field = document.getElementById("id_admin_token");
  const reveal = document.getElementById("token-reveal");
  if (field && reveal) {
    const show = reveal.textContent;
    reveal.hidden = false;
    reveal.addEventListener("click", () => {
      const hidden = field.type === "password";
      field.type = hidden ? "text" : "password";
      reveal.setAttribute("aria-pressed", String(hidden));
      reveal.textContent = hidden ? show.replace("Show", "Hide") : show;
    });
  }

  const alert = document.querySelector("[data-retry-after]");
  if (alert) {
    const texts = document.createTreeWalker(alert, NodeFilter.SHOW_TEXT);
    let line = texts.nextNode();
    while (line && !/\d+ s\b/.test(line.data)) line = texts.nextNode();
    const buttons = document.querySelectorAll("#login-form [type=submit], #token-form [type=submit]");
    const until = Date.now() + Number(alert.dataset.retryAfter) * 1000;
    const tick = () => {
      const seconds = Math.ceil((until - Date.now()) / 1000);
      buttons.forEach((button) => { button.disabled = seconds > 0; });
      if (line) line.data = seconds > 0 ? line.data.replace(/\d+ s\b/, `${seconds} s`) : "You can try again now";
      if (seconds > 0) setTimeout(tick, 250);
    };
    tick();
  }
})();
