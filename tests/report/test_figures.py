import os
import stat

import numpy as np
import pytest

from hotview.report.figures import new_figure, plot_matrix, save_figure

VALUES = np.array([[np.nan, 0.25], [0.75, np.nan]])


def test_plot_matrix_draws_every_number_once():
    _, (ax,) = new_figure()
    assert plot_matrix(VALUES, ["a", "b"], ["x", "y"], ax=ax, title="W", digits=2) is ax
    assert [t.get_text() for t in ax.texts] == ["0.25", "0.75"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["x", "y"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]
    np.testing.assert_array_equal(ax.images[0].get_array().filled(np.nan), VALUES)


def test_numbers_stand_out_from_their_cell():
    _, (ax,) = new_figure()
    plot_matrix(VALUES, ["a", "b"], ["x", "y"], ax=ax)
    assert [t.get_color() for t in ax.texts] == ["black", "white"]


@pytest.mark.parametrize(
    ("suffix", "start"), (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"))
)
def test_save_figure_in_every_format(tmp_path, suffix, start):
    figure, _ = new_figure(2)
    path = save_figure(figure, tmp_path / f"plan.{suffix}")
    assert path.read_bytes().startswith(start)
    assert os.listdir(tmp_path) == [path.name]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_a_failed_drawing_leaves_what_was_there(tmp_path):
    path = tmp_path / "plan.png"
    path.write_bytes(b"old")
    figure, (ax,) = new_figure()
    ax.set_title(r"$\frac{$")  # not valid mathematics: matplotlib fails while drawing
    with pytest.raises(ValueError, match="frac"):
        save_figure(figure, path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["plan.png"]


def test_bad_paths_say_what_to_do(tmp_path):
    figure, _ = new_figure()
    with pytest.raises(ValueError, match=r"\.pdf, \.png or \.svg, got '.xyz'"):
        save_figure(figure, tmp_path / "plan.xyz")
    (tmp_path / "dir.png").mkdir()
    with pytest.raises(IsADirectoryError, match=r"dir\.png is a folder"):
        save_figure(figure, tmp_path / "dir.png")
    with pytest.raises(FileNotFoundError, match="make it first"):
        save_figure(figure, tmp_path / "missing" / "plan.png")


def test_pyplot_is_left_alone():
    import sys

    new_figure()
    if "matplotlib.pyplot" in sys.modules:
        assert sys.modules["matplotlib.pyplot"].get_fignums() == []


def test_spread_stands_below_the_number_and_the_scale_can_be_given():
    _, (ax,) = new_figure()
    plot_matrix(VALUES, "ab", "xy", ax=ax, digits=1, spread=VALUES / 5, largest=1)
    assert [t.get_text() for t in ax.texts] == ["0.2\n±0.1", "0.8\n±0.1"]
    assert ax.images[0].get_clim() == (0, 1)


def test_long_names_do_not_touch():
    _, (ax,) = new_figure()
    names = ["Gabor", "WM", "CENTRIST", "HOG", "GIST", "LBP"]
    plot_matrix(np.eye(6), names, names, ax=ax)
    assert {t.get_rotation() for t in ax.get_xticklabels()} == {35}


@pytest.mark.parametrize("suffix", ("png", "svg", "pdf"))
def test_the_same_figure_gives_the_same_bytes(tmp_path, suffix):
    paths = []
    for name in ("first", "second"):
        figure, (ax,) = new_figure()
        plot_matrix(VALUES, ["a", "b"], ["x", "y"], ax=ax)
        paths.append(save_figure(figure, tmp_path / f"{name}.{suffix}"))
    assert paths[0].read_bytes() == paths[1].read_bytes()
