"""The chosen theme holds from the first frame that shows anything."""

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]
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


#: Luminance of an accent as the page computed it, and of what it stands on: [name, light, dark].
SHADES = """(colours) => colours.map((colour) => {
  localStorage.setItem("mh-accentColor", JSON.stringify(colour));
  window.dispatchEvent(new Event("mh-accent"));
  const read = (name) => {
    const text = getComputedStyle(document.documentElement).getPropertyValue(name);
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.color = text;
    const [r, g, b] = getComputedStyle(probe).color.match(/[\\d.]+/g).map(Number).map((v) => {
      const part = v / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    probe.remove();
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return [read("--color-primary-600"), read("--mh-accent-bright")];
})"""
PAPER, NIGHT = 0.955, 0.02  # of the light page, and of a card on the dark one


def test_an_accent_is_in_force_at_once_kept_by_the_browser_and_readable_in_both_themes(hotel, page):
    """Section 9 of settings: ten swatches and one of your own."""
    page.goto(f"{hotel.url}/settings/")
    shade = "getComputedStyle(document.documentElement).getPropertyValue('--color-primary-600')"
    own = page.evaluate(shade)
    swatches = page.locator("#accent [data-colour]")
    colours = [one.get_attribute("data-colour") for one in swatches.all()]
    assert len(colours) == 10
    page.get_by_role("button", name="Teal").click()
    expect(page.get_by_role("button", name="Teal")).to_have_attribute("aria-pressed", "true")
    teal = page.evaluate(shade)
    assert teal != own
    page.reload()
    assert page.evaluate(shade) == teal
    extremes = ["#000000", "#ffffff", "#ffff00", "#0000ff", "#808080"]
    for strong, bright in page.evaluate(SHADES, [*filter(None, colours), *extremes]):
        assert 1.05 / (strong + 0.05) >= 4.5 and (PAPER + 0.05) / (strong + 0.05) >= 4.5
        assert (bright + 0.05) / (NIGHT + 0.05) >= 4.5
    page.reload()
    page.get_by_role("button", name="Orange").click()
    assert page.evaluate(shade) == own
