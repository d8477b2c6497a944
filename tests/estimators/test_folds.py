"""Folds of the user that cannot be used are refused before anything is trained."""

import pytest
from sklearn.datasets import load_wine

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor

X, Y = (part[::3] for part in load_wine(return_X_y=True))


def test_more_folds_than_rows_are_refused():
    for model in (SkinnyTreesClassifier(cv=61), SkinnyTreesRegressor(cv=61)):
        with pytest.raises(
            ValueError, match=r"cv=61 asks for more folds than there are rows \(60\)\. Use a number up to 60"
        ):
            model.fit(X, Y)


@pytest.mark.parametrize(
    ("cv", "words"),
    [
        ([(range(30),)], r"not all pairs\. Give \(rows to train on, rows to hold out\)"),
        ([range(30)], "not all pairs"),
        ([(range(40), range(35, 60))], "holds out 5 of the rows it trains on"),
    ],
)
def test_folds_that_are_no_pairs_or_share_rows_are_refused(cv, words):
    with pytest.raises(ValueError, match=words):
        SkinnyTreesClassifier(cv=cv).fit(X, Y)
