"""Views of row-major matrices, at a fraction of what slices cost to compile: bounds are taken as they are.

Why: slices wrap negative bounds and clip others, in code of their own at every use. All bounds here come from loops over shapes.
"""

from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic

_INT = types.intp


@intrinsic
def top(typingctx: Any, A: Any, n_rows: Any) -> Any:
    """A[:n_rows]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _submatrix(context, builder, signature, args[0], None, args[1])

    return A(A, _INT), codegen


@intrinsic
def rows_of(typingctx: Any, A: Any, first: Any, end: Any) -> Any:
    """A[first:end]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _submatrix(context, builder, signature, *args)

    return A(A, _INT, _INT), codegen


@intrinsic
def block_of(typingctx: Any, A: Any, first_row: Any, end_row: Any, first_column: Any, end_column: Any) -> Any:
    """A[first_row:end_row, first_column:end_column]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _submatrix(context, builder, signature, *args)

    return A.copy(layout="A")(A, _INT, _INT, _INT, _INT), codegen


@intrinsic
def whole(typingctx: Any, A: Any) -> Any:
    """A, as a block: a kernel that takes blocks need not be compiled again for matrices of another layout."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _submatrix(context, builder, signature, args[0])

    return A.copy(layout="A")(A), codegen


@intrinsic
def in_row(typingctx: Any, A: Any, row: Any, first: Any, end: Any) -> Any:
    """A[row, first:end]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, row, first, end = args
        source = context.make_array(A)(context, builder, args[0])
        strides = cgutils.unpack_tuple(builder, source.strides)
        return _view(context, builder, signature, source, [row, first], [builder.sub(end, first)], strides, strides[1:])

    return A.copy(ndim=1, layout="C")(A, _INT, _INT, _INT), codegen


def _submatrix(context: Any, builder: Any, signature: Any, A: Any, first_row: Any = None, end_row: Any = None,
               first_column: Any = None, end_column: Any = None) -> Any:  # fmt: skip
    source = context.make_array(signature.args[0])(context, builder, A)
    n_rows, n_columns = cgutils.unpack_tuple(builder, source.shape)
    first = [n_rows.type(0) if bound is None else bound for bound in (first_row, first_column)]
    end = [n if bound is None else bound for n, bound in ((n_rows, end_row), (n_columns, end_column))]
    shape = [builder.sub(after, before) for before, after in zip(first, end, strict=True)]
    strides = cgutils.unpack_tuple(builder, source.strides)
    return _view(context, builder, signature, source, first, shape, strides, strides)


def _view(
    context: Any, builder: Any, signature: Any, source: Any, first: Any, shape: Any, steps: Any, strides: Any
) -> Any:
    """The view that begins ``first`` steps from the source's first element."""
    row, column = (builder.mul(n, step) for n, step in zip(first, steps, strict=True))
    view = context.make_array(signature.return_type)(context, builder)
    context.populate_array(
        view,
        data=cgutils.pointer_add(builder, source.data, builder.add(row, column)),
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, strides),
        itemsize=source.itemsize,
        meminfo=source.meminfo,
        parent=source.parent,
    )
    return impl_ret_borrowed(context, builder, signature.return_type, view._getvalue())
