import os
import stat

import numpy as np
import pytest

from hotview.report.figures import new_figure, plot_matrix, save_figure

VALUES = np.array([[np.nan, 0.25], [0.75, np.nan]])


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


def test_bad_paths_raise_helpful_errors(tmp_path):
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


@pytest.mark.parametrize("suffix", ("png", "svg", "pdf"))
def test_the_same_figure_gives_the_same_bytes(tmp_path, suffix):
    paths = []
    for name in ("first", "second"):
        figure, (ax,) = new_figure()
        plot_matrix(VALUES, ["a", "b"], ["x", "y"], ax=ax)
        paths.append(save_figure(figure, tmp_path / f"{name}.{suffix}"))
    assert paths[0].read_bytes() == paths[1].read_bytes()
