// Small helpers every page uses.

/**
 * ms the server's clock is ahead of this browser's. *now*: the server's, in ms, when it wrote this page; compared with
 * the moment the page arrived, because what a browser does before it runs a script may take seconds.
 */
export function ahead(now) {
  const [page] = performance.getEntriesByType("navigation");
  return now - (page ? performance.timeOrigin + page.responseStart : Date.now());
}

/**
 * An element. *props*: attributes; "class"; "dataset"; "on" {event: fn}; "text"; true is an empty attribute, false and
 * null none. *children*: nodes, texts, lists of these; null and false are left out. Text never becomes markup.
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "dataset") Object.assign(element.dataset, value);
    else if (name === "on") for (const [kind, fn] of Object.entries(value)) element.addEventListener(kind, fn);
    else if (name.startsWith("on") && typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else if (name === "value") element.value = value;
    else if (name === "className") element.className = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Runs *fn* once *ms* after the last call. ``cancel()`` forgets a call that waits. */
export function debounce(fn, ms = 300) {
  let timer = 0;
  const later = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => fn(...args), ms);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}

/** The filters of this page's address: {name: text}. */
export function readAddress() {
  return Object.fromEntries(new URLSearchParams(location.search));
}

/** Puts *params* into the address; empty ones are left out. Back returns to the address before, unless *replace*. */
export function writeAddress(params, { replace = false } = {}) {
  const kept = Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
  const address = location.pathname + (text ? `?${text}` : "") + location.hash;
  if (address === location.pathname + location.search + location.hash) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
}

/** Calls fn(params) when Back or Forward changed the address. */
export function onAddress(fn) {
  window.addEventListener("popstate", () => fn(readAddress()));
}

/** Matches where a table shows what matters first, because the rest is out of sight. */
export const narrow = matchMedia("(max-width: 640px)");

const PREFIX = "mh-";

/** Keeps a value in this browser. A browser that keeps nothing is no error. */
export function remember(key, value) {
  try {
    localStorage.setItem(PREFIX + key, JSON.stringify(value));
  } catch {
    // Kept by nobody.
  }
}

/** What was kept, or *fallback*. */
export function recall(key, fallback = null) {
  try {
    const text = localStorage.getItem(PREFIX + key);
    return text === null ? fallback : JSON.parse(text);
  } catch {
    return fallback;
  }
}
