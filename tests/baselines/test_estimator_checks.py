"""scikit-learn's own checks; what cannot hold is named with its reason.

All systems share the code that reads, checks and predicts, so that a few of them are checked each time. The rest takes minutes:
SKINNYTREES_ALL_CHECKS=1 adds it.
"""

import os

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from skinnytrees.baselines import SYSTEMS
from tests.baselines.helpers import new

EACH_TIME = ["l1_path", "xgboost"]
# One soft tree of the quick settings cannot tell iris's classes apart.
ENOUGH = {
    **{name: {"max_epochs": 60, "max_depth": 3, "batch_size": 8} for name in ("group_lasso_tree", "skinny_tree")},
    "lassonet": {"max_epochs": (200, 10)},  # nor can its quick settings fit a line
}

_EQUIVALENCE = "check_sample_weight_equivalence_on_dense_data"
_BOOTSTRAP = "forests draw rows by number, so that a row of weight two is not drawn like two rows"
_HELD_OUT = "rows are held out by number, so that a row of weight two is not held out like two rows"
_WEIGHT_CHECKS = [
    _EQUIVALENCE, "check_sample_weights_list", "check_sample_weights_shape", "check_sample_weights_pandas_series",
    "check_sample_weights_not_overwritten", "check_sample_weights_not_an_array", "check_all_zero_sample_weights_error",
    "check_classifiers_one_label_sample_weights",
]  # fmt: skip
_NOT_EQUIVALENT = {
    **dict.fromkeys(["Forest", "RFE", "MRMR"], _BOOTSTRAP),
    **dict.fromkeys(
        ["BestSubset", "ControlBurn", "GroupLasso", "SkinnyTree", "L1Path", "Permutation", "TAO"], _HELD_OUT
    ),
    **dict.fromkeys(["AlgNet", "DeepLasso", "STG"], _HELD_OUT),
    "DFS": "single precision: sums over repeated rows round otherwise, and later updates magnify that",
    "CatBoost": "CatBoost draws random numbers per row",
}


def expected_failures(estimator):
    name = type(estimator).__name__
    if not estimator._honours_weights:
        return dict.fromkeys(_WEIGHT_CHECKS, "the system refuses weights")
    reasons = [reason for start, reason in _NOT_EQUIVALENT.items() if name.startswith(start)]
    failures = {_EQUIVALENCE: reasons[0]} if reasons else {}
    if reasons and estimator._accepts_sparse:
        failures["check_sample_weight_equivalence_on_sparse_data"] = reasons[0]
    return failures


def _estimators(names):
    kinds = [(name, kind) for name in names for kind in ("classifier", "regressor") if getattr(SYSTEMS[name], kind)]
    return [new(name, kind, **ENOUGH.get(name, {})) for name, kind in kinds if SYSTEMS[name].is_installed]


@parametrize_with_checks(_estimators(EACH_TIME), expected_failed_checks=expected_failures)
def test_scikit_learn_check(estimator, check):
    check(estimator)


_OTHERS = [name for name in SYSTEMS if name not in EACH_TIME]
_ALL_CHECKS = os.environ.get("SKINNYTREES_ALL_CHECKS") == "1"


@pytest.mark.slow
@pytest.mark.skipif(
    not _ALL_CHECKS, reason="scikit-learn's checks of the other systems take minutes: set SKINNYTREES_ALL_CHECKS=1"
)
# Without the variable, the checks of one system stand for all that are skipped: collecting thousands takes seconds.
@parametrize_with_checks(_estimators(_OTHERS if _ALL_CHECKS else _OTHERS[:1]), expected_failed_checks=expected_failures)
def test_scikit_learn_check_of_the_other_systems(estimator, check):
    check(estimator)
