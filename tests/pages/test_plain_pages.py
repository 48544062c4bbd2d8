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
document.addEventListener("focusin", (event) => window.focused.push(event.target.name || event.target.tagName), true);"""


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
