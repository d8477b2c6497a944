"""Importance top K and thresholds with a second fit: forest, extra trees, XGBoost, LightGBM, CatBoost.

Source: the paper's peers (sections 7.3 and S5.2), which fit on all features and keep those whose importance exceeds a tuned
threshold. Ours: the top K as an alternative for meeting a budget; importances are normalised to sum 1 before they are compared
with a threshold, because on LightGBM's and CatBoost's own scales any threshold below 1 keeps every used feature; the model is
fitted again on the selected features (``refit``), which the paper leaves open.
"""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from skinnytrees.baselines import models
from skinnytrees.baselines.base import (
    CONSTRAINTS,
    Baseline,
    BaselineClassifier,
    BaselineRegressor,
    Fitted,
    Problem,
    normalised,
)


class ImportanceSelection(Baseline):
    """Fit, rank by importance, keep the top K or those above a threshold, fit again."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "threshold": [Interval(Real, 0, 1, closed="left"), None],
        "refit": ["boolean"],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
    }
    _accepts_sparse = True

    def _new_model(self, problem: Problem) -> Any:
        """An unfitted model."""
        raise NotImplementedError

    def _fit_problem(self, problem: Problem) -> Fitted:
        model = models.fit_rows(self._new_model(problem), problem.rows)
        importances = problem.per_feature(models.column_importances(model))
        support = problem.top(importances, self._n_kept(normalised(importances), problem.budget))
        columns = problem.columns_of(support)
        if len(columns) == len(problem.feature) or not self.refit:
            return Fitted(support, model, np.arange(len(problem.feature)), importances=importances)
        restricted = problem.restrict(support)
        model = models.fit_rows(self._new_model(restricted), restricted.rows)
        return Fitted(support, model, importances=importances)

    def _n_kept(self, importances: Any, budget: int) -> int:
        """How many features pass: at least one, since a model of no feature selects nothing."""
        if self.threshold is None:
            return budget
        return min(budget, max(1, int(np.count_nonzero(importances > self.threshold))))


class _Forest(ImportanceSelection):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ImportanceSelection._parameter_constraints,
        "max_depth": [Interval(Integral, 1, None, closed="left"), None],
        "max_samples": [Interval(Real, 0, 1, closed="right"), None],
    }

    def __init__(  # type: ignore[no-untyped-def]
        self,
        feature_budget=None,
        *,
        threshold=None,
        refit=True,
        n_estimators=300,
        max_depth=None,
        max_samples=None,
        random_state=None,
        n_jobs=None,
    ):
        self.feature_budget = feature_budget
        self.threshold = threshold
        self.refit = refit
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.max_samples = max_samples
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def tuning_space(cls) -> dict[str, tuple[Any, ...]]:
        """Ranges of the paper's supplement."""
        return {
            "n_estimators": ("int", 1, 300),
            "max_depth": ("int", 1, 10),
            "max_samples": ("float", 0.5, 0.9),
            "threshold": ("log", 1e-7, 1e-1),
        }

    def _new_model(self, problem: Problem) -> Any:
        return models.new_forest(problem, self.n_estimators, max_depth=self.max_depth, max_samples=self.max_samples)


class _ExtraTrees(_Forest):
    def _new_model(self, problem: Problem) -> Any:
        # Drawing rows is optional here: without max_samples every tree sees all rows, as scikit-learn's default has it.
        drawn = self.max_samples is not None
        return models.new_extra_trees(
            problem, self.n_estimators, max_depth=self.max_depth, max_samples=self.max_samples, bootstrap=drawn
        )


class _Boosting(ImportanceSelection):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ImportanceSelection._parameter_constraints,
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_depth": [Interval(Integral, 1, 16, closed="both")],
        "subsample": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(  # type: ignore[no-untyped-def]
        self,
        feature_budget=None,
        *,
        threshold=None,
        refit=True,
        n_estimators=300,
        learning_rate=0.1,
        max_depth=4,
        subsample=1.0,
        random_state=None,
        n_jobs=None,
    ):
        self.feature_budget = feature_budget
        self.threshold = threshold
        self.refit = refit
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.subsample = subsample
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def tuning_space(cls) -> dict[str, tuple[Any, ...]]:
        """Ranges of the paper's supplement."""
        return {
            "n_estimators": ("int", 1, 300),
            "max_depth": ("int", 1, 10),
            "learning_rate": ("log", 1e-4, 1.0),
            "subsample": ("float", 0.5, 0.9),
            "threshold": ("log", 1e-7, 1e-1),
        }

    def _settings(self) -> dict[str, Any]:
        names = ("n_estimators", "learning_rate", "max_depth", "subsample")
        return {name: getattr(self, name) for name in names}


class _XGBoost(_Boosting):
    _needs = ("xgboost",)

    def _new_model(self, problem: Problem) -> Any:
        return models.new_xgboost(problem, **self._settings())


class _LightGBM(_Boosting):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_Boosting._parameter_constraints,
        "subsample_freq": [Interval(Integral, 1, None, closed="left")],
    }
    _needs = ("lightgbm",)

    def __init__(  # type: ignore[no-untyped-def]
        self,
        feature_budget=None,
        *,
        threshold=None,
        refit=True,
        n_estimators=300,
        learning_rate=0.1,
        max_depth=4,
        subsample=1.0,
        subsample_freq=1,
        random_state=None,
        n_jobs=None,
    ):
        super().__init__(
            feature_budget,
            threshold=threshold,
            refit=refit,
            n_estimators=n_estimators,
            learning_rate=learning_rate,
            max_depth=max_depth,
            subsample=subsample,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.subsample_freq = subsample_freq

    @classmethod
    def tuning_space(cls) -> dict[str, tuple[Any, ...]]:
        """Ranges of the paper's supplement."""
        return {**super().tuning_space(), "subsample_freq": ("int", 1, 7)}

    def _new_model(self, problem: Problem) -> Any:
        return models.new_lightgbm(problem, **self._settings(), subsample_freq=self.subsample_freq)


class _CatBoost(_Boosting):
    _needs = ("catboost",)

    def _new_model(self, problem: Problem) -> Any:
        return models.new_catboost(problem, **self._settings())


class ForestImportanceClassifier(_Forest, BaselineClassifier):
    """Classification by a random forest on the features of largest importance.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    threshold : float or None
        Keep the features whose importance, of importances that sum to 1, exceeds this; the budget holds as well.
    refit : bool
        Whether to fit again on the selected features. Without it, the model still reads all of them.
    n_estimators, max_depth, max_samples
        Of the forest.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Number of threads; None uses all cores.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines import ForestImportanceClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> y = (X[:, 3] > 0).astype(int)
    >>> ForestImportanceClassifier(1, n_estimators=20, random_state=0).fit(X, y).get_support(indices=True).tolist()
    [3]
    """


class ForestImportanceRegressor(_Forest, BaselineRegressor):
    """Regression by a random forest on the features of largest importance.

    The parameters are those of `ForestImportanceClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines import ForestImportanceRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> y = X[:, 3]
    >>> ForestImportanceRegressor(1, n_estimators=20, random_state=0).fit(X, y).get_support(indices=True).tolist()
    [3]
    """


class ExtraTreesImportanceClassifier(_ExtraTrees, BaselineClassifier):
    """Classification by extremely randomised trees on the features of largest importance.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    threshold : float or None
        Keep the features whose importance, of importances that sum to 1, exceeds this; the budget holds as well.
    refit : bool
        Whether to fit again on the selected features. Without it, the model still reads all of them.
    n_estimators, max_depth, max_samples
        Of the trees.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Number of threads; None uses all cores.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines import ExtraTreesImportanceClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> y = (X[:, 3] > 0).astype(int)
    >>> ExtraTreesImportanceClassifier(1, n_estimators=20, random_state=0).fit(X, y).get_support(indices=True).tolist()
    [3]
    """


class ExtraTreesImportanceRegressor(_ExtraTrees, BaselineRegressor):
    """Regression by extremely randomised trees on the features of largest importance.

    The parameters are those of `ExtraTreesImportanceClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines import ExtraTreesImportanceRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> y = X[:, 3]
    >>> ExtraTreesImportanceRegressor(1, n_estimators=20, random_state=0).fit(X, y).get_support(indices=True).tolist()
    [3]
    """


class XGBoostImportanceClassifier(_XGBoost, BaselineClassifier):
    """Classification by XGBoost (gain) on the features of largest importance.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    threshold : float or None
        Keep the features whose importance, of importances that sum to 1, exceeds this; the budget holds as well.
    refit : bool
        Whether to fit again on the selected features. Without it, the model still reads all of them.
    n_estimators, learning_rate, max_depth, subsample
        Of the boosting; ``subsample`` is the fraction of the rows that each tree sees.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Number of threads; None uses all cores.
    """


class XGBoostImportanceRegressor(_XGBoost, BaselineRegressor):
    """Regression by XGBoost (gain) on the features of largest importance.

    The parameters are those of `XGBoostImportanceClassifier`.
    """


class LightGBMImportanceClassifier(_LightGBM, BaselineClassifier):
    """Classification by LightGBM (gain) on the features of largest importance.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    threshold : float or None
        Keep the features whose importance, of importances that sum to 1, exceeds this; the budget holds as well.
    refit : bool
        Whether to fit again on the selected features. Without it, the model still reads all of them.
    n_estimators, learning_rate, max_depth, subsample, subsample_freq
        Of the boosting; ``subsample`` is the fraction of the rows that a tree sees, drawn anew every ``subsample_freq`` trees.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Number of threads; None uses all cores.
    """


class LightGBMImportanceRegressor(_LightGBM, BaselineRegressor):
    """Regression by LightGBM (gain) on the features of largest importance.

    The parameters are those of `LightGBMImportanceClassifier`.
    """


class CatBoostImportanceClassifier(_CatBoost, BaselineClassifier):
    """Classification by CatBoost on the features of largest importance.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    threshold : float or None
        Keep the features whose importance, of importances that sum to 1, exceeds this; the budget holds as well.
    refit : bool
        Whether to fit again on the selected features. Without it, the model still reads all of them.
    n_estimators, learning_rate, max_depth, subsample
        Of the boosting; ``subsample`` is the fraction of the rows that each tree sees.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Number of threads; None uses all cores.
    """


class CatBoostImportanceRegressor(_CatBoost, BaselineRegressor):
    """Regression by CatBoost on the features of largest importance.

    The parameters are those of `CatBoostImportanceClassifier`.
    """
