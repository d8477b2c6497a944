"""Stability selection: which features are selected on most subsamples of the rows.

Meinshausen & Bühlmann (2010) with the complementary pairs of Shah & Samworth (2013), around any estimator that selects
features. How features are selected is up to the estimator.
"""

import inspect
import math
import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, _fit_context, clone, is_classifier, is_regressor
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import _safe_indexing, check_consistent_length, check_random_state, get_tags
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_feature_names_in, _check_sample_weight, check_is_fitted, validate_data

from skinnytrees.estimators.all_or_nothing import become, unfitted
from skinnytrees.estimators.base import Fit
from skinnytrees.estimators.classifier import SkinnyTreesClassifier
from skinnytrees.estimators.regressor import SkinnyTreesRegressor
from skinnytrees.estimators.selection_statistics import false_selection_bound, least_threshold, stability_index
from skinnytrees.exceptions import UnstableSelectionWarning, import_optional, refuse_unless
from skinnytrees.tables.frames import is_frame
from skinnytrees.training.progress import count_progress

# With more distinct whole numbers than this, they may be classes or amounts: only the user knows.
_MOST_CLASSES = 20
# As many names as can be read along an axis.
_MOST_BARS = 30
# Below this, Nogueira, Sechidis & Brown (2018) call the agreement of selections poor.
_POOR_AGREEMENT = 0.4
# With fewer resamples, their agreement is not known well enough for a warning.
_FEWEST_TO_COMPARE = 10
# The bound that the default number of features per resample is chosen for, if the user asks for none.
_USUAL_FALSE_SELECTIONS = 1.0


def _checked(fit: Fit) -> Fit:
    """scikit-learn's check of the parameters, those of the estimator inside included; type checkers still know ``fit``."""
    return cast(Fit, _fit_context(prefer_skip_nested_validation=False)(fit))


class StabilitySelector(SelectorMixin, MetaEstimatorMixin, BaseEstimator):
    r"""Select the features that an estimator selects on most random halves of the rows.

    The rows are split at random into two halves that have no row in common, the estimator is fitted on each, and this is
    repeated; a feature is kept if the fraction of fits that selected it reaches a threshold. Noise features are selected by
    chance, which is rarely repeated on other rows.

    Parameters
    ----------
    estimator : object with ``fit`` and ``get_support()`` or ``support_``, or None, default=None
        What selects features on each resample: a SkinnyTrees estimator, scikit-learn's ``SelectFromModel``, ``RFE``,
        ``SelectKBest`` and the like. It is cloned, and every ``random_state`` in it is set anew for each resample. None
        is the path of :class:`SkinnyTreesClassifier` where ``y`` holds classes (text, booleans, or at most 20 different
        whole numbers) and of :class:`SkinnyTreesRegressor` where it holds numbers with fractions; either walks down to
        ``feature_budget`` features, with no rows held out. Other targets are refused with the request to name an
        estimator.
    n_resamples : int, default=50
        Number of fits; even, for they come in pairs: 50 are 25 splits with two halves each. Time grows with it; the bound
        in the notes holds for any number.
    sample_fraction : float in (0, 0.5], default=0.5
        Fraction of the rows (of each class, rounded down) in either part of a pair. The parts have no row in common, hence at
        most one half.
    threshold : float in (0.5, 1], default=0.6
        Keep features that at least this fraction of the fits selected.
    max_false_selections : float or None, default=None
        Raise the threshold (never lower it) so that the expected number of falsely selected features is at most this,
        under the assumptions in the notes. What no threshold up to 1 can give is refused.
    feature_budget : int or None, default=None
        Number of features that the default estimator selects on each resample. None takes as many as keep the bound on
        falsely selected features within ``max_false_selections`` (within 1, if that is None) at ``threshold``, but at
        least one: 4 of 100, 44 of 10,000. No more than ``feature_budget / threshold`` features can be stable, so give a
        larger number if you expect more. With ``estimator``, set the budget there.
    random_state : int, RandomState or None, default=None
        Seed of the splits and of the fits; the result does not depend on ``n_jobs``.
    n_jobs : int or None, default=None
        None uses all cores, by one fit after another, each on all cores. A number is how many fits run at the same time, by
        joblib: -1 as many as there are cores.
    verbose : int, default=0
        1 shows progress: a bar where tqdm is installed, else one line per resample.

    Attributes
    ----------
    frequencies_ : array of shape (n_features_in_,)
        Fraction of the fits that selected each feature.
    threshold_ : float
        The threshold that was used.
    support_ : array of bool of shape (n_features_in_,)
        Features whose frequency reaches ``threshold_``.
    n_features_selected_ : int
        How many they are.
    mean_selected_ : float
        Mean number of features that a fit selected.
    error_bound_ : float
        Bound on the expected number of falsely selected features, see the notes; above ``n_features_selected_`` it is not
        informative.
    stability_index_ : float
        How much the resamples agree beyond chance, see ``selection_statistics.stability_index``. Below 0.4, ``fit``
        warns, unless there are fewer than ten resamples.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array of str
        Names of the columns, if X was a frame.

    Notes
    -----
    With q features selected per resample on average, p features in all and the threshold :math:`\pi`, the expected
    number V of selected noise features obeys (Meinshausen & Bühlmann, theorem 1)

    .. math:: E[V] \le \frac{q^2}{(2 \pi - 1) \, p}.

    This assumes that the noise features are exchangeable (each is as likely to be selected as any other, which noise
    that is correlated with signal is not) and that the estimator does no worse than random guessing. Without these
    assumptions it bounds something weaker: the expected number of selected features that a single
    resample selects with probability at most q / p (Shah & Samworth, theorem 1, for any number of pairs). Both take
    rows as independent draws.

    The bound is about the q that is expected. The default estimator never selects more than ``feature_budget``
    features, so that q is known; for others it is estimated by ``mean_selected_``, and what
    ``max_false_selections`` promises holds approximately.

    References
    ----------
    N. Meinshausen, P. Bühlmann: Stability selection. Journal of the Royal Statistical Society B 72 (2010), 417-473.
    S. Nogueira, K. Sechidis, G. Brown: On the stability of feature selection algorithms. Journal of Machine Learning
    Research 18 (2018), 1-54.
    R. D. Shah, R. J. Samworth: Variable selection with error control: another look at stability selection. Journal of
    the Royal Statistical Society B 75 (2013), 55-80.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.estimators.stability import StabilitySelector
    >>> X = np.random.default_rng(0).normal(size=(200, 50))
    >>> y = X[:, 3] + X[:, 17] + X[:, 42] > 0
    >>> selector = StabilitySelector(n_resamples=10, random_state=0).fit(X, y)
    >>> selector.get_support(indices=True)
    array([ 3, 17, 42])
    >>> selector.error_bound_ < 1
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods("fit"), None],
        "n_resamples": [Interval(Integral, 2, None, closed="left")],
        "sample_fraction": [Interval(Real, 0, 0.5, closed="right")],
        "threshold": [Interval(Real, 0.5, 1, closed="right")],
        "max_false_selections": [Interval(Real, 0, None, closed="neither"), None],
        "feature_budget": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_resamples: int = 50,
        sample_fraction: float = 0.5,
        threshold: float = 0.6,
        max_false_selections: float | None = None,
        feature_budget: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_resamples = n_resamples
        self.sample_fraction = sample_fraction
        self.threshold = threshold
        self.max_false_selections = max_false_selections
        self.feature_budget = feature_budget
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(SkinnyTreesClassifier() if self.estimator is None else self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.target_tags.required = True
        return tags

    @_checked
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the estimator on resamples and count how often it selects each feature.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
            Training table; the estimator decides what it may hold.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Classes or numbers. Classes have the same frequencies in every resample, as nearly as whole rows allow.
        sample_weight : array of shape (n_samples,) or None
            Weight of each row, handed to the estimator; rows of weight zero are left out.

        Returns
        -------
        self
        """
        fresh = unfitted(self)
        fresh._fit(X, y, sample_weight)
        return become(self, fresh)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        refuse_unless(
            self.n_resamples % 2 == 0,
            f"n_resamples={self.n_resamples} is odd, but halves come in pairs. Use {self.n_resamples + 1}.",
        )
        X, y = self._read_table(X, y)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        estimator = self._checked_estimator(y, weight)
        strata = _strata(estimator, y, np.arange(len(y)) if weight is None else np.flatnonzero(weight > 0))
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        resamples = [part for _ in range(self.n_resamples // 2) for part in _pair(strata, self.sample_fraction, rng)]
        seeds = rng.integers(2**31, size=self.n_resamples).tolist()
        tasks = (
            delayed(_select)(estimator, X, y, weight, rows, seed) for rows, seed in zip(resamples, seeds, strict=True)
        )
        selected = []
        with count_progress(self.n_resamples, self.verbose, "resample") as show:
            for support in Parallel(n_jobs=self.n_jobs, return_as="generator")(tasks):
                selected.append(support)
                show()
        self._adopt(np.array(selected))
        self._warn_if_resamples_disagree()

    def to_frame(self) -> Any:
        """How often each feature was selected, as a pandas frame; the most frequent come first.

        Returns
        -------
        pandas.DataFrame
            ``feature``, ``frequency`` and whether it is ``selected``, one row per feature.
        """
        check_is_fitted(self)
        pd = import_optional("pandas", "to_frame()", "frames")
        columns = {
            "feature": _check_feature_names_in(self), "frequency": self.frequencies_, "selected": self.support_
        }  # fmt: skip
        frame = pd.DataFrame(columns)
        return frame.sort_values("frequency", ascending=False, kind="stable", ignore_index=True)

    def plot(self, ax: Any = None) -> Any:
        """Draw how often features were selected, the most frequent ones first and at most 30, with the threshold.

        Parameters
        ----------
        ax : matplotlib axes or None
            Where to draw; None makes a new figure.

        Returns
        -------
        matplotlib axes
        """
        check_is_fitted(self)
        n_bars = min(max(1, np.count_nonzero(self.frequencies_)), _MOST_BARS)
        top = np.argsort(-self.frequencies_, kind="stable")[:n_bars]
        is_new = ax is None
        from skinnytrees.plots.style import new_axes, palette, shorten

        ax = new_axes(ax)
        if is_new:
            ax.figure.set_figheight(1.2 + 0.22 * len(top))
        places = np.arange(len(top))
        colours = palette(ax)
        ax.barh(
            places, self.frequencies_[top], color=np.where(self.support_[top], colours.ink, colours.pale), height=0.7
        )
        ax.axvline(self.threshold_, color=colours.accent, linewidth=1.2, label=f"threshold: {self.threshold_:.2f}")
        ax.set_yticks(places, labels=[shorten(name) for name in _check_feature_names_in(self)[top]])
        ax.set_ylim(len(top) - 0.4, -0.6)
        ax.set_xlim(0, 1.02)
        ax.set_xlabel("fraction of resamples that select the feature")
        ax.set_title(f"{self.n_features_selected_} of {self.n_features_in_} features are stable", loc="left")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, loc="lower right")
        return ax

    def _read_table(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Something whose rows can be taken; frames stay frames, and values are checked by the estimator."""
        refuse_unless(
            y is not None,
            f"{type(self).__name__} requires y to be passed, but the target y is None. Give the classes or "
            "numbers that the features should predict.",
        )
        as_it_is = {"skip_check_array": True}
        as_array = {"accept_sparse": "csr", "dtype": None, "ensure_all_finite": False, "ensure_min_samples": 2}
        X = validate_data(self, X, **(as_it_is if is_frame(X) else as_array))
        y = y if hasattr(y, "shape") else np.asarray(y)
        check_consistent_length(X, y)
        return X, y

    def _checked_estimator(self, y: Any, weight: NDArray[np.float64] | None) -> Any:
        if self.estimator is None:
            return _default_estimator(y, self._budget())
        refuse_unless(
            self.feature_budget is None,
            f"feature_budget={self.feature_budget} is for the default estimator, but estimator={self.estimator!r} was "
            "given. Set the number of features there, and leave feature_budget=None.",
        )
        if weight is not None and not _takes_weights(self.estimator):
            raise TypeError(
                f"sample_weight was given, but {type(self.estimator).__name__}.fit does not take it. Leave it out, or "
                "use an estimator that does."
            )
        return self.estimator

    def _budget(self) -> int:
        """Features per resample for the default estimator; a demand that they cannot meet is refused before any work."""
        n_features, limit = int(self.n_features_in_), self.max_false_selections
        if self.feature_budget is None:
            square = (2 * self.threshold - 1) * n_features * (limit or _USUAL_FALSE_SELECTIONS)
            budget = min(max(1, math.isqrt(int(square + 1e-9))), n_features)
        else:
            budget = int(self.feature_budget)
            refuse_unless(
                budget <= n_features,
                f"feature_budget={budget} asks for more columns than X has ({n_features}). Use a number well below "
                f"{n_features}, or None.",
            )
        if limit is not None:
            least_threshold(budget, n_features, limit)
        return budget

    def _adopt(self, selected: NDArray[np.bool_]) -> None:
        n_features, limit = self.n_features_in_, self.max_false_selections
        mean_selected = float(selected.sum(axis=1).mean())
        least = 0.0 if limit is None else least_threshold(mean_selected, n_features, limit)
        self.threshold_ = max(float(self.threshold), least)
        self.mean_selected_ = mean_selected
        self.error_bound_ = false_selection_bound(mean_selected, n_features, self.threshold_)
        self.stability_index_ = stability_index(selected)
        self.frequencies_ = selected.mean(axis=0)
        self.support_ = self.frequencies_ >= self.threshold_ - 1e-12
        self.n_features_selected_ = int(self.support_.sum())

    def _warn_if_resamples_disagree(self) -> None:
        """Warn if the resamples select different features, which a user must know."""
        if self.n_resamples < _FEWEST_TO_COMPARE or not self.stability_index_ < _POOR_AGREEMENT:
            return
        warnings.warn(
            f"The resamples disagree: each selects {self.mean_selected_:.3g} features, but two of them share only "
            f"{self._mean_shared():.2g} on average (stability index {self.stability_index_:.2f}; 1 is full agreement, 0 is "
            "chance). Another sample of rows would give another selection. Report the frequencies (to_frame()) instead of one "
            "list, or use more rows; columns with the same information can be joined by feature_groups.",
            UnstableSelectionWarning,
            stacklevel=5,
        )

    def _mean_shared(self) -> float:
        """Mean number of features that two different resamples share."""
        count, n = self.frequencies_ * self.n_resamples, self.n_resamples
        return float((count * (count - 1)).sum() / (n * (n - 1)))

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        support: NDArray[np.bool_] = self.support_
        return support


def _default_estimator(y: Any, budget: int) -> Any:
    """The path for this target, down to the budget on all rows: with no rows held out there is nothing to refit."""
    kind = _kind_of_target(y)
    known = {
        "binary": SkinnyTreesClassifier,
        "multiclass": SkinnyTreesClassifier,
        "continuous": SkinnyTreesRegressor,
        "continuous-multioutput": SkinnyTreesRegressor,
    }
    refuse_unless(
        kind in known,
        f"Unknown label type for the default estimator: y is {kind!r}, neither classes nor numbers. Name an estimator, "
        "such as StabilitySelector(SkinnyTreesRegressor(10)).",
    )
    values = np.asarray(y)
    n_values = len(np.unique(values)) if kind == "multiclass" else 0
    refuse_unless(
        n_values <= _MOST_CLASSES or values.dtype.kind not in "iuf",
        f"y has {n_values} different whole numbers, which may be classes or amounts. Say which: "
        "StabilitySelector(SkinnyTreesClassifier(10)) or StabilitySelector(SkinnyTreesRegressor(10)).",
    )
    return known[kind](budget, size_rule="full", validation_fraction=None, callbacks=[_stop_at_the_budget])


def _stop_at_the_budget(report: Any) -> bool:
    """Callback that ends the path as soon as the budget is met, since smaller sizes are not needed."""
    return True


def _kind_of_target(y: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that many classes look like numbers: it is what we ask for
        return str(type_of_target(y, input_name="y"))


def _takes_weights(estimator: Any) -> bool:
    parameters = inspect.signature(estimator.fit).parameters
    return "sample_weight" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())


def _strata(estimator: Any, y: Any, rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Rows to be split in the same way, one class at a time; all together where y does not hold classes."""
    refuse_unless(
        len(rows) > 1, f"X has {len(rows)} rows of positive weight, but two halves need at least 2. Give more rows."
    )
    if is_regressor(estimator) or _kind_of_target(y) not in ("binary", "multiclass"):
        return [rows]
    labels, codes, counts = np.unique(np.ravel(np.asarray(y))[rows], return_inverse=True, return_counts=True)
    if counts.min() == 1:
        # SelectFromModel and its like do not declare whether whole numbers are classes: it only matters to a classifier.
        refuse_unless(
            not is_classifier(estimator),
            f"The class {labels.tolist()[counts.argmin()]!r} has one row, but needs one in each half. Leave the class "
            "out, or add rows of it.",
        )
        return [rows]
    return [rows[codes == code] for code in range(len(labels))]


def _pair(
    strata: Sequence[NDArray[np.intp]], fraction: float, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Two parts of the rows that share none, each with this fraction of every stratum and at least one row of it."""
    parts: tuple[list[NDArray[np.intp]], list[NDArray[np.intp]]] = ([], [])
    for rows in strata:
        shuffled = rng.permutation(rows)
        size = max(1, int(fraction * len(rows)))
        parts[0].append(shuffled[:size])
        parts[1].append(shuffled[size : 2 * size])
    return np.sort(np.concatenate(parts[0])), np.sort(np.concatenate(parts[1]))


def _select(
    estimator: Any, X: Any, y: Any, weight: NDArray[np.float64] | None, rows: NDArray[np.intp], seed: int
) -> NDArray[np.bool_]:
    """Which features a clone of the estimator selects on some of the rows."""
    fresh = clone(estimator)
    names = [name for name in fresh.get_params() if name == "random_state" or name.endswith("__random_state")]
    fresh.set_params(**dict.fromkeys(names, seed))
    weights = {} if weight is None else {"sample_weight": weight[rows]}
    fresh.fit(_safe_indexing(X, rows), _safe_indexing(y, rows), **weights)
    return _support(fresh, X.shape[1])


def _support(fitted: Any, n_features: int) -> NDArray[np.bool_]:
    name = type(fitted).__name__
    if not hasattr(fitted, "get_support") and not hasattr(fitted, "support_"):
        raise TypeError(
            f"{name} does not say which features it selected: it has neither get_support() nor support_. Wrap it, for "
            "example in sklearn.feature_selection.SelectFromModel."
        )
    support = np.asarray(fitted.get_support() if hasattr(fitted, "get_support") else fitted.support_)
    if support.dtype != bool or support.shape != (n_features,):
        # A support vector machine has a support_, too: rows, not features.
        raise TypeError(
            f"The support of {name} is an array of {support.dtype} of shape {support.shape}, not one True or False for "
            f"each of {n_features} features. Wrap it, for example in sklearn.feature_selection.SelectFromModel."
        )
    return support
