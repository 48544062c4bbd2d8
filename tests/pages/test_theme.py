"""The chosen theme holds from the first frame that shows anything."""

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.timeout(30, func_only=True)]
#: Notes the theme of every frame in which the page is visible, from before its first script.
WATCH = """
window.seen = [];
const look = () => {
  const html = document.documentElement;
  if (html && document.body && getComputedStyle(html).display !== "none") {
    seen.push(html.classList.contains("dark") ? "dark" : "light");
  }
  if (seen.length < 30) requestAnimationFrame(look);
};
look();
"""


@pytest.mark.parametrize(("chosen", "system"), [("light", "dark"), ("dark", "light")])
def test_a_chosen_theme_is_there_from_the_first_paint_after_a_reload(hotel, page, chosen, system):
    """operations 63. Whatever the system prefers, and in the other direction too."""
    page.emulate_media(color_scheme=system)
    page.goto(f"{hotel.url}/settings/")
    page.get_by_role("button", name="Switch between light and dark").click()
    expect(page.locator("html")).to_have_class(chosen)
    page.add_init_script(WATCH)
    page.reload()
    expect(page.get_by_role("heading", name="Model Discovery")).to_be_visible()
    page.wait_for_function("seen.length >= 30")
    assert set(page.evaluate("seen")) == {chosen}
