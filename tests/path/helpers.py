"""What several tests of the path use."""

import functools

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from skinnytrees import SkinnyTreesClassifier
from skinnytrees.activations import Sigmoid
from skinnytrees.losses import SquaredError, TargetScale
from skinnytrees.path.evidence import Judge
from skinnytrees.path.points import PathInputs
from skinnytrees.path.rules import DEFAULT_RULES, replace_rule
from skinnytrees.path.trainer import Trainer
from skinnytrees.tables.groups import Groups

QUICK = {"max_epochs": 2, "n_estimators": 5, "random_state": 0}
# The path screens all the way, or prunes from so few rows on that tests are quick.
SCREENING = replace_rule(DEFAULT_RULES, "pruning.needs_rows", np.inf)
PRUNING = replace_rule(DEFAULT_RULES, "pruning.needs_rows", 30)
BOTH_PHASES = pytest.mark.parametrize("rules", [SCREENING, PRUNING], ids=["screen", "prune"])


def with_rules(estimator, rules):
    """The estimator with other rules."""
    return type(estimator.__name__, (estimator,), {"_rules": rules})


def random_problem(seed, n_features, n_rows=50):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    return X, X @ rng.normal(size=n_features) + 0.1 * rng.normal(size=n_rows)


def make_groups(price, always_selected=(), column_offsets=None):
    """Groups of one feature each, at these prices."""
    n_groups = len(price)
    offsets = np.arange(n_groups + 1)
    always = np.isin(np.arange(n_groups), always_selected)
    columns = offsets if column_offsets is None else column_offsets
    return Groups(np.arange(n_groups), offsets, columns, np.array(price, dtype=float), always)


def make_trainer(loss=None, n_outputs=1):
    return Trainer(SquaredError() if loss is None else loss, Sigmoid(), n_outputs)


def make_judge(loss=None, n_outputs=1, scorer=None):
    """A judge of outputs that are in the unit of the target."""
    return Judge(make_trainer(loss, n_outputs), TargetScale.none(n_outputs), scorer)


def make_inputs(data, groups=None, rules=DEFAULT_RULES, loss=None, n_outputs=1, n_rows=None, **users_choices):
    """What the phases work on, with rules as for ``n_rows`` rows."""
    groups = Groups.singles(data.X.shape[1]) if groups is None else groups
    recipes = rules.for_rows(len(data.Y) if n_rows is None else n_rows, **users_choices)
    return PathInputs(data, groups, make_trainer(loss, n_outputs), rules, recipes)


@functools.cache
def wine_model():
    return SkinnyTreesClassifier(5, random_state=0).fit(*load_wine(return_X_y=True))


@functools.cache
def pruned_model():
    """Enough rows for pruning all the way."""
    X, y = load_breast_cancer(return_X_y=True)
    return SkinnyTreesClassifier(5, max_epochs=3, random_state=0).fit(X[:, :12], y)
