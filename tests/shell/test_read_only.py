"""The read-only demo: everybody looks, nobody changes anything, and the refusals are recorded."""

import re
from dataclasses import replace

import pytest

from modelhotel.accounts import audit
from modelhotel.models import AuditRow, Session, Setting
from providers.models import Provider
from proxy.models import VirtualKey
from tests.shell.cast import *  # noqa: F403
from tests.shell.cast import TOKEN, Caller, signed_in, text

pytestmark = pytest.mark.django_db(transaction=True)
DEMO = "this is a read-only demo: creating, editing, and deleting are disabled"
HTML = {"accept": "text/html"}
#: Pages, and a control that each has for whoever may change something.
CONTROLS = {
    "/failover/": "board-new",
    "/keys/": "keys-new",
    "/providers/": "provider-add",
    "/models/": "data-may-change",
    "/requests/": "requests-delete",
    "/logs/": "applogs-delete",
    "/settings/": "reset-all",
    "/providers/provider/": "addlink",
    "/": "Add a provider</a>",
}


@pytest.fixture
def demo(settings):
    settings.MH = replace(settings.MH, demo_readonly=True)


def recorded():
    assert audit.stop(5)
    return list(AuditRow.objects.order_by("created_at").values_list("actor", "method", "route", "status_code"))


def test_no_write_of_the_api_passes_and_every_reading_does(demo, admin):
    """settings 64"""
    refused = admin.put("/api/settings", {"request_timeout": "9s"})
    assert (refused.status_code, text(refused)) == (403, DEMO)
    told = admin.post("/api/virtual-keys", {"name": "k"}, headers={"accept": "application/json"})
    assert (told.status_code, told.json()) == (403, {"error": DEMO})
    assert admin.post("/api/failover-groups/circuit-breaker/reset").status_code == 403
    assert admin.get("/api/settings").status_code == 200
    assert not Setting.objects.filter(key="request_timeout").exists() and not VirtualKey.objects.exists()
    assert recorded() == [
        ("admin", "PUT", "/api/settings", 403),
        ("admin", "POST", "/api/virtual-keys", 403),
        ("admin", "POST", "/api/failover-groups/circuit-breaker/reset", 403),
    ]


def test_a_notice_of_discovery_may_be_acknowledged_by_whoever_may_write(demo, admin, viewer):
    """settings 7, part of providers 6.10"""
    assert admin.post("/api/discovery/changes/ack").json() == {"entries": [], "count": 0}
    assert admin.post("/api/discovery/changes/ack/").status_code == 200
    assert text(viewer.post("/api/discovery/changes/ack")) == "insufficient permissions"
    for verb in ("dismiss", "unpin"):
        assert text(admin.post(f"/api/discovery/{verb}", {})) == DEMO
    assert recorded()[0] == ("admin", "POST", "/api/discovery/changes/ack", 200)


def test_in_the_demo_the_page_offers_to_acknowledge_and_nothing_else(demo, admin_user):
    """part of providers 6.10"""
    page = text(signed_in(admin_user).client.get("/models/", headers=HTML))
    assert "data-may-acknowledge" in page and "data-may-change" not in page


def test_who_may_not_write_anyway_is_told_so(demo, viewer, nobody):
    """settings 64: the demo lets nobody in who was not."""
    assert text(viewer.put("/api/settings", {})) == "insufficient permissions"
    assert nobody.put("/api/settings", {}).status_code == 401


def test_signing_in_and_out_goes_on(demo, token):
    browser = Caller()
    assert browser.post("/api/auth/admin-exchange", {"admin_token": TOKEN}).status_code == 200
    assert browser.get("/api/auth/me").json()["role"] == "admin"
    assert browser.post("/api/auth/logout").status_code == 200
    assert not Session.objects.exists()


def test_the_forms_of_the_site_change_nothing(demo, admin_user):
    browser = signed_in(admin_user)
    form = {"csrfmiddlewaretoken": "a" * 32, "name": "app"}
    for path in ("/proxy/virtualkey/add/", "/password_change/"):
        answer = browser.client.post(path, form, headers=HTML)
        assert answer.status_code == 403 and DEMO in text(answer)
    assert text(browser.client.post("/proxy/virtualkey/add/", form)) == DEMO
    assert not VirtualKey.objects.exists()
    assert recorded()[0] == ("root", "POST", "/proxy/virtualkey/add", 403)
    assert browser.client.post("/logout/", form, headers=HTML).status_code in (200, 302)
    assert not Session.objects.exists()


def test_no_page_shows_a_control_that_would_be_refused(settings, admin_user):
    browser = signed_in(admin_user)
    before = {path: text(browser.client.get(path, headers=HTML)) for path in CONTROLS}
    assert {path for path, control in CONTROLS.items() if control not in before[path]} == set()
    settings.MH = replace(settings.MH, demo_readonly=True)
    for path, control in CONTROLS.items():
        page = text(browser.client.get(path, headers=HTML))
        assert control not in page, path
        assert "Read-only demo" in page


def test_a_form_of_the_site_is_shown_for_reading(demo, admin_user):
    provider = Provider.objects.create(name="Alpha", base_url="https://a.example", provider_type="openai")
    page = signed_in(admin_user).client.get(f"/providers/provider/{provider.pk}/change/", headers=HTML)
    assert page.status_code == 200
    assert not re.search(r'<input[^>]*name="name"', text(page)) and "Alpha" in text(page)


def test_the_sign_in_page_gives_the_token_where_that_is_wanted(settings, demo, nobody):
    """operations 3.1"""
    assert nobody.get("/api/public-config").json() == {"read_only": True}
    assert TOKEN not in text(nobody.get("/login/"))
    assert nobody.get("/api/demo-login").status_code == 404
    settings.MH = replace(settings.MH, demo_show_token=True, admin_token=TOKEN)
    page = text(nobody.get("/login/"))
    assert f'<code id="demo-token-text">{TOKEN}</code>' in page and 'data-copy="demo-token-text"' in page
    assert re.search(r"<details[^>]* open>", page)
    assert nobody.get("/api/demo-login").json() == {"admin_token": TOKEN}


def test_without_the_demo_nothing_is_given_away(token, nobody):
    assert nobody.get("/api/public-config").json() == {"read_only": False}
    assert nobody.get("/api/demo-login").status_code == 404
    assert "demo" not in text(nobody.get("/login/"))
