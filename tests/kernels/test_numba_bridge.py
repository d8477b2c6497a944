"""Each trick that relies on private names of numba or llvmlite does what it claims with the installed versions."""

import ast
import ctypes
import os
import re
import signal
import threading
import time
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.compiler_lock import global_compiler_lock

import skinnytrees
from skinnytrees.kernels.compilation import kernel
from skinnytrees.kernels.numba_bridge import disk_cache, notice
from skinnytrees.kernels.numba_bridge.atomics import atomic_load, atomic_store, fetch_add
from skinnytrees.kernels.numba_bridge.calls import SameTypes, _kind, call
from skinnytrees.kernels.numba_bridge.gemm import add_product, add_product_ta, add_product_tb, refuse_64_bit_integers
from skinnytrees.kernels.numba_bridge.options import NO_PYTHON_ENTRY, QUICKER_TO_COMPILE
from skinnytrees.kernels.numba_bridge.pointers import pointer
from skinnytrees.kernels.numba_bridge.views import block_of, in_row, rows_of, top, whole

SOURCE = Path(skinnytrees.__file__).parent
PRIVATE = re.compile(r"(llvmlite|numba\.(core|extending|np|typed|experimental|targets|_.*))(\..*)?")


# ------------------------------------------------------------------------------------------------ one importer


def private_imports(file):
    """What a module imports of llvmlite and of numba beyond its documented top level."""
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [f"{node.value.id}.{node.attr}"]
        else:
            continue
        found += [name for name in names if PRIVATE.fullmatch(name)]
    return found


def test_only_the_bridge_imports_private_numba_and_llvmlite_names():
    by_file = {file.relative_to(SOURCE): private_imports(file) for file in SOURCE.rglob("*.py")}
    inside = {file: names for file, names in by_file.items() if file.parent == Path("kernels/numba_bridge")}
    outside = {file: names for file, names in by_file.items() if names and file not in inside}
    assert any(inside.values()), "the search finds those of the bridge"
    assert not outside


# ------------------------------------------------------------------------------------------------ options and cache


def test_options_reach_the_compiler():
    """A version that no longer knows an option refuses it, or drops it without a word, which is the case tested here."""

    @numba.njit(**QUICKER_TO_COMPILE, **NO_PYTHON_ENTRY)
    def twice(x):
        return 2 * x

    @numba.njit
    def plain(x):
        return 2 * x

    assert set(QUICKER_TO_COMPILE | NO_PYTHON_ENTRY) <= set(twice.targetoptions)
    twice.compile((numba.float64,))
    plain.compile((numba.float64,))
    ours, usual = (one.inspect_llvm((numba.float64,)) for one in (twice, plain))
    assert "cfunc" in usual
    assert "cfunc" not in ours, "no entry for C"
    assert "@_ZN7cpython" in usual
    assert "@_ZN7cpython" not in ours, "no entry for Python"


def test_kernels_do_not_count_references():
    """numba then refuses to return a view of an array, because nobody would own it: a sign that the option is known."""

    def first_row(A):
        return A[0]

    A = np.ones((2, 2))
    assert numba.njit(first_row)(A).tolist() == [1.0, 1.0]
    with pytest.raises(numba.TypingError, match="Only accept returning of array passed into the function"):
        numba.njit(**QUICKER_TO_COMPILE)(first_row)(A)


def test_cache_depends_on_the_whole_package_and_on_the_functions_own_file(tmp_path, monkeypatch):
    """Without this private attribute of numba's cache, a kernel would go on with old versions of kernels that it calls."""
    assert type(scaled_by._cache._cache_file) is disk_cache.CheckedCacheFile

    def cache_file(own_stamp):
        return disk_cache.CheckedCacheFile(str(tmp_path), "function", own_stamp)

    cache_file("own").save("key", "data")
    assert cache_file("own").load("key") == "data"
    assert cache_file("own").load("other key") is None
    assert cache_file("changed").load("key") is None
    monkeypatch.setattr(disk_cache, "_package_stamp", lambda: "changed")
    assert cache_file("own").load("key") is None


# ------------------------------------------------------------------------------------------------ calls


@kernel
def scaled_by(pair, factor):
    return pair[0][0] * factor + pair[1][0]


def test_entry_points_take_what_the_dispatcher_takes():
    single, double = (np.array([2.0, 1.0], dtype=dtype) for dtype in (np.float32, np.float64))
    for first in (single, double, single[::-1], double[::2]):
        assert call(scaled_by, (first, double), 3.0) == scaled_by((first, double), 3.0)
    repeated = SameTypes()
    assert [repeated(scaled_by, (single, double), factor) for factor in (1.0, 2.0)] == [4.0, 6.0]


def test_arrays_of_other_types_get_machine_code_of_their_own():
    """A call with the code of another type would read wrong memory."""
    double = np.array([2.0, 1.0])
    frozen = double.copy()
    frozen.flags.writeable = False
    kinds = (double, double.astype(np.float32), double.astype(np.int64), frozen, np.arange(4.0)[::2], double[:, None])
    numba_types = [scaled_by.typeof_pyval(array) for array in kinds]
    assert len(set(numba_types)) == len(kinds)
    assert len({_kind(array) for array in kinds}) == len(kinds)


@numba.cfunc(numba.types.float64(numba.types.CPointer(numba.types.float64), numba.types.int64))
def sum_at(address, n):
    total = 0.0
    for x in numba.carray(address, n):
        total += x
    return total


@kernel
def sum_of_rows(function, A, first, end):
    return function(pointer(rows_of(A, first, end)), (end - first) * A.shape[1])


def test_pointer_is_the_address_of_an_arrays_first_element():
    A = np.arange(12.0).reshape(4, 3)
    assert call(sum_of_rows, sum_at, A, 1, 3) == A[1:3].sum()


# ------------------------------------------------------------------------------------------------ views


@kernel
def copies_of_views(A, tops, rows, block, everything, row):
    for target, source in ((tops, top(A, 2)), (rows, rows_of(A, 1, 3))):
        for i in range(source.shape[0]):
            for j in range(source.shape[1]):
                target[i, j] = source[i, j]
    for target, source in ((block, block_of(A, 1, 3, 2, 4)), (everything, whole(A))):
        for i in range(source.shape[0]):
            for j in range(source.shape[1]):
                target[i, j] = source[i, j]
    for j in range(in_row(A, 2, 1, 4).shape[0]):
        row[j] = in_row(A, 2, 1, 4)[j]


def test_views_are_the_slices_of_numpy():
    A = np.arange(20.0).reshape(4, 5)
    slices = A[:2], A[1:3], A[1:3, 2:4], A, A[2, 1:4]
    filled = [np.full(part.shape, np.nan) for part in slices]
    copies_of_views(A, *filled)
    for ours, numpys in zip(filled, slices, strict=True):
        np.testing.assert_array_equal(ours, numpys)


# ------------------------------------------------------------------------------------------------ BLAS


@kernel
def products(alpha, A, B, beta, plain, left, right):
    add_product(alpha, block_of(A, 1, 4, 0, 2), B, beta, plain)
    add_product_ta(alpha, A, A, beta, left)
    add_product_tb(alpha, A, A, beta, right)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_those_of_numpy(dtype):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(5, 3)).astype(dtype), rng.normal(size=(2, 4)).astype(dtype)
    alpha, beta = dtype(0.5), dtype(-2)
    before = [rng.normal(size=shape).astype(dtype) for shape in ((3, 4), (3, 3), (5, 5))]
    after = [array.copy() for array in before]
    products(alpha, A, B, beta, *after)
    for C, start, product in zip(after, before, (A[1:4, :2] @ B, A.T @ A, A @ A.T), strict=True):
        np.testing.assert_allclose(C, alpha * product + beta * start, rtol=1e-5)


@pytest.mark.parametrize(("integer", "is_refused"), [(ctypes.c_int32, False), (ctypes.c_int64, True)])
def test_blas_of_64_bit_integers_is_refused(integer, is_refused):
    """A dot product written in Python, of either kind of BLAS."""
    signature = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_void_p] * 5)

    @signature
    def dot(n, x, step_x, y, step_y):
        count = integer.from_address(n).value
        assert integer.from_address(step_x).value == integer.from_address(step_y).value == 1
        numbers = [ctypes.c_double.from_address(address).value for address in (x, y)]
        return numbers[0] * numbers[1] if count == 1 else 0.0

    if is_refused:
        with pytest.raises(ImportError, match=r"32-bit integers.*2 and 3 is 0\.0.*Install a scipy"):
            refuse_64_bit_integers(dot)
    else:
        refuse_64_bit_integers(dot)


# ------------------------------------------------------------------------------------------------ atomics


@kernel
def count_up(counters, n):
    for _ in range(n):
        fetch_add(counters, 1)


@kernel
def load_store_add(counters):
    atomic_store(counters, 2, 7)
    before = fetch_add(counters, 2)
    return before, atomic_load(counters, 2)


def test_atomic_operations_read_and_write_one_element():
    counters = np.zeros(4, dtype=np.int64)
    assert load_store_add(counters) == (7, 8)
    assert counters.tolist() == [0, 0, 8, 0]


def test_no_addition_of_several_threads_is_lost():
    counters = np.zeros(4, dtype=np.int64)
    threads = [threading.Thread(target=count_up, args=(counters, 200_000)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.tolist() == [0, 800_000, 0, 0]


# ------------------------------------------------------------------------------------------------ notice


def test_compilation_is_announced_once_per_process(capsys, monkeypatch):
    monkeypatch.setattr(notice, "_teller", notice._TellOnce())
    for _ in range(2):
        with notice.compilation_notice():
            numba.njit(lambda x: x + 1)(1.0)
    assert capsys.readouterr().err.count("compiling its kernels") == 1


# ------------------------------------------------------------------------------------------------ forks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_process_forked_while_a_thread_compiles_can_compile():
    """Otherwise it waits for ever for a lock that a thread of its parent has taken."""
    taken = threading.Event()

    def compile_something():
        with global_compiler_lock:
            taken.set()
            time.sleep(0.3)

    thread = threading.Thread(target=compile_something)
    thread.start()
    assert taken.wait(60)
    process = os.fork()
    if process == 0:
        signal.alarm(30)  # ends a process that waits
        os._exit(numba.njit(lambda x: x + 1)(41))
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 42
    thread.join()
