import ctypes

import numpy as np
import pytest

from skinnytrees import SkinnyTreesClassifier

from . import cases
from .runners import run_c


@pytest.mark.parametrize("name", cases.ALL)
def test_compiled_source_gives_predictions_of_the_model(name, tmp_path):
    case = cases.ALL[name]()
    cases.assert_equal_to_single_precision(run_c(case, tmp_path), case.expected)


def test_infinite_number_is_reported_and_names_can_be_asked_for(tmp_path):
    case = cases.counts()
    run_c(case, tmp_path)
    library = ctypes.CDLL(str(tmp_path / "model.so"))
    library.skinnytrees_input_name.restype = library.skinnytrees_output_name.restype = ctypes.c_char_p
    assert [library.skinnytrees_input_name(k) for k in range(4)] == [b"a", b"b", b"label", None]
    assert library.skinnytrees_output_name(1) == b"prediction1"
    numbers, out = (ctypes.c_double * 3)(0.0, np.inf, 0.0), (ctypes.c_double * 2)()
    assert library.skinnytrees_predict(numbers, None, out) == 1


def test_name_that_would_end_a_comment_does_not(tmp_path):
    X = cases.counts().X.rename(columns={"a": 'x*/ int y; "'})
    model = SkinnyTreesClassifier(penalty=None, **cases.SMALL).fit(X, X["b"] > 0)
    case = cases.Case(model, X)
    cases.assert_equal_to_single_precision(run_c(case, tmp_path), case.expected)
