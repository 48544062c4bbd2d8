"""Django's side of the edge: address and scheme, headers, sessions, the actor, audit.

From the outside in: :class:`Edge`, :class:`Sessions`, Django's own, :class:`Use`.
"""

import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.csrf import get_token
from django.utils.cache import patch_vary_headers

from modelhotel.accounts import audit, demo
from modelhotel.accounts.identity import log_path
from modelhotel.accounts.sessions import SessionStore
from modelhotel.core import client_ip, environment, headers, webapi
from modelhotel.core.environment import Environment
from modelhotel.models import User

log = logging.getLogger("api")
access_log = logging.getLogger("access")
#: What dashboards and monitors ask for every few seconds.
_POLLED = ("/api/system", "/api/logs", "/metrics", "/requestlogs/")
Answer = Callable[[HttpRequest], HttpResponseBase]
_OUR_COOKIES = ("mh_session", "mh_csrf", "messages")


def is_api(path: str) -> bool:
    return path == "/api" or path.startswith("/api/")


#: What the edge reads, as ASGI spells it and as Django files it.
_READ = tuple(
    (name, "HTTP_" + name.decode().upper().replace("-", "_"))
    for name in (b"origin", b"x-forwarded-for", b"x-forwarded-proto", b"x-real-ip")
)


def _given(request: HttpRequest) -> list[tuple[bytes, bytes]]:
    """The headers the edge reads; Django has joined repeated ones with commas."""
    return [(name, str(request.META[key]).encode("latin-1", "replace")) for name, key in _READ if key in request.META]


def resolve_scheme(request: HttpRequest, peer: str, env: Environment, given: list[tuple[bytes, bytes]]) -> None:
    if client_ip.is_https(peer, request.scheme or "http", given, env.trusted_proxies):
        request._get_scheme = lambda: "https"  # type: ignore[attr-defined]


class Edge:
    """The outermost layer: resolves the client, answers preflights and puts the headers on every answer."""

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        began, method = time.perf_counter(), request.method
        env = environment.current()
        tls = bool(request.is_secure())
        given = _given(request)
        self._resolve_client(request, env, given)
        origin = headers.origin_of(given)
        if request.method == "OPTIONS" and origin is not None:
            response: HttpResponseBase = HttpResponse(status=204)
        elif is_api(request.path):
            response = self._api(request)
        else:
            response = self.get_response(request)
        if response.status_code == 204:
            del response["Content-Type"]  # of nothing
        for name, value in headers.cors_headers(env, origin):
            if name == b"vary":
                patch_vary_headers(response, [value.decode()])
            else:
                response[name.decode()] = value.decode()
        self._secure(request, response, env, tls)
        _note_access(request, method, response.status_code, time.perf_counter() - began)
        return response

    @staticmethod
    def _resolve_client(request: HttpRequest, env: Environment, given: list[tuple[bytes, bytes]]) -> None:
        peer = str(request.META.get("REMOTE_ADDR") or "")
        request.client_address = client_ip.client_address(peer, given, env.trusted_proxies)  # type: ignore[attr-defined]
        resolve_scheme(request, peer, env, given)

    def _api(self, request: HttpRequest) -> HttpResponseBase:
        """HEAD is GET without its body; what the framework words itself is put into our words; nothing is cached."""
        head = request.method == "HEAD"
        if head:
            request.method = "GET"
        response = self.get_response(request)
        status = response.status_code
        if status >= 400 and str(response.get("Content-Type", "")).startswith("text/html"):
            told = webapi.error(request, status, _text(status))
            for name in ("Allow", "Retry-After"):
                if name in response:
                    told[name] = response[name]
            told.cookies = response.cookies
            response = told
        if head and isinstance(response, HttpResponse):
            response["Content-Length"] = str(len(response.content))
            response.content = b""
        response["Cache-Control"] = "no-store"
        return response

    @staticmethod
    def _secure(request: HttpRequest, response: HttpResponseBase, env: Environment, tls: bool) -> None:
        page = not is_api(request.path) and str(response.get("Content-Type", "")).startswith("text/html")
        for name, value in headers.security_headers(env, admin=page, tls=tls):
            response[name.decode()] = value.decode()
        # Django's own middleware sets these two by a wider rule.
        for header, unwanted in (("X-Frame-Options", env.allow_embed), ("Strict-Transport-Security", not tls)):
            if unwanted and header in response:
                del response[header]
        secure_cookies(request, response, env)


def _note_access(request: HttpRequest, method: str | None, status: int, seconds: float) -> None:
    polled = method in ("GET", "HEAD") and request.path.startswith(_POLLED)
    level = logging.DEBUG if polled else logging.INFO
    if not access_log.isEnabledFor(level):
        return
    attrs = {
        "method": method,
        "path": log_path(request.path),
        "status": status,
        "duration_ms": round(seconds * 1000, 1),
        "ip": request.client_address,  # type: ignore[attr-defined]
    }
    access_log.log(level, "access: answered", extra={"attrs": attrs})


def _text(status: int) -> str:
    known = {404: webapi.NOT_FOUND, 413: webapi.TOO_LARGE, 500: webapi.INTERNAL}
    return known.get(status) or HTTPStatus(status).phrase.lower()


class Sessions(SessionMiddleware):
    """Django's session middleware with our store; it notes who signs in from where."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        store = request.session
        assert isinstance(store, SessionStore)
        store.client_ip = str(getattr(request, "client_address", ""))
        store.client_agent = request.headers.get("User-Agent", "")
        request.had_session = bool(store.session_key)  # type: ignore[attr-defined]


class Use:
    """Inside of sessions, CSRF and authentication: the actor, the sliding of sessions, the audit row."""

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        api = is_api(request.path)
        # Under /api the endpoint's own authentication sets it, after the CSRF check.
        if not api and request.session.session_key and isinstance(request.user, User):
            request.actor = request.user.actor  # type: ignore[attr-defined]
        response = self.get_response(request)
        self._note_expiry(request, response)
        slide(request, response)
        if api or self._is_form_outcome(request, response):
            audit.of_request(request, response.status_code)
        return response

    def process_view(self, request: HttpRequest, *view: object) -> HttpResponseBase | None:
        """After the CSRF check, so that only writes which passed it are recorded as refused."""
        return demo.answer(request) if not is_api(request.path) and demo.refuses(request) else None

    def process_exception(self, request: HttpRequest, problem: Exception) -> HttpResponse | None:
        if isinstance(problem, RequestDataTooBig):
            return webapi.error(request, 413, webapi.TOO_LARGE)
        if not is_api(request.path) or isinstance(problem, (Http404, PermissionDenied, SuspiciousOperation)):
            return None  # Django has an answer, which the edge puts into our words
        attrs = {"method": request.method, "path": log_path(request.path)}
        log.error("api: unexpected error", exc_info=problem, extra={"attrs": attrs})
        return webapi.error(request, 500, webapi.INTERNAL)

    @staticmethod
    def _is_form_outcome(request: HttpRequest, response: HttpResponseBase) -> bool:
        """A 200 is a form shown again or a question asked; whoever refused it has recorded that already."""
        return response.status_code != 200 and not getattr(request, "csrf_failed", False)

    @staticmethod
    def _note_expiry(request: HttpRequest, response: HttpResponseBase) -> None:
        """Let the sign-in page say that a session ended, when that is why it is shown."""
        target = str(response.get("Location", ""))
        gone = getattr(request, "had_session", False) and not request.session.session_key
        if response.status_code == 302 and gone and target.partition("?")[0] == settings.LOGIN_URL:
            response["Location"] = target + ("&" if "?" in target else "?") + urlencode({"expired": 1})


def slide(request: HttpRequest, response: HttpResponseBase) -> None:
    """Write down that the session was used, where that is worth it, and have the browser keep its cookies longer."""
    store = request.session
    if not isinstance(store, SessionStore) or response.status_code >= 500 or not store.wants_slide():
        return
    if not store.slide():
        return
    get_token(request)  # marks the CSRF cookie for renewal; a value of another shape was replaced on the way in
    response.set_cookie(
        settings.SESSION_COOKIE_NAME,
        store.session_key or "",
        max_age=store.get_expiry_age(),
        path=settings.SESSION_COOKIE_PATH,
        httponly=True,
        samesite="Strict",
    )
    response["Cache-Control"] = "no-store"


def secure_cookies(request: HttpRequest, response: HttpResponseBase, env: Environment) -> None:
    """Mark our cookies as ``COOKIE_SECURE`` says."""
    secure = env.cookie_secure == "always" or (env.cookie_secure == "auto" and request.is_secure())
    for cookie in _OUR_COOKIES:
        if cookie in response.cookies:
            response.cookies[cookie]["secure"] = secure or ""
