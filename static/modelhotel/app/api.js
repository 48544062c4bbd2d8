// Calls of the product's own API with the session of this browser.

export class ApiError extends Error {
  /** *status* 0: the gateway could not be reached. *body* is what it said, decoded where it was JSON. */
  constructor(status, message, body = null) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.body = body;
  }
}

const UNREACHABLE = "The gateway cannot be reached.";
let leaving = false;

/** To the sign-in page with the reason, and from there back to this address. */
export function signedOut() {
  if (leaving) return;
  leaving = true;
  const back = encodeURIComponent(location.pathname + location.search);
  location.assign(`/login/?next=${back}&expired=1`);
}

function csrf() {
  const found = document.cookie.split("; ").find((part) => part.startsWith("mh_csrf="));
  return found ? found.slice("mh_csrf=".length) : "";
}

async function decoded(response) {
  const text = await response.text();
  if (!(response.headers.get("Content-Type") || "").includes("json")) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function told(status, body) {
  if (body && typeof body === "object" && typeof body.error === "string") return body.error;
  if (typeof body === "string" && body && body.length < 500 && !body.trimStart().startsWith("<")) return body.trim();
  return `The gateway answered with status ${status}.`;
}

/** The decoded answer of *method* *path*. Throws ApiError with the server's own message; a 401 leaves for sign-in. */
export async function api(method, path, body, { signal } = {}) {
  const headers = { Accept: "application/json, text/plain;q=0.5" };
  if (method !== "GET") headers["X-CSRF-Token"] = csrf();
  const options = { method, headers, credentials: "same-origin", cache: "no-store", signal };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  let answer;
  try {
    response = await fetch(path, options);
    answer = await decoded(response);
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new ApiError(0, UNREACHABLE);
  }
  if (response.status === 401) signedOut();
  if (!response.ok) throw new ApiError(response.status, told(response.status, answer), answer);
  return answer;
}

/** "?a=b" of what has a value; lists repeat their name. Empty when nothing has one. */
export function query(params) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") found.append(name, String(one));
    }
  }
  const text = found.toString();
  return text ? `?${text}` : "";
}

/** *promise*, while *button* is disabled. */
export async function busy(button, promise) {
  const focused = document.activeElement === button;
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  try {
    return await promise;
  } finally {
    button.disabled = false;
    button.removeAttribute("aria-busy");
    // A disabled button loses the keyboard's place.
    if (focused && (document.activeElement === document.body || !document.activeElement)) button.focus();
  }
}
