"""The read-only demo (``DEMO_READONLY``): whoever signs in looks around, nobody changes anything.

``/v1`` is not touched by it, nor is signing in and out.
"""

from django.http import HttpRequest, HttpResponseBase
from django.template.response import TemplateResponse

from modelhotel.core import environment, webapi

#: What every refused write answers (settings.md 7).
TEXT = "this is a read-only demo: creating, editing, and deleting are disabled"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
#: Forms of the site that change nothing but who is signed in, and the word that a notice of discovery was read.
_OPEN = frozenset({"/login/", "/logout/", "/api/discovery/changes/ack", "/api/discovery/changes/ack/"})


def on() -> bool:
    return environment.current().demo_readonly


def refuses(request: HttpRequest) -> bool:
    """Whether *request* is a write that the demo does not take."""
    return request.method not in SAFE and request.path not in _OPEN and on()


def shown_token() -> str:
    """The admin token that the sign-in page gives to everybody; empty where it does not."""
    env = environment.current()
    return env.admin_token if env.demo_show_token else ""


def answer(request: HttpRequest) -> HttpResponseBase:
    """A page that says why, or the one line for whoever is not a browser."""
    if "text/html" not in request.headers.get("Accept", ""):
        return webapi.error(request, 403, TEXT)
    return TemplateResponse(request, "registration/read_only.html", {"text": TEXT}, status=403).render()
