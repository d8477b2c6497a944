"""Views of row-major matrices, at a fraction of what slices cost to compile: bounds are taken as they are.

Slices wrap negative bounds and clip others, in code of their own at every use. All bounds here come from loops over shapes.
"""

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from skinnytrees.kernels.compilation import part


@part
def top(A, n_rows):  # type: ignore[no-untyped-def]
    """A[:n_rows]."""
    return rows_of(A, 0, n_rows)


@part
def whole(A):  # type: ignore[no-untyped-def]
    """A, as a block: a kernel that takes blocks need not be compiled again for matrices of another layout."""
    return block_of(A, 0, A.shape[0], 0, A.shape[1])


@intrinsic
def rows_of(typingctx: Any, A: Any, first: Any, end: Any) -> Any:
    """A[first:end]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = context.make_array(A)(context, builder, args[0])
        n_columns = builder.extract_value(source.shape, 1)
        return _submatrix(context, builder, source, signature.return_type, (*args[1:], n_columns.type(0), n_columns))

    return A(A, types.intp, types.intp), codegen


@intrinsic
def block_of(typingctx: Any, A: Any, first_row: Any, end_row: Any, first_column: Any, end_column: Any) -> Any:
    """A[first_row:end_row, first_column:end_column]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = context.make_array(A)(context, builder, args[0])
        return _submatrix(context, builder, source, signature.return_type, args[1:])

    return A.copy(layout="A")(A, *[types.intp] * 4), codegen


@intrinsic
def in_row(typingctx: Any, A: Any, row: Any, first: Any, end: Any) -> Any:
    """A[row, first:end]."""
    kind = A.copy(ndim=1, layout="C")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = context.make_array(A)(context, builder, args[0])
        row, first, end = args[1:]
        offset, column_stride = _offset(builder, source, row, first)
        return _make_view(context, builder, source, kind, offset, [builder.sub(end, first)], [column_stride])

    return kind(A, types.intp, types.intp, types.intp), codegen


def _submatrix(context: Any, builder: Any, source: Any, kind: Any, bounds: Any) -> Any:
    first_row, end_row, first_column, end_column = bounds
    offset, _ = _offset(builder, source, first_row, first_column)
    shape = [builder.sub(end_row, first_row), builder.sub(end_column, first_column)]
    return _make_view(context, builder, source, kind, offset, shape, cgutils.unpack_tuple(builder, source.strides))


def _offset(builder: Any, source: Any, row: Any, column: Any) -> tuple[Any, Any]:
    """Bytes from the first element to another one, and those between two columns."""
    row_stride, column_stride = cgutils.unpack_tuple(builder, source.strides)
    return builder.add(builder.mul(row, row_stride), builder.mul(column, column_stride)), column_stride


def _make_view(context: Any, builder: Any, source: Any, kind: Any, offset: Any, shape: Any, strides: Any) -> Any:
    view = context.make_array(kind)(context, builder)
    context.populate_array(
        view,
        data=cgutils.pointer_add(builder, source.data, offset),
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, strides),
        itemsize=source.itemsize,
        meminfo=source.meminfo,
        parent=source.parent,
    )
    return view._getvalue()
