"""The plain lists and forms beside the live pages, in a browser."""

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(120, func_only=True)]
FORMS = {
    "/proxy/virtualkey/add/": "name",
    "/failover/failovergroup/add/": "display_model",
    "/providers/provider/add/": "name",
    "/modelhotel/user/add/": "username",
}
#: Counts what gets the focus, from before the first script of the page.
WATCH = """window.focused = [];
document.addEventListener("focusin", ({ target }) => window.focused.push(target.name || target.tagName), true);"""


@pytest.mark.parametrize(("path", "name"), FORMS.items())
def test_a_form_begins_in_its_first_field(hotel, page, path, name):
    page.add_init_script(WATCH)
    for _ in range(4):
        page.goto(hotel.url + path)
        expect(page.locator(f"[name={name}]")).to_be_focused()
        page.wait_for_timeout(300)
        assert set(page.evaluate("window.focused")) == {name}
    expect(page.locator(f"[name={name}]")).to_be_focused()


def test_who_types_elsewhere_is_left_alone(hotel, page):
    page.goto(hotel.url + "/modelhotel/user/add/")
    expect(page.locator("[name=username]")).to_be_focused()
    page.locator("[name=email]").click()
    page.keyboard.type("una@example.com")
    expect(page.locator("[name=email]")).to_have_value("una@example.com")


def test_a_new_key_is_made_once_however_often_its_page_is_loaded(hotel, page):
    page.goto(hotel.url + "/proxy/virtualkey/add/")
    page.keyboard.type("laptop")
    page.click("[name=_save]")
    expect(page.get_by_role("heading", name="The key “laptop” is ready")).to_be_visible()
    key = page.inner_text("#new-key")
    assert hotel.chat("hotel/glm-4.6", key).status_code == 200
    page.reload()
    expect(page.get_by_text("A new key is shown once.")).to_be_visible()
    assert key not in page.content()
    names = [row["name"] for row in hotel.product.api("GET", "/api/virtual-keys").json()]
    assert names.count("laptop") == 1
