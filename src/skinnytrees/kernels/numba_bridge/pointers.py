"""Addresses of arrays inside kernels.

Why: a function that a kernel takes as an argument (a loss, an activation) has a C signature, hence addresses instead of arrays.
``array.ctypes``, which is documented, does the same; it takes 2 to 4 % longer to compile a first fit.
"""

from typing import Any

from numba import types
from numba.extending import intrinsic


@intrinsic
def pointer(typingctx: Any, array: Any) -> Any:
    """Address of an array's first element, as function arguments take it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), codegen
