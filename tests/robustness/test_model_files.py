"""Damaged and edited model files: no crash, no wrong prediction, one kind of error, little memory."""

import io
import json
import tracemalloc

import numpy as np
import pytest
from model.make_data import FOLDER, predictions

from skinnytrees import load
from skinnytrees.exceptions import ModelFileError
from skinnytrees.model.storage import archive

from .files import as_npy, contents, opened, rezipped, zipped
from .fuzz_files import run


def test_hundreds_of_damaged_and_edited_files_are_refused_or_right():
    outcomes, findings = run(n_cases=400, seed=1)
    assert findings == []
    assert outcomes["refused"] > 200
    assert outcomes["same"] > 0, "some edits, such as those of a history, change no prediction"


@pytest.fixture(scope="module")
def whole():
    return (FOLDER / "classifier_format3.skinny").read_bytes()


def refuse(document, arrays, match):
    with pytest.raises(ModelFileError, match=match):
        load(io.BytesIO(archive.pack(document, arrays)))


# What could corrupt memory when shapes in a file were not compared: each once, by name.
@pytest.mark.parametrize(
    ("field", "change", "match"),
    [
        ("leaf_weights", lambda a: a[:, :-1], "make no perfect trees"),
        ("leaf_weights", lambda a: np.vstack([a, a]), "base has the shape"),
        ("base", lambda a: a[:1], "base has the shape"),
        ("split_weights", lambda a: a[:, :-1], "make no trees"),
        ("split_weights", lambda a: np.full_like(a, np.nan), "not finite"),
        ("split_weights", lambda a: np.full_like(a, 1e38), "so large"),
        ("split_weights", lambda a: a.astype(np.float64), "make no trees"),
        ("split_biases", lambda a: a[:-1], "make no trees"),
        ("encoder.means", lambda a: a[:-1], "one entry per design column"),
        ("encoder.scales", np.zeros_like, "not finite"),
        ("encoder.features", lambda a: a - 5, "feature or a level that cannot be"),
        ("encoder.features", lambda a: a + 100, "reads column"),
        ("encoder.features", lambda a: a.astype(np.int32), "one entry per design column"),
        ("encoder.is_level", lambda a: ~a, "two kinds at once"),
        ("encoder.group_offsets", lambda a: a[:-1], "do not cover"),
        ("encoder.curves.offsets", lambda a: a + 1, "do not fit together"),
        ("encoder.curves.knots", lambda a: a[::-1].copy(), "must be finite and increase"),
        ("encoder.curves.heights", lambda a: a[:-1], "do not fit together"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused_before_a_kernel_sees_them(field, change, match, whole):
    document, arrays = opened(whole)
    *holders, name = field.split(".")
    holder = document["learned"]["model"]
    for one in holders:
        holder = holder[one]
    arrays.append(change(arrays[holder[name]]))
    holder[name] = len(arrays) - 1
    refuse(document, arrays, match)


def test_a_truth_value_that_is_neither_true_nor_false_is_refused(whole):
    document, arrays = opened(whole)
    arrays[document["learned"]["model"]["encoder"]["is_level"]].view(np.uint8)[:] = 2
    refuse(document, arrays, "neither 0 nor 1")


def test_text_with_characters_that_do_not_exist_is_refused(whole):
    document, arrays = opened(whole)
    arrays[document["learned"]["classes"]["array"]].view(np.uint32)[:] = 0x110000
    with pytest.raises(ModelFileError, match="characters that do not exist"):
        load(io.BytesIO(archive.pack(document, arrays)))


@pytest.mark.parametrize("compression", [8, 12, 14])
def test_compressed_members_are_refused_before_they_are_read(compression, whole):
    with pytest.raises(ModelFileError, match="compressed"):
        load(io.BytesIO(zipped({**contents(whole), "zeros": bytes(2**20)}, compression)))


def test_members_that_nobody_asks_for_are_refused(whole):
    with pytest.raises(ModelFileError, match="nobody asks"):
        load(io.BytesIO(zipped({**contents(whole), "arrays/999.npy": bytes(100)})))


@pytest.mark.parametrize("depth", [400, 2_000, 100_000])
def test_a_deeply_nested_document_is_refused(depth, whole):
    nested = (
        b'{"format":3,"kind":"classifier","parameters":{"cv":'
        + b"[" * depth
        + b"]" * depth
        + b'},"learned":{},"arrays":[]}'
    )
    members = {"document.json": nested, "sha256": b""}
    with pytest.raises(ModelFileError):
        load(io.BytesIO(rezipped(members)))


@pytest.mark.parametrize(
    ("unit", "n"),
    [(b'{"":0}', 499_990), (b'"' + b"a" * 160_000 + "\U0001f333".encode() + b'"', 100)],
    ids=["dicts", "wide text"],
)
def test_a_document_just_within_the_limits_takes_less_than_200_mb(unit, n):
    document = b'{"format":3,"kind":[' + b",".join([unit] * n) + b'],"arrays":[],"learned":{},"parameters":{}}'
    assert len(document) > 0.9 * archive.MAX_DOCUMENT_BYTES or 2 * n > 0.99 * archive.MAX_VALUES
    file = io.BytesIO(rezipped({"document.json": document, "sha256": b""}))
    tracemalloc.start()
    with pytest.raises(ModelFileError):
        load(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6


def peak_of_refusal(file, match):
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=match):
            load(io.BytesIO(file))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def name_in_history(document, place, n):
    arrays = [{"is": "array", "array": place}] * n
    document["learned"]["history"] = {"is": "dict", "keys": [f"column {i}" for i in range(n)], "values": arrays}


def name_in_parameters(document, place, n):
    document["parameters"]["cv"] = [{"is": "array", "array": place}] * n


def name_in_path(document, place, n):
    document["learned"]["path"]["supports"] = [place] * n


def name_in_vocabulary(document, place, n):
    document["learned"]["vocabulary"] = {"columns": [0], "words": [[{"is": "number", "array": place}] * n]}


@pytest.mark.parametrize(
    ("name", "n_values", "n_times"),
    [
        (name_in_history, 2**17, 1000),
        (name_in_parameters, 2**17, 1000),
        (name_in_vocabulary, 2**17, 1000),
        (name_in_path, 2**17, 1000),
        (name_in_path, 1, 900_000),
    ],
)
def test_a_file_that_names_one_array_again_and_again_takes_less_than_200_mb(name, n_values, n_times, whole):
    document, arrays = opened(whole)
    name(document, len(arrays), n_times)
    assert peak_of_refusal(archive.pack(document, [*arrays, np.zeros(n_values)]), "names its arrays so often") < 200e6


def test_an_old_file_that_names_one_array_again_and_again_takes_less_than_200_mb():
    members = contents((FOLDER / "classifier_format2.skinny").read_bytes())
    description = json.loads(str(np.load(io.BytesIO(members["description.npy"]))))
    description["state"]["cv"] = [{"is": "array", "name": "zeros"}] * 1000
    edited = {"description.npy": as_npy(np.array(json.dumps(description))), "zeros.npy": as_npy(np.zeros(2**17))}
    assert peak_of_refusal(zipped({**members, **edited}), "names its arrays so often") < 200e6


def test_an_edit_of_a_history_changes_no_prediction(whole):
    document, arrays = opened(whole)
    place = document["learned"]["history"]["values"][1]["array"]
    arrays[place] = arrays[place] + 1
    model = load(io.BytesIO(archive.pack(document, arrays)))
    np.testing.assert_array_equal(predictions(model), predictions(load(io.BytesIO(whole))))
