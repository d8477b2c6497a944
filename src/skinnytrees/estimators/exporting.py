"""``export`` of the estimators: what they know about their columns, handed to ``skinnytrees.model.export``."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skinnytrees.exceptions import refuse_unless
from skinnytrees.model.export import PortableModel, describe, export_model
from skinnytrees.model.storage import File
from skinnytrees.tables.frames import Vocabulary, is_frame, read_table


class ExportMixin:
    """Gives an estimator ``export``."""

    def export(self, file: File, *, format: str | None = None, **options: Any) -> None:
        """Write the fitted model in a format that other programs read.

        Parameters
        ----------
        file : str, path or binary file
            Where to. The suffix chooses the format: ``.onnx``, ``.sql``, ``.c``, ``.js``, ``.html`` (a page that computes
            predictions) or ``.csv`` (the panel, one row per column).
        format : {"onnx", "sql", "c", "js", "html", "csv"} or None, default=None
            The format, where it is not that of the suffix.
        **options
            Options of the format; one that the format does not have is refused.

            - onnx: ``input_type="float"`` or ``"double"``, the type of inputs that are numbers.
            - sql: ``table="data"``, the table to read, and ``key="id"``, a column that the result repeats.
            - html: ``title``, ``target`` (what is predicted), ``target_unit``, ``units={column: unit}``, and ``X``, rows
              that typical values and ranges are taken from.
            - csv: ``units`` and ``X``, as for html.

        Notes
        -----
        Every file computes the same predictions as the estimator, from the selected columns only, up to the rounding of single
        precision. Missing values and unknown categories are treated as in Python.

        Examples
        --------
        >>> from io import BytesIO
        >>> from sklearn.datasets import load_wine
        >>> from skinnytrees import SkinnyTreesClassifier
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> model = SkinnyTreesClassifier(feature_budget=2, max_epochs=2, random_state=0).fit(X, y)
        >>> file = BytesIO()  # or a path, such as "panel.csv"
        >>> model.export(file, format="csv")
        >>> file.getvalue().decode("utf-8-sig").splitlines()[0].split(",")[:5]
        ['column', 'kind', 'unit', 'location', 'scale']
        """
        portable = portable_model(self)
        if options.get("X") is not None:
            options = {**options, "X": _selected_columns(self, options["X"], portable)}
        export_model(portable, file, format, options)


def portable_model(estimator: Any) -> PortableModel:
    """A fitted estimator as plain data."""
    check_is_fitted(estimator, "model_")
    names = estimator._names()
    return describe(
        estimator.model_,
        [f"x{k}" for k in range(estimator.n_features_in_)] if names is None else names,
        {} if estimator._vocabulary is None else estimator._vocabulary.words,
        estimator._loss(),
        getattr(estimator, "classes_", ()),
    )


def _selected_columns(estimator: Any, X: Any, model: PortableModel) -> dict[str, list[Any]]:
    """The model's inputs in a table, column by column."""
    if is_frame(X):
        absent = [one.name for one in model.inputs if one.name not in X.columns]
        refuse_unless(not absent, f"X does not have the columns {absent}, which the model reads. Add them.")
        numbers = [one.name for one in model.inputs if one.kind == "number"]
        # Read as in prediction, times as seconds; categories stay what they are.
        read = read_table(estimator, X[numbers], Vocabulary({})) if numbers else np.empty((len(X), 0))
        return {one.name: list(X[one.name]) for one in model.inputs} | dict(zip(numbers, read.T.tolist(), strict=True))
    n_all, n_selected, shape = estimator.n_features_in_, len(model.inputs), getattr(X, "shape", None)
    refuse_unless(
        shape is not None and shape[1:] in ((n_all,), (n_selected,)),
        f"X must have the {n_all} columns of the fit or the {n_selected} selected ones, but its shape is {shape}. "
        "Give a frame, or such an array.",
    )
    chosen = X[:, estimator.model_.features] if X.shape[1] == n_all else X
    dense = chosen.toarray() if hasattr(chosen, "toarray") else chosen
    return {one.name: dense[:, k].tolist() for k, one in enumerate(model.inputs)}
