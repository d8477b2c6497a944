"""Damaged and edited model files, drawn from a seed.

Most of them are built so that neither the checks of the zip archive nor the check sum of the document notice: the archive is
written anew, and the check sum is computed anew. What is left to refuse them is the schema. A few kinds are damage as it happens:
flipped bits, truncated files, members that are swapped, and archives that ask for much memory.
"""

import copy
import io
import json
import math
import zipfile
from typing import NamedTuple

import numpy as np

from skinnytrees.model.storage import archive

# What stands in for a value of a document. Numbers are near the limits of types and arrays.
STRANGE_VALUES = [
    None, True, False, 0, 1, -1, 2, 7, 1e308, -0.5, 2**31, 2**63, 10**30, "", "nan", "a" * 300, "predict", [], {}, [[]],
    [None], {"is": "array", "array": 0}, {"is": "array", "array": 10**9}, {"is": "array", "array": -1}, {"is": "dict"},
    {"is": "objects", "shape": [10**12], "items": []}, {"is": "objects", "shape": [-1], "items": [1]},
    {"is": "float", "value": "inf"}, {"is": "float", "value": "1e9"}, {"is": "tuple", "items": [[]]},
    {"is": "set", "items": [[]]}, {"is": "penalty", "name": "group_l0", "fields": {"gamma": -1}},
    {"is": "activation", "name": "sigmoid", "fields": {"theta": 1e-300}}, {"is": "loss", "name": "__class__", "fields": {}},
    {"is": "activation", "name": "sigmoid", "fields": {"theta": "soft"}}, {"is": "Popen", "fields": {"args": "true"}},
]  # fmt: skip
STRANGE_NUMBERS = [np.nan, np.inf, -np.inf, -1, 0, 1, 5, 2**31, -(2**40), 3e38, 1e-320, -1e-30, 0.5]
DTYPES = ["<f8", "<f4", "<f2", "<i8", "<i4", "<u2", "|b1", "<U3", "|S2", "<M8[ns]"]


class Case(NamedTuple):
    """A file and what was done to it."""

    what: str
    content: bytes


def cases(whole: bytes, n_cases: int, seed: int):
    """Yield damaged and edited versions of a file, the kinds in turn."""
    rng = np.random.default_rng(seed)
    is_old = "description.npy" in zipfile.ZipFile(io.BytesIO(whole)).namelist()
    kinds = OLD_KINDS if is_old else KINDS
    for i in range(n_cases):
        kind = kinds[i % len(kinds)]
        yield Case(f"{kind.__name__} (seed {seed}, case {i})", kind(whole, rng))


# --- edits behind which the check sum is right ------------------------------------------------------------------------


def edit_array(whole, rng):
    """An array gets another shape, type, or value."""
    document, arrays = opened(whole)
    place = rng.integers(len(arrays))
    arrays[place] = strange_array(arrays[place], rng)
    return archive.pack(document, arrays)


def edit_field(whole, rng):
    """A field of the document gets another value, goes, or is added."""
    document, arrays = opened(whole)
    edit_somewhere(document, rng)
    return archive.pack(document, arrays)


def edit_twice(whole, rng):
    """A field and an array."""
    return edit_field(edit_array(whole, rng), rng)


def swap_arrays(whole, rng):
    """Two arrays change places: both are sound, but in the wrong room."""
    document, arrays = opened(whole)
    i, j = rng.choice(len(arrays), 2, replace=False)
    arrays[i], arrays[j] = arrays[j], arrays[i]
    return archive.pack(document, arrays)


def edit_declaration(whole, rng):
    """The declared types and shapes differ from what the members hold."""
    members = contents(whole)
    document = json.loads(members["document.json"])
    edit_somewhere(document["arrays"], rng)
    return rezipped(members, json.dumps(document).encode())


def edit_header(whole, rng):
    """The header of an array's member differs from its declaration."""
    members = contents(whole)
    name = rng.choice([name for name in members if name.endswith(".npy")])
    data = bytearray(members[name])
    data[rng.integers(80)] = rng.integers(256)
    return rezipped({**members, str(name): bytes(data)})


# --- damage -----------------------------------------------------------------------------------------------------------


def flip_bits(whole, rng):
    """Some bits, anywhere."""
    data = bytearray(whole)
    for place in rng.integers(len(data), size=rng.integers(1, 5)):
        data[place] ^= 1 << rng.integers(8)
    return bytes(data)


def flip_in_member(whole, rng):
    """A bit in a member, whose check sum in the archive is computed anew."""
    members = contents(whole)
    name = str(rng.choice(list(members)))
    data = bytearray(members[name])
    data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    return zipped({**members, name: bytes(data)})


def truncate(whole, rng):
    """The end is missing."""
    return whole[: rng.integers(len(whole))]


def drop_or_add_member(whole, rng):
    """A member is missing, or there is one more."""
    members = contents(whole)
    if rng.random() < 0.5:
        members.pop(str(rng.choice(list(members))))
    else:
        members[str(rng.choice(["arrays/9999.npy", "more.npy", "../outside", "description.npy"]))] = bytes(1000)
    return zipped(members)


def bomb(whole, rng):
    """An archive that asks for much memory or a deep stack."""
    members, kind = contents(whole), rng.integers(5)
    if kind == 0:  # compressed zeros that nobody asks for
        return zipped({**members, "zeros.npy": bytes(2**24)}, compression=zipfile.ZIP_DEFLATED)
    if kind == 1:  # nested beyond the stack
        depth = int(rng.integers(900, 200_000))
        return rezipped(members, b'{"format":3,"kind":' + b"[" * depth + b"]" * depth + b',"arrays":[]}')
    if kind == 2:  # many small values
        return rezipped(members, b'{"format":3,"kind":[' + b"{}," * 3_000_000 + b'0],"arrays":[]}')
    document, arrays = opened(whole)
    if kind == 3:  # a table with more columns than there are bytes
        document["learned"]["n_features"] = int(10 ** rng.integers(6, 15))
        return archive.pack(document, arrays)
    declared = json.loads(members["document.json"])
    declared["arrays"][rng.integers(len(declared["arrays"]))] = {"dtype": "<f8", "shape": [2**20, 2**20]}
    return rezipped(members, json.dumps(declared).encode())


# --- files of earlier formats, which have no check sum ----------------------------------------------------------------


def edit_old_array(whole, rng):
    """An array of an old file gets another shape, type, or value."""
    members = contents(whole)
    name = str(rng.choice([name for name in members if name != "description.npy"]))
    array = np.load(io.BytesIO(members[name]), allow_pickle=False)
    return zipped({**members, name: as_npy(strange_array(array, rng))})


def edit_old_field(whole, rng):
    """A field of an old description gets another value, goes, or is added."""
    members = contents(whole)
    description = json.loads(str(np.load(io.BytesIO(members["description.npy"]))))
    edit_somewhere(description, rng)
    return zipped({**members, "description.npy": as_npy(np.array(json.dumps(description)))})


def edit_old_header(whole, rng):
    """The header of an array has another character."""
    return edit_member_start(whole, rng)


KINDS = (
    edit_array, edit_field, edit_twice, swap_arrays, edit_declaration, edit_array, edit_field, edit_header, flip_in_member,
    flip_bits, truncate, drop_or_add_member, bomb,
)  # fmt: skip
OLD_KINDS = (edit_old_array, edit_old_field, edit_old_header, flip_bits, truncate)


# --- how they are made ------------------------------------------------------------------------------------------------


def strange_array(array, rng):
    """An array like this one, but for its shape, its type or one value."""
    kind = rng.integers(7)
    if kind == 0 and array.size:
        array = array.copy()
        place = tuple(rng.integers(size) for size in array.shape)
        with np.errstate(all="ignore"):
            strange = np.array(STRANGE_NUMBERS)[rng.integers(len(STRANGE_NUMBERS))]
            array[place] = (
                np.nan_to_num(strange).astype(array.dtype)
                if array.dtype.kind in "iub"
                else str(strange)
                if (array.dtype.kind in "US")
                else strange.astype(array.dtype)
            )
        return array
    if kind == 1 and array.ndim and len(array):
        return array[: rng.integers(len(array))]
    if kind == 2 and array.ndim:
        return np.concatenate([array, array[:1]])
    if kind == 3 and array.ndim:
        return array[..., : rng.integers(array.shape[-1] + 1)]
    if kind == 4:
        return array.reshape(-1) if array.ndim > 1 else array[None]
    if kind == 5:
        dtype = DTYPES[rng.integers(len(DTYPES))]
        return np.zeros(array.shape, dtype=dtype)
    return array[::-1] if array.ndim else np.stack([array, array])


def edit_somewhere(value, rng):
    """Change one of the values within a nest of lists and dicts, each as likely as any other."""
    places = [(value, key) for value, key in walk(value)]
    holder, key = places[rng.integers(len(places))]
    kind = rng.integers(4)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[f"{key}_"] = holder[key]
    elif kind == 2 and type(holder[key]) in (int, float) and math.isfinite(holder[key]):
        holder[key] = holder[key] + int(rng.integers(-3, 4))
    else:
        holder[key] = copy.deepcopy(STRANGE_VALUES[rng.integers(len(STRANGE_VALUES))])


def walk(value):
    """Every place of a nest, as its holder and its key."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from walk(value[key])


def edit_member_start(whole, rng):
    members = contents(whole)
    name = str(rng.choice([name for name in members if name.endswith(".npy")]))
    data = bytearray(members[name])
    data[rng.integers(min(128, len(data)))] = rng.integers(256)
    return zipped({**members, name: bytes(data)})


def opened(whole):
    return archive.unpack(archive.Members(whole))


def contents(whole):
    with zipfile.ZipFile(io.BytesIO(whole)) as opened_archive:
        return {name: opened_archive.read(name) for name in opened_archive.namelist()}


def zipped(members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as new:
        for name, data in members.items():
            new.writestr(name, data)
    return file.getvalue()


def rezipped(members, document=None):
    """An archive of these members with the right check sum."""
    members = {**members, "document.json": members["document.json"] if document is None else document}
    arrays = sorted((name for name in members if name.startswith("arrays/")), key=lambda name: int(name[7:-4]))
    values = [members[name][10 + int.from_bytes(members[name][8:10], "little") :] for name in arrays]
    members["sha256"] = archive._checksum([members["document.json"], *values]).encode()
    return zipped(members)


def as_npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()
