"""Versions are the same wherever they are written, and reports of problems name those of all that the core needs."""

import re
import tomllib
from pathlib import Path

import pytest

import skinnytrees

ROOT = Path(__file__).parents[1]


@pytest.fixture
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_package_project_and_citation_have_one_version(project):
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert skinnytrees.__version__ == project["version"] == citation[1]


def test_report_names_every_package_that_the_core_needs(project, capsys):
    skinnytrees.show_versions()
    core = capsys.readouterr().out.split("Optional:")[0]
    names = [requirement.split(">=")[0] for requirement in project["dependencies"]]
    assert [name for name in names if not re.search(rf"^  {name} +\d", core, re.MULTILINE)] == []
