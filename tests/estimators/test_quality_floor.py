"""A floor under the default fit on bundled data: a change that silently costs accuracy fails here.

The floors lie below what several seeds gave when they were written (AUC 0.98, 1.00 and 1.00, R2 0.32 to 0.34), so chance does not
reach them.
"""

import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.metrics import log_loss, r2_score, roc_auc_score
from sklearn.model_selection import train_test_split

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor

CLASSES = {
    # loader: budget, least AUC, largest log-loss
    load_breast_cancer: (3, 0.96, 0.25),
    load_wine: (3, 0.97, 0.35),
    load_digits: (16, 0.98, 0.45),
}


@pytest.mark.slow
@pytest.mark.parametrize("load", CLASSES, ids=lambda load: load.__name__)
def test_default_classifier_ranks_and_is_calibrated_on_rows_it_has_not_seen(load):
    budget, least_auc, most_loss = CLASSES[load]
    X, y = load(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    model = SkinnyTreesClassifier(budget, random_state=0).fit(X, y)
    probability = model.predict_proba(X_test)
    ranked = probability[:, 1] if probability.shape[1] == 2 else probability
    assert model.n_features_selected_ <= budget
    assert roc_auc_score(y_test, ranked, multi_class="ovo") > least_auc
    assert log_loss(y_test, probability) < most_loss


@pytest.mark.slow
def test_default_regressor_explains_what_few_columns_can():
    X, y = load_diabetes(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
    model = SkinnyTreesRegressor(4, random_state=0).fit(X, y)
    assert model.n_features_selected_ <= 4
    assert r2_score(y_test, model.predict(X_test)) > 0.27
