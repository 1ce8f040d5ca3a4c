import pytest

from hotview.report.page.markup import Markup, join, numbers, table, tag

HOSTILE = """<script>alert(1)</script>"&'"""


def test_text_is_escaped_and_markup_is_not():
    assert tag("p", HOSTILE) == ("<p>&lt;script&gt;alert(1)&lt;/script&gt;&quot;&amp;&#x27;</p>")
    assert tag("p", tag("b", "x")) == "<p><b>x</b></p>"
    assert join([HOSTILE], "<") == tag("p", HOSTILE)[3:-4]


def test_attributes_are_escaped():
    assert tag("i", title='" onload="x') == '<i title="&quot; onload=&quot;x"></i>'


def test_attributes_by_their_names():
    found = tag("input", class_="a", aria_label="b", checked=True, hidden=False, id=None)
    assert found == '<input class="a" aria-label="b" checked>'
    assert tag("svg", viewBox="0 0 1 1") == '<svg viewBox="0 0 1 1"></svg>'


@pytest.mark.parametrize(
    ("x", "text"), ((1.0, "1"), (0.123456, "0.12"), (-0.5, "-0.5"), (100.0, "100"), (0.0, "0"))
)
def test_numbers_are_short(x, text):
    assert tag("line", x1=x) == f'<line x1="{text}"/>'


def test_text_that_no_file_could_hold():
    assert tag("p", "a\udc80\x00b") == "<p>a?\N{REPLACEMENT CHARACTER}b</p>"


def test_tables_have_headers_and_a_caption():
    found = table(["view", "n"], [[HOSTILE, "3"]], caption="Rows")
    assert '<th scope="col">view</th><th scope="col" class="number">n</th>' in found
    assert '<td class="number">3</td>' in found
    assert "<script" not in found
    assert '<caption class="unseen">Rows</caption>' in found


def test_folded_numbers():
    assert isinstance(numbers(Markup("x")), Markup)
    assert "<summary>More</summary>" in numbers(Markup("x"), "More")
