"""Draw docs/pictures/report.png: the report page of the digits, as a browser shows it.

Run `python docs/_theme/report_picture.py` in a folder where `hotview` is installed, with chromium.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).parent.parent / "pictures" / "report.png"
HOTVIEW = (sys.executable, "-c", "from hotview.cli import main; main()")


def make_page(folder: Path) -> Path:
    """The page that the README's commands make."""
    views = ("pix", "fou", "fac", "zer", "kar", "mor")
    old, new = ([f"digits/{part}/{v}.csv" for v in views] for part in ("views", "new"))
    labels = ("--labels", "digits/labels.csv", "--label-column", "digit", "--id-column", "id")
    for arguments in (
        ("demo", "--files", "digits"),
        ("fit", *old, *labels, "-o", "digits.hotview"),
        ("report", "digits.hotview", *new, "--labels", "digits/new-labels.csv", "-o", "r.html"),
    ):
        subprocess.run([*HOTVIEW, *arguments], cwd=folder, check=True)
    return folder / "r.html"


def main() -> None:
    """Make the page and take a picture of its top."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = make_page(Path(folder))
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1180, "height": 1670})
        page.goto(page_file.as_uri())
        page.wait_for_timeout(500)
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
