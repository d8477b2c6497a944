"""A module imports from its own part of the package or from parts below it, as CONTRIBUTING.md lists them."""

import ast

import pytest

from docs.make_import_graph import PACKAGE, ROOT, find_imports, part_of, read_layers

# Methods of estimators and of the path open these when they are called: est.explain(X), path.plot(), est.report(file).
OPENED_BY_METHODS = {"explain", "plots", "report"}
LEVELS = {name: level for level, layer in enumerate(read_layers()) for name in layer}


def climbs(one):
    """Whether an import goes up, or sideways to another part of the same layer."""
    start, end = part_of(one.module), part_of(one.imported)
    if start == end or start == "__init__" or (one.in_function and end in OPENED_BY_METHODS):
        return False
    return LEVELS[start] <= LEVELS[end]


def test_every_part_of_the_package_has_a_layer():
    parts = {
        path.stem
        for path in (ROOT / "src" / PACKAGE).iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert parts - {"__init__"} <= set(LEVELS)


def test_no_import_climbs():
    imports = find_imports()
    assert len(imports) > 100, "the search finds imports"
    assert [one for one in imports if climbs(one)] == []


@pytest.mark.parametrize(
    ("line", "is_caught"),
    [
        ("from skinnytrees.estimators.base import SkinnyTrees", True),
        ("import skinnytrees.path.walk", True),
        ("from skinnytrees import fitting", True),
        ("def later():\n    from skinnytrees.path.walk import Walk", True),
        ("from skinnytrees.plots.style import new_axes", True),
        ("def plot():\n    from skinnytrees.plots.style import new_axes", False),
        ("from skinnytrees.kernels.state import Trees", False),
        ("from skinnytrees.tables.rows import Rows", False),
    ],
)
def test_line_that_climbs_is_found(tmp_path, line, is_caught):
    """As a line of a module of tables, in a source tree of its own."""
    ast.parse(line)
    folder = tmp_path / PACKAGE / "tables"
    folder.mkdir(parents=True)
    (folder / "added.py").write_text(line)
    assert any(climbs(one) for one in find_imports(tmp_path)) == is_caught
