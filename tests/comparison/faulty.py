"""Systems that fail in all the ways that a comparison must survive."""

import os
import signal
import time
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.linear_model import LogisticRegression


class FirstColumns(ClassifierMixin, SelectorMixin, BaseEstimator):
    """Logistic regression on the first columns: quick, and it works."""

    def __init__(self, feature_budget=None):
        self.feature_budget = feature_budget

    def fit(self, X, y):
        self.n_features_in_, self.classes_ = X.shape[1], np.unique(y)
        self.model_ = LogisticRegression(max_iter=1000).fit(X[:, : self.feature_budget], y)
        return self

    def _get_support_mask(self):
        return np.arange(self.n_features_in_) < self.feature_budget

    def predict_proba(self, X):
        return self.model_.predict_proba(X[:, : self.feature_budget])

    def predict(self, X):
        return self.model_.predict(X[:, : self.feature_budget])


class Raises(FirstColumns):
    def fit(self, X, y):
        raise RuntimeError("the moon is in the wrong phase")


class SleepsForEver(FirstColumns):
    def fit(self, X, y):
        while True:
            time.sleep(1)


class LeavesItsNumber(FirstColumns):
    """Writes the number of its process to the file that the environment names, and sleeps for ever."""

    def fit(self, X, y):
        Path(os.environ["NUMBER_OF_PROCESS"]).write_text(str(os.getpid()))
        SleepsForEver.fit(self, X, y)


class TakesAllMemory(FirstColumns):
    def fit(self, X, y):
        return np.ones(100 * 2**30 // 8)


class IsKilled(FirstColumns):
    def fit(self, X, y):
        os.kill(os.getpid(), signal.SIGKILL)
