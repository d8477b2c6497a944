"""A step's products in pieces that other threads may take, without waiting for a thread that has not come.

The thread that trains puts up the pieces of a product and takes one after the other; so does every helper that finds some
left. It waits only for pieces that a helper has begun, so a helper that gets no core costs nothing, and with no helper at all
the way is the same. What the pieces are depends on the size of the product alone: results have the same bits whoever computes
them.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from skinnytrees.kernels.active_set import add_scores, step_on_blocks
from skinnytrees.kernels.compilation import inner_kernel, kernel, part
from skinnytrees.kernels.state import Active, Trees, Workspace

# A ticket holds the number of pieces above, and below it the next piece that nobody has taken. Whoever takes one counts it up,
# a late comer even beyond the last piece; so it says nothing else.
_PIECES_FROM = 16
_LOW_BITS = (1 << _PIECES_FROM) - 1
# Places of a board's state; the last stands in a cache line of its own.
_TICKET, _CLOSED, _DONE = 0, 1, 8
_SCORES, _STEP = 0, 1
# About a millisecond of looking for work; then a helper lets others have the core for a moment.
_LOOKS = 500_000


class Board(NamedTuple):
    """Where pieces are put up."""

    state: NDArray[np.int64]  # the ticket, whether the board is closed, and how many pieces are done
    product: NDArray[np.int64]  # which of the two, and of how many rows
    numbers: NDArray[np.float64]  # shrink, eta, hard and soft of a gradient step


def make_board() -> Board:
    """A board without pieces."""
    return Board(np.zeros(16, np.int64), np.zeros(2, np.int64), np.zeros(4))


def close(board: Board) -> None:
    """Send the helpers home."""
    board.state[_CLOSED] = 1


def help_until_closed(board: Board, trees: Trees, active: Active, work: Workspace, rest: Any) -> None:
    """Take pieces for as long as the board is open; after a while without any, ``rest``."""
    while look_for_pieces(board, trees, active, work):
        rest()


@part
def share_scores(board, n_pieces, n_rows, trees, active, work):  # type: ignore[no-untyped-def]
    """S <- S + X W."""
    _share(board, n_pieces, n_rows, _SCORES, 0.0, 0.0, 0.0, 0.0, trees, active, work)


@part
def share_step(board, n_blocks, n_rows, trees, active, work, shrink, eta, hard, soft):  # type: ignore[no-untyped-def]
    """The gradient step and the threshold on all blocks."""
    _share(board, n_blocks, n_rows, _STEP, shrink, eta, hard, soft, trees, active, work)


@part
def _share(board, n_pieces, n_rows, product, shrink, eta, hard, soft, trees, active, work):  # type: ignore[no-untyped-def]
    board.product[0], board.product[1] = product, n_rows
    board.numbers[0], board.numbers[1], board.numbers[2], board.numbers[3] = shrink, eta, hard, soft
    _put(board.state, _DONE, 0)
    _put(board.state, _TICKET, n_pieces << _PIECES_FROM)
    _take_pieces(board, trees, active, work)
    while _look(board.state, _DONE) < n_pieces:
        pass


@kernel
def look_for_pieces(board, trees, active, work):  # type: ignore[no-untyped-def]
    """Take what pieces there are; False once the board is closed, True after a while without work."""
    looks = 0
    while looks < _LOOKS and _look(board.state, _CLOSED) == 0:
        if _is_taken(_look(board.state, _TICKET)):
            looks += 1
        else:
            looks = 0
            _take_pieces(board, trees, active, work)
    return looks == _LOOKS


@inner_kernel
def _take_pieces(board, trees, active, work):  # type: ignore[no-untyped-def]
    while not _is_taken(_look(board.state, _TICKET)):
        ticket = _count(board.state, _TICKET)
        if _is_taken(ticket):
            return
        piece, n_pieces = ticket & _LOW_BITS, ticket >> _PIECES_FROM
        # Nobody changes the board before this piece is done.
        n_rows, numbers = board.product[1], board.numbers
        if board.product[0] == _SCORES:
            add_scores(piece, n_pieces, n_rows, trees, active, work)
        else:
            step_on_blocks(
                piece, piece + 1, n_rows, trees, active, work, numbers[0], numbers[1], numbers[2], numbers[3]
            )
        _count(board.state, _DONE)


@part
def _is_taken(ticket):  # type: ignore[no-untyped-def]
    return (ticket & _LOW_BITS) >= (ticket >> _PIECES_FROM)


# Reads and writes that several threads see in one order; numba itself has none for arrays.


def _place(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


@intrinsic
def _look(typingctx: Any, array: Any, at: Any) -> Any:
    """array[at]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_place(context, builder, signature, args), "seq_cst", align=8)

    return types.int64(array, types.intp), codegen


@intrinsic
def _put(typingctx: Any, array: Any, at: Any, value: Any) -> Any:
    """array[at] = value."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> None:
        builder.store_atomic(args[2], _place(context, builder, signature, args), "seq_cst", align=8)

    return types.void(array, types.intp, types.int64), codegen


@intrinsic
def _count(typingctx: Any, array: Any, at: Any) -> Any:
    """array[at] += 1; what it was before."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(context, builder, signature, args)
        return builder.atomic_rmw("add", place, ir.IntType(64)(1), "seq_cst")

    return types.int64(array, types.intp), codegen
