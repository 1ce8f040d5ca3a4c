import pytest
from jinja2 import UndefinedError

from hotview.report.page.render import render

HOSTILE = """<script>alert(1)</script>"&'"""


def graph(name="a", x=1.0, view=0):
    node = (name, (x, 2.0), "start", (x, 2.0))
    nodes = [node] * (view + 1)
    return render("view_graph.svg", size=(9, 5.5), label=name, edges=[], nodes=nodes, arcs=[])


def test_text_and_attributes_are_escaped():
    text = graph(HOSTILE)
    escaped = "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&amp;&#39;"
    assert f'aria-label="{escaped}"' in text
    assert f"<title>{escaped}</title>" in text
    assert "<script" not in text


@pytest.mark.parametrize(
    ("x", "text"), ((1.0, "1"), (0.123456, "0.12"), (-0.5, "-0.5"), (100.0, "100"), (0.0, "0"))
)
def test_coordinates_are_short(x, text):
    assert f'<circle cx="{text}" cy="2" r="8"' in graph(x=x)


def test_each_view_has_its_own_mark():
    text = graph(view=23)
    marks = {line.split("<text")[0] for line in text.splitlines() if "var(--view-" in line}
    assert len(marks) == 24


def test_a_missing_variable_is_an_error():
    with pytest.raises(UndefinedError, match="'size' is undefined"):
        render("view_graph.svg", label="x", edges=[], nodes=[], arcs=[])
