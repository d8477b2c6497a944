import subprocess

import pytest

from . import cases
from .runners import run_javascript, run_node


@pytest.mark.parametrize("name", cases.ALL)
def test_script_gives_predictions_and_labels_of_the_model(name, tmp_path):
    case = cases.ALL[name]()
    results = run_javascript(case, tmp_path)
    is_classifier = hasattr(case.model, "classes_")
    given = [result["probabilities" if is_classifier else "prediction"] for result in results]
    cases.assert_equal_to_single_precision(given, case.expected)
    if is_classifier:
        assert [result["label"] for result in results] == case.model.predict(case.table).tolist()


def test_text_in_place_of_a_number_is_refused_with_the_columns_name(tmp_path):
    cases.counts().model.export(tmp_path / "model.js")
    with pytest.raises(subprocess.CalledProcessError) as error:
        run_node('require("./model.js").predict({a: "1", b: 2, label: 3})', tmp_path)
    assert 'Column "a" must be a finite number' in error.value.stderr
