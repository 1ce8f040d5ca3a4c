"""The page in a real browser: what is drawn, and what happens when it is used."""

import shutil

import pytest

from hotview.report.page import write_report
from tests.report.records import change, make

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]
NO_BROWSER = pytest.mark.skipif(BROWSER is None, reason="there is no chromium")
pytestmark = [pytest.mark.slow, NO_BROWSER]


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def file(record, tmp_path_factory):
    return write_report(record, tmp_path_factory.mktemp("page") / "report.html")


class Opened:
    """A page, what it asked for and what it complained about."""

    def __init__(self, browser, file, width=1280, scheme="light", **how):
        size = {"width": width, "height": 900}
        self.context = browser.new_context(viewport=size, color_scheme=scheme, **how)
        self.page = self.context.new_page()
        self.asked, self.complaints = [], []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.goto(file.as_uri())

    def unfold(self):
        for details in self.page.locator("details").all():
            details.evaluate("e => e.open = true")

    def count(self, selector):
        return self.page.locator(selector).count()

    def color(self, selector, what="background-color"):
        script = f"e => getComputedStyle(e).getPropertyValue('{what}')"
        return self.page.locator(selector).first.evaluate(script)


@pytest.fixture
def opened(browser, file):
    found = Opened(browser, file)
    yield found
    assert found.complaints == []
    found.context.close()


def test_every_figure_is_drawn_and_nothing_is_asked_of_a_network(opened, file):
    assert opened.asked == [file.as_uri()]
    boxes = [svg.bounding_box() for svg in opened.page.locator("figure svg.chart").all()]
    assert len(boxes) > 10
    assert all(box["width"] > 5 and box["height"] > 5 for box in boxes)
    for path in opened.page.locator("figure svg path.line").all():
        assert path.evaluate("e => e.getTotalLength()") > 0
    first, second, *_ = [e.bounding_box() for e in opened.page.locator(".metrics section").all()]
    assert second["x"] > first["x"] + first["width"]  # tables stand side by side
    assert second["y"] == first["y"]
    opened.page.keyboard.press("Tab")  # whose first stop skips to the content
    assert opened.page.evaluate("document.activeElement.className") == "skip"


def test_pointing_lights_the_same_individual_everywhere(opened):
    point = opened.page.locator('[data-i="5"]')
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    lit = opened.page.locator(".cloud .on").evaluate_all("es => es.map(e => +e.dataset.i)")
    assert len(lit) == 4
    assert len({i % 30 for i in lit}) == 1  # 30 individuals, view after view
    tip = opened.page.locator(".tip")
    assert tip.is_visible()
    assert f"row {lit[0] % 30}\n" in tip.text_content()
    assert "predicted: " in tip.text_content()
    opened.page.mouse.move(2, 2)
    assert opened.count(".cloud .on") == 0
    assert not tip.is_visible()


def test_arrow_keys_go_from_individual_to_individual(opened):
    opened.page.locator(".cloud").focus()
    opened.page.keyboard.press("ArrowRight")
    assert opened.page.locator(".status").text_content().startswith("row 0, view: pix")
    opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("ArrowDown")
    assert opened.page.locator(".status").text_content().startswith("row 1, view: mor")
    assert opened.count(".cloud .on") == 4
    opened.page.keyboard.press("Escape")
    assert opened.count(".cloud .on") == 0


def test_views_colors_and_layouts_change_by_mouse_and_by_key(opened):
    page, mark = opened.page, '[data-i="0"]'
    box = page.locator('input[name="view"][value="1"]')
    box.click()
    assert not page.locator(".points.of-1").is_visible()
    page.locator(".cloud").focus()
    page.keyboard.press("ArrowRight")
    assert opened.count(".cloud .on") == 3
    box.focus()
    page.keyboard.press("Space")
    assert page.locator(".points.of-1").is_visible()

    by_view = opened.color(mark, "fill")
    assert not page.locator(".legend").is_visible()
    page.locator('input[value="class"]').click()
    by_class = opened.color(mark, "fill")
    assert by_class != by_view
    assert opened.color(".legend i") == by_class  # its class is the first
    assert page.locator(".legend").is_visible()
    page.keyboard.press("ArrowLeft")
    assert opened.color(mark, "fill") == by_view

    before = page.locator(mark).get_attribute("cx")
    page.locator('input[name="layout"][value="1"]').click()
    assert page.locator(mark).get_attribute("cx") != before
    words = page.locator(".axes:visible").text_content()
    assert "distances and directions have no meaning" in words
    page.keyboard.press("ArrowLeft")
    assert page.locator(mark).get_attribute("cx") == before


def test_the_theme_changes_by_mouse_and_by_key_and_follows_the_system(browser, file, opened):
    light = opened.color("body")
    opened.page.locator("button.theme").click()
    assert opened.color("body") != light
    opened.page.keyboard.press("Enter")
    assert opened.color("body") == light
    assert opened.page.locator("button.theme").text_content() == "Dark theme"
    dark = Opened(browser, file, scheme="dark")
    assert dark.color("body") != light
    assert dark.page.locator("button.theme").get_attribute("aria-pressed") == "true"
    dark.context.close()


def test_the_command_is_copied_or_selected(opened):
    button = opened.page.locator("button.copy")
    button.click()
    opened.page.wait_for_function("document.querySelector('button.copy').textContent !== 'Copy'")
    assert button.text_content() in ("Copied", "Selected: press Ctrl+C")


@pytest.mark.parametrize(
    "name", ("view", "a very long name of a view without an end " * 5, "x" * 300)
)
def test_a_phone_does_not_scroll_sideways(browser, tmp_path, name):
    record = make([f"{name}{s}" for s in range(12)], [f"{name}{k}" for k in range(40)])
    record = change(record, metadata_={"command": "hotview fit " + "a" * 500})
    file = write_report(record, tmp_path / "report.html")
    assert file.stat().st_size < 2e6
    phone = Opened(browser, file, width=390, has_touch=True)
    phone.unfold()
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert phone.complaints == []
    phone.context.close()


def test_tables_stay_whole_on_a_phone(browser, file, tmp_path):
    record = make(classes=[f"class number {k}" for k in range(40)])
    phone = Opened(browser, write_report(record, tmp_path / "report.html"), width=390)
    phone.unfold()
    cut = "es => es.filter(e => e.scrollWidth > e.clientWidth).map(e => e.ariaLabel)"
    for section in ("similarity", "metrics", "views", "importance"):
        assert phone.page.locator(f"#{section} .scroll").evaluate_all(cut) == []
    phone.page.goto(file.as_uri())
    cells = phone.page.locator("#errors figure > .scroll tbody th").all()
    assert [cell.bounding_box()["width"] >= 100 for cell in cells] == [True, True]
    phone.context.close()


def test_navigation_does_not_cover_the_heading_it_leads_to(opened):
    opened.page.emulate_media(reduced_motion="reduce")
    opened.page.locator('nav a[href="#errors"]').click()
    bar = opened.page.locator("nav").bounding_box()
    heading = opened.page.locator("#errors figure h3").first.bounding_box()
    title = opened.page.locator("#errors-title").bounding_box()
    assert title["y"] >= bar["y"] + bar["height"]
    assert heading["y"] > title["y"]


def test_names_cannot_run(browser, tmp_path):
    evil = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
    record = make(views=[f"{evil}{s}" for s in range(4)], classes=[evil, "b", "c"])
    file = write_report(record, tmp_path / "report.html", title=evil)
    found = Opened(browser, file)
    found.page.locator(".cloud").focus()
    found.page.keyboard.press("ArrowRight")
    assert evil in found.page.locator(".tip").text_content()
    assert found.complaints == []
    assert found.asked == [file.as_uri()]
    found.context.close()


def test_it_reads_without_its_script_and_on_paper(browser, file):
    found = Opened(browser, file, java_script_enabled=False)
    assert found.count(".points > *") == 120
    assert found.page.locator(".points.of-0").is_visible()
    found.context.close()
    found = Opened(browser, file)
    found.page.emulate_media(media="print", color_scheme="dark")
    for hidden in ("nav", ".controls"):
        assert not found.page.locator(hidden).is_visible()
    assert found.color("body") == "rgb(255, 255, 255)"
    assert found.page.pdf().startswith(b"%PDF")
    assert found.complaints == []
    found.context.close()
