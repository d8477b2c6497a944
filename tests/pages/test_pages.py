"""The examples of the README and the docs run as they stand."""

import os
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A line above a block of Python that takes long, needs an extra or data of its own says why it is not run here.
BLOCK = re.compile(r"(<!-- not run[^\n]*-->\n)?^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(page: Path) -> list[str]:
    """The blocks of Python, each at the line where it stands on its page, so that errors name that line."""
    text = page.read_text(encoding="utf-8")
    return ["\n" * text.count("\n", 0, found.start(2)) + found[2] for found in BLOCK.finditer(text) if found[1] is None]


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")  # grids end where nothing is left
@pytest.mark.parametrize(
    "page", [page for page in PAGES if examples(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_examples_of_a_page_run_one_after_another(page, tmp_path, monkeypatch):
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)  # files that examples write
    monkeypatch.setitem(os.environ, "PYTHONPATH", str(ROOT / "src"))
    names: dict[str, object] = {"__name__": "__main__"}
    for example in examples(page):
        exec(compile(example, str(page), "exec"), names)
    plt.close("all")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_to_files(page):
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing
