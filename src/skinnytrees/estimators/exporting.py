"""``export`` of the estimators: what they know about their columns, handed to ``skinnytrees.model.export``."""

from typing import Any

from sklearn.utils.validation import check_is_fitted

from skinnytrees.exceptions import refuse_unless
from skinnytrees.model.export import PortableModel, describe, export_model
from skinnytrees.model.storage import File
from skinnytrees.tables.frames import is_frame


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
            The format, where the suffix does not tell it.
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
        return {one.name: list(X[one.name]) for one in model.inputs}
    refuse_unless(
        getattr(X, "shape", (0, 0))[1:] == (estimator.n_features_in_,),
        f"X must have the {estimator.n_features_in_} columns of the fit, but its shape is {getattr(X, 'shape', None)}. "
        "Give a frame, or an array with all columns.",
    )
    chosen = X[:, estimator.model_.features]
    dense = chosen.toarray() if hasattr(chosen, "toarray") else chosen
    return {one.name: dense[:, k].tolist() for k, one in enumerate(model.inputs)}
