"""Results of long runs as CSV files that grow a row at a time, so that an interrupted run can go on."""

import csv
from pathlib import Path
from typing import Any


def append_row(file: Path, row: dict[str, Any]) -> None:
    """Add a row; the first one brings the names of the fields."""
    file.parent.mkdir(parents=True, exist_ok=True)
    is_new = not file.exists()
    with file.open("a", newline="") as opened:
        table = csv.DictWriter(opened, row.keys())
        if is_new:
            table.writeheader()
        table.writerow(row)


def read_rows(file: Path) -> list[dict[str, Any]]:
    """All rows, numbers as numbers; none where there is no file."""
    if not file.exists():
        return []
    with file.open(newline="") as opened:
        return [{name: _number_or_text(text) for name, text in row.items()} for row in csv.DictReader(opened)]


def _number_or_text(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
