from hotview.report.palette import CLASS_COLORS, VIEW_COLORS, style_variables


def luminance(color):
    """Relative luminance of a color, as the accessibility guidelines define it."""
    shares = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares]
    return sum(w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_marks_stand_out_from_the_paper():
    for light, dark in (*VIEW_COLORS, *CLASS_COLORS):
        assert contrast(light, "#fcfcfb") >= 2.6
        assert contrast(dark, "#14181c") >= 4.5


def test_no_color_comes_twice():
    for colors in (VIEW_COLORS, CLASS_COLORS):
        assert len({light for light, _ in colors}) == len({dark for _, dark in colors})
        assert len({light for light, _ in colors}) == len(colors)


def test_every_color_is_a_variable():
    assert style_variables().count("light-dark(") == len(VIEW_COLORS) + len(CLASS_COLORS)
