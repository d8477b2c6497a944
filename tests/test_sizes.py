"""No file, function or class of the package is so large that one cannot see the end of it."""

import ast
from pathlib import Path

import skinnytrees

LINES_PER_FILE, LINES_PER_FUNCTION, METHODS_PER_CLASS = 500, 60, 12
COMPILED = {"kernel", "inner_kernel", "part"}
ESTIMATORS = {"BaseEstimator", "SkinnyTrees", "Baseline", "BaselineClassifier", "BaselineRegressor"}
FILES = {file: file.read_text() for file in sorted(Path(skinnytrees.__file__).parent.rglob("*.py"))}


def nodes(kind):
    """All functions or classes, each with its file."""
    return [
        (file.name, node)
        for file, text in FILES.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, kind)
    ]


def n_code_lines(function):
    """Lines of a function without its docstring."""
    has_docstring = ast.get_docstring(function) is not None and len(function.body) > 1
    return function.end_lineno - function.body[has_docstring].lineno + 1


def test_no_file_has_more_than_500_lines():
    assert {file.name: n for file, text in FILES.items() if (n := text.count("\n")) > LINES_PER_FILE} == {}


def test_no_function_but_kernels_has_more_than_60_lines_of_code():
    functions = nodes(ast.FunctionDef)
    is_kernel = [
        any(isinstance(one, ast.Name) and one.id in COMPILED for one in node.decorator_list) for _, node in functions
    ]
    assert 50 < sum(is_kernel) < len(functions) / 2, "kernels are told from other functions"
    long = [
        (file, node.name, n_code_lines(node))
        for (file, node), compiled in zip(functions, is_kernel, strict=True)
        if not compiled and n_code_lines(node) > LINES_PER_FUNCTION
    ]
    assert long == []


def test_no_class_but_estimators_has_more_than_about_ten_methods():
    large = [
        (file, node.name, n)
        for file, node in nodes(ast.ClassDef)
        if (n := sum(isinstance(one, ast.FunctionDef) for one in node.body)) > METHODS_PER_CLASS
        and not any(isinstance(base, ast.Name) and base.id in ESTIMATORS for base in node.bases)
    ]
    assert large == []
