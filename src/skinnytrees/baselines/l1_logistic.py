"""l1 logistic regression by liblinear, the solver that the l1 path and the oblique tree share."""

import warnings
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils.fixes import parse_version

# liblinear penalises the intercept, too; on a constant column of this size the penalty is negligible.
INTERCEPT_SCALING = 100.0
# The parameter that asks for the l1 norm changed its name.
_L1: dict[str, Any] = (
    {"l1_ratio": 1.0} if parse_version(sklearn.__version__) >= parse_version("1.8") else {"penalty": "l1"}
)


def fit_l1_logistic(
    X: Any, y: NDArray[Any], weight: NDArray[np.float64], C: float, seed: int, tol: float = 1e-4, max_iter: int = 200
) -> LogisticRegression:
    """Minimise ``||w||_1 + C * sum of the rows' weighted log-losses`` for two classes.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines.l1_logistic import fit_l1_logistic
    >>> X = np.array([[-1.0, 0.1], [1.0, -0.1], [-2.0, 0.0], [2.0, 0.0]])
    >>> fit_l1_logistic(X, np.array([0, 1, 0, 1]), np.ones(4), C=1.0, seed=0).coef_.round(1).tolist()
    [[1.0, 0.0]]
    """
    model = LogisticRegression(
        solver="liblinear",
        C=C,
        intercept_scaling=INTERCEPT_SCALING,
        tol=tol,
        max_iter=max_iter,
        random_state=seed,
        **_L1,
    )
    with warnings.catch_warnings():
        # A path continues from the last iterate of a problem that has not converged.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, sample_weight=weight)
