"""Prints the assembly of kernels, and of loops that are as they should not be, as JSON: for `test_assembly`.

Compiled for the processor of $NUMBA_CPU_NAME, and never run: the one at hand may lack its instructions.
"""

import inspect
import json

import numba
import numpy as np

from lowprec.kernels.engine import lower
from lowprec.kernels.random import philox_fill
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.spec import catalog
from lowprec.spec.projection import Projection

NEAREST, TO_ODD, STOCHASTIC = (
    Projection(),
    Projection(rounding="to_odd"),
    Projection(rounding="stochastic(8)"),
)

#: Source, target, projection, and the format of values to give back.
CONVERSIONS = {
    "encode_e4m3fn": (catalog.BINARY32, catalog.E4M3FN, NEAREST, None),
    "encode_e5m2": (catalog.BINARY32, catalog.E5M2, NEAREST, None),
    "encode_e2m1fn": (catalog.BINARY32, catalog.E2M1FN, NEAREST, None),
    "encode_bfloat16": (catalog.BINARY32, catalog.BFLOAT16, NEAREST, None),
    "encode_binary16": (catalog.BINARY32, catalog.BINARY16, NEAREST, None),
    "encode_to_odd": (catalog.BINARY32, catalog.E4M3FN, TO_ODD, None),
    "encode_stochastic": (catalog.BINARY32, catalog.E4M3FN, STOCHASTIC, None),
    "decode_e4m3fn": (catalog.E4M3FN, catalog.BINARY32, NEAREST, None),
    "quantize_e4m3fn": (catalog.BINARY32, catalog.E4M3FN, NEAREST, catalog.BINARY32),
}


def assembly_of(function, *arguments):
    """What a function becomes for these arguments."""
    compiled = numba.njit(nogil=True)(function.py_func)
    compiled.compile(tuple(map(numba.typeof, arguments)))
    (text,) = compiled.inspect_asm().values()
    return text


def conversion(source, target, rule, carrier):
    """The assembly of the kernel that serves a conversion."""
    way = lower(Elementwise(CONVERT, (source,), target, rule, carrier))
    codes, out = (np.zeros(64, f"u{fmt.code_bits // 8}") for fmt in (source, carrier or target))
    return assembly_of(way.kernels[1], way.plan, np.zeros(0, np.uint32), codes, out)


def philox():
    """The assembly of what draws random words."""
    words, first, key = np.empty(64, np.uint32), np.uint64(0), np.uint64(7)
    given = {"out": words, "first": first, "key": key, "stream": np.uint64(0), "bits": np.uint32(8)}
    return assembly_of(philox_fill, *map(given.get, inspect.signature(philox_fill.py_func).parameters))


# -- loops as they should not be, and one that is right -----------------------------------------------


@numba.njit
def shifted_in_wide_lanes(words, out, places):
    """In numba a uint32 shifted by a uint32 is a uint64, and LLVM cannot know that `places` is below 32."""
    for i in range(words.size):
        out[i] = np.uint32(words[i] >> places[0])


@numba.njit
def shifted_in_narrow_lanes(words, out, places):
    """The same, and now it can."""
    for i in range(words.size):
        out[i] = np.uint32(words[i] >> np.uint32(places[0] & np.uint32(31)))


@numba.njit
def one_after_the_other(words, out, places):
    """Each element needs the one before."""
    last = places[0]
    for i in range(words.size):
        last = np.uint32(last * np.uint32(5) ^ words[i])
        out[i] = last


def loop(function):
    """The assembly of one of these."""
    words = np.ones(64, np.uint32)
    return assembly_of(function, words, np.empty(64, np.uint32), words[:1].copy())


if __name__ == "__main__":
    loops = (shifted_in_wide_lanes, shifted_in_narrow_lanes, one_after_the_other)
    print(
        json.dumps(
            {
                "kernels": {name: conversion(*way) for name, way in CONVERSIONS.items()},
                "philox": philox(),
                "loops": {function.__name__: loop(function) for function in loops},
            }
        )
    )
