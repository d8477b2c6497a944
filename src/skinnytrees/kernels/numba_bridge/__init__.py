"""The only package that knows private names of numba and llvmlite.

One file per trick. Each says why it is there, ``tests/kernels/test_numba_bridge.py`` fails loudly when a version of numba changes
what it relies on, and ``benchmarks/bridge_tricks.py`` measures whether it is still faster.

===============  ===============================================================================
``options``      compiler options that numba does not document
``disk_cache``   a cache of compiled kernels that any change of the package outdates, with check sums
``calls``        calls that do not look up the type of every array in every tuple
``pointers``     addresses of arrays, as functions with a C signature take them
``views``        views of matrices without the wrapping and clipping of slices
``gemm``         BLAS products with alpha and beta, into blocks of existing arrays
``atomics``      atomic loads, stores and additions
``forks``        processes that are forked while another thread compiles
``notice``       a line on standard error when kernels have to be compiled
===============  ===============================================================================
"""
