"""Reading a model file back into an estimator."""

from skinnytrees.estimators.classifier import SkinnyTreesClassifier
from skinnytrees.estimators.regressor import SkinnyTreesRegressor
from skinnytrees.estimators.saving import from_saved
from skinnytrees.exceptions import refuse_unless
from skinnytrees.model import storage

_KINDS: dict[str, type[SkinnyTreesClassifier] | type[SkinnyTreesRegressor]] = {
    "classifier": SkinnyTreesClassifier,
    "regressor": SkinnyTreesRegressor,
}


def load(file: storage.File) -> SkinnyTreesClassifier | SkinnyTreesRegressor:
    """Read an estimator that ``save`` has written.

    Parameters
    ----------
    file : str, path or binary file
        Where it is.

    Returns
    -------
    SkinnyTreesClassifier or SkinnyTreesRegressor
        Fitted, with all its sizes, unless it was saved without them.

    Raises
    ------
    ModelFileError
        A ``ValueError``: the file is damaged, or no model file, or of a newer version. Everything in a file is checked before
        it is used, and no code is run from it.

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
    saved = storage.read(file)
    with storage.refusing(file):
        refuse_unless(saved.kind in _KINDS, f"it holds a {str(saved.kind)[:60]!r}, which is none of {sorted(_KINDS)}")
        return from_saved(_KINDS[saved.kind](), saved)
