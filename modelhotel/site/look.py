"""``UNFOLD``: names, colours, scripts and the navigation of the dashboard."""

import functools
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse, reverse_lazy

from modelhotel.core import catalogue, options


def _may(permission: str) -> Callable[[HttpRequest], bool]:
    return lambda request: bool(request.user.has_perm(permission))


#: Entry of the navigation -> the plain list that belongs to it, with the forms below it.
_LISTS = {
    "providers": "providers_provider_changelist",
    "models": "providers_model_changelist",
    "failover": "failover_failovergroup_changelist",
    "keys": "proxy_virtualkey_changelist",
    "requests": "requestlogs_requestlog_changelist",
    "logs": "requestlogs_applog_changelist",
    "modelhotel_user_changelist": "modelhotel_user_changelist",
    "settings": "settings",
}


@functools.cache
def _addresses() -> dict[str, str]:
    return {reverse(f"admin:{name}"): view for view, plain in _LISTS.items() for name in (view, plain)}


def _entry_of(path: str) -> str:
    """The longest address wins: the plain list of models lies below the page of providers."""
    above = [address for address in _addresses() if path.startswith(address)]
    return _addresses()[max(above, key=len)] if above else ""


def _item(title: str, icon: str, view: str, permission: str, key: str = "") -> dict[str, Any]:
    """*key*: the name by which a script puts a badge on it."""
    return {
        "title": title,
        "icon": icon,
        "link": reverse_lazy(f"admin:{view}"),
        "permission": _may(permission),
        "key": key,
        "active": lambda request: _entry_of(request.path) == view,
    }


def _static(path: str) -> Callable[[HttpRequest], str]:
    return lambda request: static(path)


def _idle(request: HttpRequest) -> str:
    """The script learns from its own address when to sign out: no page holds an inline script."""
    minutes = options.current()[catalogue.SESSION_IDLE_TIMEOUT_MINUTES]
    return f"{static('modelhotel/idle.js')}?minutes={minutes}"


#: Orange; from 500 on a step darker than usual: 600 under white text, and on a tint of itself, needs a contrast of 4.5.
_ORANGE = {
    "50": "oklch(98% .016 73.684)",
    "100": "oklch(95.4% .038 75.164)",
    "200": "oklch(90.1% .076 70.697)",
    "300": "oklch(83.7% .128 66.29)",
    "400": "oklch(75% .183 55.934)",
    "500": "oklch(64.6% .222 41.116)",
    "600": "oklch(51.5% .182 38.1)",
    "700": "oklch(47% .157 37.304)",
    "800": "oklch(40.8% .123 38.172)",
    "900": "oklch(33% .1 37)",
    "950": "oklch(26.6% .079 36.259)",
}

UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Model Hotel",
    "SITE_HEADER": "Model Hotel",
    "SITE_SUBHEADER": "AI gateway",
    "SITE_SYMBOL": "hotel",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("modelhotel/icon.svg")}],
    "SITE_URL": None,  # the dashboard is the site: no link back to it
    "SHOW_VIEW_ON_SITE": False,
    "LOGIN": {"form": "modelhotel.accounts.forms.SignInForm"},
    "DASHBOARD_CALLBACK": "modelhotel.site.start.fill",
    "STYLES": [_static("modelhotel/site.css"), _static("modelhotel/app/app.css"), _static("modelhotel/app/shell.css")],
    "SCRIPTS": [_static("modelhotel/theme.js"), _static("modelhotel/site.js"), _idle],
    "COLORS": {"primary": _ORANGE},
    "SIDEBAR": {
        "navigation": [
            {
                "items": [
                    {"title": "Overview", "icon": "dashboard", "link": reverse_lazy("admin:index")},
                    _item("Providers", "dns", "providers", "providers.view_provider"),
                    _item("Models", "deployed_code", "models", "providers.view_model", "models"),
                    _item("Failover", "alt_route", "failover", "failover.view_failovergroup", "failover"),
                    _item("Virtual keys", "key", "keys", "proxy.view_virtualkey"),
                    _item("Requests", "list_alt", "requests", "requestlogs.view_requestlog"),
                    _item("App logs", "terminal", "logs", "requestlogs.view_applog"),
                    _item("Users", "group", "modelhotel_user_changelist", "modelhotel.view_user"),
                    _item("Settings", "settings", "settings", "modelhotel.view_setting"),
                ]
            }
        ]
    },
}
