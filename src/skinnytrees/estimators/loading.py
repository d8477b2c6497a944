"""Reading a model file back into an estimator."""

from skinnytrees.estimators.classifier import SkinnyTreesClassifier
from skinnytrees.estimators.regressor import SkinnyTreesRegressor
from skinnytrees.exceptions import refuse_unless
from skinnytrees.model import storage

_KINDS = {kind.__name__: kind for kind in (SkinnyTreesClassifier, SkinnyTreesRegressor)}


def load(file: storage.File) -> SkinnyTreesClassifier | SkinnyTreesRegressor:
    """Read an estimator that ``save`` has written.

    Parameters
    ----------
    file : str, path or binary file
        Where it is.

    Returns
    -------
    SkinnyTreesClassifier or SkinnyTreesRegressor
        Fitted, with all its sizes.

    Examples
    --------
    >>> from io import BytesIO
    >>> from sklearn.datasets import load_wine
    >>> from skinnytrees import SkinnyTreesClassifier, load
    >>> X, y = load_wine(return_X_y=True)
    >>> file = BytesIO()  # or a path, such as "wine.skinny"
    >>> SkinnyTreesClassifier(feature_budget=3, max_epochs=2, random_state=0).fit(X, y).save(file)
    >>> _ = file.seek(0)
    >>> load(file).n_features_selected_
    3
    """
    kind, state = storage.read(file)
    refuse_unless(
        kind in _KINDS, f"{file} holds a {kind!r}, which is none of {sorted(_KINDS)}. Upgrade skinnytrees to read it."
    )
    estimator = _KINDS[kind]()
    for name, value in state.items():
        setattr(estimator, name, value)
    return estimator
