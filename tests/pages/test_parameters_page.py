"""The page on parameters says what the table in the code says."""

import re
from pathlib import Path

from skinnytrees.estimators.parameters import DENSE, MODES_OF, PATH, PENALISED

PAGE = Path(__file__).parents[2] / "docs" / "parameters.md"


def test_page_has_the_table_of_the_code():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    on_the_page = {
        name: frozenset(mode for mode, text in zip((PATH, PENALISED, DENSE), texts, strict=True) if text != "refused")
        for name, *texts in rows
    }
    assert on_the_page == MODES_OF
