"use strict";
// Before anything is painted: the chosen theme, so that no page flashes in the other one, and no blank page until
// Alpine has come. Alpine sets the same class itself; ours goes right before, because it only takes back its own.
(() => {
  const html = document.documentElement;
  let chosen = "auto";
  try {
    chosen = JSON.parse(localStorage.getItem("adminTheme") || '"auto"');
  } catch {
    // A browser that keeps nothing follows the system.
  }
  const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  const theme = dark ? "dark" : "light";
  const own = !html.classList.contains(theme);
  html.classList.add(theme);
  html.dataset.booting = "";
  html.removeAttribute("x-cloak");
  document.addEventListener("alpine:init", () => own && html.classList.remove(theme), { once: true });
  document.addEventListener("alpine:initialized", () => delete html.dataset.booting, { once: true });
})();
