"""Conversion of pipelines: registers converters of the classifier and the regressor with skl2onnx."""

from typing import Any

import numpy as np

from skinnytrees.estimators.classifier import SkinnyTreesClassifier
from skinnytrees.estimators.exporting import portable_model
from skinnytrees.estimators.regressor import SkinnyTreesRegressor
from skinnytrees.exceptions import refuse_unless
from skinnytrees.model.export.to_onnx import (
    DOUBLE,
    ML_DOMAIN,
    ML_OPSET,
    Graph,
    Node,
    add_model,
    import_extra,
    make_tensor,
)


def register_skl2onnx() -> None:
    """Let ``skl2onnx`` convert pipelines that hold a classifier or regressor of this library.

    Call it once before ``skl2onnx.to_onnx`` or ``skl2onnx.convert_sklearn``. A pipeline's model reads one table of numbers, or,
    where it is the only step, several inputs that are numbers and text.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skinnytrees import SkinnyTreesClassifier
    >>> from skinnytrees.estimators.onnx_pipelines import register_skl2onnx
    >>> register_skl2onnx()
    >>> from skl2onnx import to_onnx
    >>> X, y = load_wine(return_X_y=True)
    >>> model = SkinnyTreesClassifier(feature_budget=2, max_epochs=2, random_state=0)
    >>> pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    >>> converted = to_onnx(pipeline, X[:1].astype("float32"), options={"zipmap": False})
    >>> [output.name for output in converted.graph.output]
    ['label', 'probabilities']
    """
    skl2onnx = import_extra("skl2onnx")
    skl2onnx.update_registered_converter(
        SkinnyTreesClassifier,
        "SkinnyTreesClassifier",
        _shape_classifier,
        _convert,
        options={"zipmap": [True, False, "columns"], "nocl": [True, False]},
    )
    skl2onnx.update_registered_converter(SkinnyTreesRegressor, "SkinnyTreesRegressor", _shape_regressor, _convert)


def _shape_classifier(operator: Any) -> None:
    types, labels = import_extra("skl2onnx.common.data_types"), operator.raw_operator.classes_
    n_rows = operator.inputs[0].get_first_dimension()
    is_text = labels.dtype.kind not in "biuf"
    operator.outputs[0].type = (types.StringTensorType if is_text else types.Int64TensorType)([n_rows])
    operator.outputs[1].type = types.FloatTensorType([n_rows, len(labels)])


def _shape_regressor(operator: Any) -> None:
    types = import_extra("skl2onnx.common.data_types")
    n_outputs = len(operator.raw_operator.model_.base)
    operator.outputs[0].type = types.FloatTensorType([operator.inputs[0].get_first_dimension(), n_outputs])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add a fitted model to a graph that skl2onnx makes."""
    estimator = operator.raw_operator
    model = portable_model(estimator)
    graph = Graph(scope.get_unique_variable_name("skinnytrees") + "/")
    columns = _pick_columns(graph, estimator, operator.inputs)
    numbers = [
        graph.add("Cast", column, to=DOUBLE)
        for column, one in zip(columns, model.inputs, strict=True)
        if one.kind != "text"
    ]
    texts = [column for column, one in zip(columns, model.inputs, strict=True) if one.kind == "text"]
    names = [output.full_name for output in operator.outputs]
    add_model(graph, model, graph.join(numbers) if numbers else None, texts, names)
    container.initializers.extend(make_tensor(name, values) for name, values in graph.constants.items())
    for node in graph.nodes:
        _add_node(container, node)


def _pick_columns(graph: Graph, estimator: Any, inputs: Any) -> list[str]:
    """The columns that a model reads, from one or several inputs that make up the table side by side."""
    widths = [variable.type.shape[1] for variable in inputs]
    refuse_unless(
        sum(widths) == estimator.n_features_in_,
        f"The inputs have {sum(widths)} columns, but the model was fitted on {estimator.n_features_in_}. "
        "Give initial_types with all columns.",
    )
    starts, picked = np.cumsum([0, *widths]), []
    for k in estimator.model_.features.tolist():
        which = int(np.searchsorted(starts, k, side="right")) - 1
        name = inputs[which].full_name
        picked.append(name if widths[which] == 1 else graph.pick(name, [k - int(starts[which])]))
    return picked


def _add_node(container: Any, node: Node) -> None:
    # Left to itself, skl2onnx takes a version of ai.onnx.ml that it then calls unsupported.
    version = ML_OPSET if node.domain == ML_DOMAIN else None
    about = {"op_domain": node.domain, "op_version": version, "name": node.output}
    container.add_node(node.operator, list(node.inputs), [node.output], **about, **node.attributes)
