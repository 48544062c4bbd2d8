"use strict";
// Before anything is painted: the chosen theme and accent, so that no page flashes in the other one, and no blank page until
// Alpine has come. Alpine sets the same class itself; ours goes right before, because it only takes back its own.
(() => {
  const html = document.documentElement;
  let chosen = "auto";
  try {
    chosen = JSON.parse(localStorage.getItem("adminTheme") || '"auto"');
  } catch {
    // A browser that keeps nothing follows the system.
  }
  accent();
  addEventListener("mh-accent", accent); // chosen on the settings page
  const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  const theme = dark ? "dark" : "light";
  const own = !html.classList.contains(theme);
  html.classList.add(theme);
  html.dataset.booting = "";
  html.removeAttribute("x-cloak");
  document.addEventListener("alpine:init", () => own && html.classList.remove(theme), { once: true });
  document.addEventListener("alpine:initialized", () => delete html.dataset.booting, { once: true });

  /** The accent this browser chose as all the shades of the site; without one, the site's own orange. */
  function accent() {
    let wanted = null;
    try {
      wanted = JSON.parse(localStorage.getItem("mh-accentColor"));
    } catch {
      // Nothing readable was kept.
    }
    const found = /^#[0-9a-f]{6}$/i.test(wanted) ? shades(wanted) : {};
    for (const step of [50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 950, "bright"]) {
      const name = step === "bright" ? "--mh-accent-bright" : `--color-primary-${step}`;
      if (step in found) html.style.setProperty(name, found[step]);
      else html.style.removeProperty(name);
    }
  }

  /** 600 carries white text and "bright" stands on the dark page, each at a contrast of 4.5 or more. */
  function shades(hex) {
    const own = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    const light = (rgb) => {
      const [r, g, b] = rgb.map((value) => (value <= 10.3 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const towards = (end, done) => {
      for (let part = 0; part <= 1; part += 0.04) {
        const rgb = own.map((value) => value + (end - value) * part);
        if (done(light(rgb))) return `rgb(${rgb.map(Math.round).join(" ")})`;
      }
      return `rgb(${end} ${end} ${end})`;
    };
    const strong = towards(0, (value) => value <= 0.155); // white on it: 1.05 / 0.205
    const bright = towards(255, (value) => value >= 0.3); // on the dark theme's card: 0.35 / 0.07
    const mixed = (part, other) => `color-mix(in oklab, ${strong} ${part}%, ${other})`;
    return {
      50: mixed(5, "white"), 100: mixed(11, "white"), 200: mixed(24, "white"), 300: mixed(44, "white"),
      400: bright, 500: mixed(86, "white"), 600: strong,
      700: mixed(86, "black"), 800: mixed(72, "black"), 900: mixed(58, "black"), 950: mixed(42, "black"), bright,
    };
  }
})();
