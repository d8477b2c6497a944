"""Draw which part of the package imports which: ``python docs/make_import_graph.py`` writes ``docs/import_graph.png``.

The layers are those that ``CONTRIBUTING.md`` lists, and ``tests/test_layers.py`` refuses imports that climb. Needs matplotlib
(``pip install 'skinnytrees[plots]'``).
"""

import ast
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "skinnytrees"
# Imported by almost all; the picture leaves them out.
EVERYWHERE = ("exceptions", "threads")


class Import(NamedTuple):
    """A module, what it imports of the package, and whether that happens only when a function is called."""

    module: str
    imported: str
    in_function: bool


def read_layers(page: Path = ROOT / "CONTRIBUTING.md") -> list[list[str]]:
    """The layers from bottom to top: the numbered lines of the page's block of layers."""
    block = re.search(r"```layers\n(.*?)```", page.read_text(), re.DOTALL)
    assert block, f"{page} has no block of layers"
    return [line.split("#")[0].split()[1:] for line in block[1].splitlines()]


def find_imports(source: Path = ROOT / "src") -> list[Import]:
    """All imports of the package's own modules, in functions or not."""
    found: list[Import] = []

    def visit(node: ast.AST, module: str, in_function: bool) -> None:
        for child in ast.iter_child_nodes(node):
            names = [child.module] if isinstance(child, ast.ImportFrom) and child.module else []
            names += [alias.name for alias in child.names] if isinstance(child, ast.Import) else []
            if names == [PACKAGE]:  # from skinnytrees import part
                names = [f"{PACKAGE}.{alias.name}" for alias in child.names]
            found.extend(Import(module, name, in_function) for name in names if name.split(".")[0] == PACKAGE)
            visit(child, module, in_function or isinstance(child, ast.FunctionDef))

    for file in sorted((source / PACKAGE).rglob("*.py")):
        visit(ast.parse(file.read_text()), ".".join(file.relative_to(source).with_suffix("").parts), False)
    return found


def part_of(module: str) -> str:
    """The sub-package or module below the top of the package that holds a module."""
    return module.split(".")[1]


def draw(target: Path) -> None:
    """One row per layer, an arrow from each part to those that it imports; thick where many modules do."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    imports = [
        one for one in find_imports() if part_of(one.module) != "__init__" and part_of(one.imported) not in EVERYWHERE
    ]
    parts = sorted({part_of(name) for one in imports for name in (one.module, one.imported)} - set(EVERYWHERE))
    imports = [one for one in imports if part_of(one.module) in parts]
    rows = [row for row in ([name for name in layer if name in parts] for layer in read_layers()) if row]
    # Rows of one part stand left, right and in the middle in turn, so that arrows over several layers do not hide each other.
    places = {
        name: (
            (i + 0.5) / len(row) if len(row) > 2 else (0.12, 0.88, 0.5)[level % 3] + 0.3 * i * (1 - level % 3),
            level,
        )
        for level, row in enumerate(rows)
        for i, name in enumerate(row)
    }
    colours = dict(zip(parts, plt.get_cmap("tab20").colors * 3, strict=False))
    counts = Counter((part_of(one.module), part_of(one.imported), one.in_function) for one in imports)
    _, ax = plt.subplots(figsize=(11, 0.95 * len(rows)), layout="constrained")
    for (start, end, in_function), count in sorted(counts.items()):
        if start == end:
            continue
        (x0, y0), (x1, y1) = places[start], places[end]
        bend = 0.0 if abs(y0 - y1) == 1 else 0.12 if x0 <= x1 else -0.12
        edge = 0.17 if y1 < y0 else -0.17
        style = {"linestyle": "--"} if in_function else {}
        ax.annotate(
            "", (x1, y1 + edge), (x0, y0 - edge),
            arrowprops={"arrowstyle": "-|>", "color": colours[start], "alpha": 0.75, "linewidth": 0.6 + 0.25 * min(count, 10),
                        "connectionstyle": f"arc3,rad={bend}", "shrinkA": 0, "shrinkB": 0, **style},
        )  # fmt: skip
    for name, (x, y) in places.items():
        ax.text(
            x, y, name, ha="center", va="center", fontsize=11, zorder=3,
            bbox={"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": colours[name], "linewidth": 1.8},
        )  # fmt: skip
    ax.set(xlim=(0, 1), ylim=(-0.5, len(rows) - 0.5))
    ax.axis("off")
    left_out = " and ".join(EVERYWHERE)
    ax.set_title(f"Arrows point to what is imported, dashed where a method does it when called. Not shown: {left_out}.")
    plt.savefig(target, dpi=110)


if __name__ == "__main__":
    draw(ROOT / "docs" / "import_graph.png")
