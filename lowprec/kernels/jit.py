"""How kernels are compiled: the one place that names numba.

`nogil`, so that threads run side by side. Never `fastmath`: it lets the compiler change results.
Compiled kernels are kept on disk by `cache`.

Floor 2b.
"""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.cpython.unsafe.numbers import leading_zeros
from numba.extending import intrinsic, lower_builtin, models, overload, register_model, type_callable
from numba.np.arrayobj import populate_array

from lowprec.kernels import compiling  # noqa: F401 - it watches numba compile
from lowprec.kernels.cache import DiskCache

__all__ = [
    "VectorType",
    "MODES",
    "bit_length",
    "boolean",
    "builtin",
    "elements",
    "exchange_modes",
    "from_stack",
    "has_half",
    "helper",
    "inlined",
    "ir",
    "jit",
    "memory",
    "on_stack",
    "word",
]

F = TypeVar("F", bound=Callable[..., object])

types: Any = numba.types

#: Nothing calls these but kernels: no way in from outside needs to be compiled.
_INTERNAL = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

#: The types of a truth value, of a number of 32 bits, and of what returns nothing.
boolean, word, nothing = types.boolean, types.uint32, types.none


def jit(function: F, name: str = "") -> F:
    """Compile a kernel, at its first call for each combination of argument types, or take it from the disk.

    A kernel that closes over constants must be given a name that tells it from all others.
    """
    _named(function, name)
    compiled = numba.njit(nogil=True, no_cfunc_wrapper=True)(function)
    if compiled is not function:  # it is where compilation is switched off
        compiled._cache = DiskCache(f"{function.__module__}.{function.__qualname__}")
    return cast(F, compiled)


def inlined(function: F) -> F:
    """Compile a helper of kernels, and put its code in place of every call."""
    return cast(F, numba.njit(forceinline=True, **_INTERNAL)(function))


def helper(function: F, name: str = "") -> F:
    """Compile a part of kernels that is called as a function. Named as kernels are."""
    _named(function, name)
    return cast(F, numba.njit(**_INTERNAL)(function))


def _named(function: Callable[..., object], name: str) -> None:
    """Machine code from the disk is linked by these names: two functions of one name would be one."""
    if name:
        function.__name__ = function.__qualname__ = name
    assert "<locals>" not in function.__qualname__, f"{function.__qualname__} needs a name of its own"


# A forked child has the compiler's locks as they are, but not the threads that would release them: a fork
# waits until no thread compiles. All compilation holds the first lock; an object of LLVM that is deleted,
# in any thread, holds the second.
if hasattr(os, "register_at_fork"):
    _locks = (global_compiler_lock, binding.ffi.lib._lock)

    def _acquire() -> None:
        for lock in _locks:
            lock.__enter__()

    def _release() -> None:
        for lock in reversed(_locks):
            lock.__exit__(None, None, None)

    os.register_at_fork(before=_acquire, after_in_parent=_release, after_in_child=_release)


def elements(array: np.ndarray[Any, Any], places: tuple[int, ...]) -> tuple[Any, ...]:
    """The elements of an array at the first len(places) places, which are 0, 1, 2, …, as a tuple."""
    return tuple(array[place] for place in places)


@overload(elements, inline="always")  # type: ignore[untyped-decorator]
def _elements(array: Any, places: Any) -> Callable[..., Any]:
    def take(array: Any, places: Any) -> Any:
        return _loads(array, places)

    return take


@intrinsic  # type: ignore[untyped-decorator]
def _loads(_: Any, array: Any, places: Any) -> Any:
    """As many loads, without a loop."""
    kind = types.UniTuple(array.dtype, places.count)

    def load(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        first = context.make_array(signature.args[0])(context, builder, values[0]).data
        pointers = [builder.gep(first, [ir.Constant(ir.IntType(64), place)]) for place in range(kind.count)]
        return context.make_tuple(builder, kind, [builder.load(pointer) for pointer in pointers])

    return kind(array, places), load


def bit_length(word: np.uint64) -> np.int64:
    """Bits of a word up to its leading one, 0 for 0."""
    return np.int64(int(word).bit_length())


@overload(bit_length, inline="always")  # type: ignore[untyped-decorator]
def _bit_length(word: np.uint64) -> Callable[[np.uint64], np.int64]:
    """In compiled code, from one instruction."""

    def count(word: np.uint64) -> np.int64:
        return np.int64(64) - np.int64(leading_zeros(word))

    return count


#: Narrows a vector of binary32 numbers to binary16.
_NARROW = """
define <8 x half> @narrow(<8 x float> %x) {
    %narrow = fptrunc <8 x float> %x to <8 x half>
    ret <8 x half> %narrow
}
"""


@functools.cache
def has_half() -> bool:
    """Whether the processor that kernels are compiled for has instructions that convert binary32 to binary16.

    That need not be the processor at hand ($NUMBA_CPU_NAME), so the code generator is asked. Where there
    are none it calls a function of a compiler's run-time library, which the process may lack.
    """
    target: Any = cpu_target.target_context.codegen()
    return "__truncsfhf2" not in target._tm.emit_assembly(binding.parse_assembly(_NARROW))


# -- the processor's modes ----------------------------------------------------------------------------

#: What the register of the usual modes holds: nearest even, no flushing, no traps. None where that is not known.
MODES: int | None = {"x86_64": 0x1F80, "aarch64": 0, "arm64": 0}.get(binding.get_process_triple().partition("-")[0])
if numba.config.DISABLE_JIT:
    MODES = None


@intrinsic  # type: ignore[untyped-decorator]
def exchange_modes(_: Any, modes: Any) -> Any:
    """Write the register that holds the floating-point modes of this thread, and return what it held."""

    def call(builder: Any, name: str, result: Any, *values: Any) -> Any:
        kind = ir.FunctionType(result, [value.type for value in values])
        return builder.call(builder.module.declare_intrinsic(name, (), kind), values)

    def exchange(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        word, long, none = ir.IntType(32), ir.IntType(64), ir.VoidType()
        if not MODES:
            before = call(builder, "llvm.aarch64.get.fpcr", long)
            call(builder, "llvm.aarch64.set.fpcr", none, values[0])
            return before
        room = cgutils.alloca_once(builder, word)  # MXCSR goes through memory
        place = builder.bitcast(room, ir.IntType(8).as_pointer())
        call(builder, "llvm.x86.sse.stmxcsr", none, place)
        before = builder.load(room)
        builder.store(builder.trunc(values[0], word), room)
        call(builder, "llvm.x86.sse.ldmxcsr", none, place)
        return builder.zext(before, long)

    return types.uint64(types.uint64), exchange


# -- types and functions that are LLVM's own ----------------------------------------------------------


class VectorType(types.Type):  # type: ignore[misc]
    """The type of `count` numbers that one operation changes together: an LLVM vector."""

    def __init__(self, name: str, element: Any, count: int) -> None:
        """Elements are an LLVM type."""
        self.element, self.count = element, count
        super().__init__(name=f"{name}x{count}")

    @property
    def llvm(self) -> Any:
        """The LLVM type."""
        return ir.VectorType(self.element, self.count)

    def constant(self, *values: int) -> Any:
        """One value for each element, or the same one for all."""
        return ir.Constant(self.llvm, list(values) if len(values) > 1 else list(values) * self.count)


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: VectorType) -> None:
        super().__init__(manager, kind, kind.llvm)


def builtin(function: Callable[..., Any], result: Any, *kinds: VectorType) -> Callable[[F], F]:
    """Decorate what makes the LLVM instructions of a function of vectors: (builder, *values) -> value.

    A number stands for a vector of it. Operators ask for one vector at least.
    """

    def check(*given: Any) -> Any:
        fits = len(given) == len(kinds) and all(
            have == want or isinstance(have, types.Integer) for have, want in zip(given, kinds, strict=True)
        )
        vectors = any(isinstance(have, VectorType) for have in given)
        return result if fits and (vectors or function.__module__ != operator.__name__) else None

    def register(lower: F) -> F:
        type_callable(function)(lambda context: _fixed(check, len(kinds)))

        def implement(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return lower(builder, *map(_spread, [builder] * len(kinds), signature.args, values, kinds))

        lower_builtin(function, *kinds)(implement)
        if len(kinds) == 2:
            lower_builtin(function, kinds[0], types.Integer)(implement)
            lower_builtin(function, types.Integer, kinds[1])(implement)
        elif len(kinds) == 1:
            lower_builtin(function, types.Integer)(implement)
        elif len(kinds) == 3:
            lower_builtin(function, kinds[0], types.Integer, kinds[2])(implement)
            lower_builtin(function, kinds[0], kinds[1], types.Integer)(implement)
            lower_builtin(function, kinds[0], types.Integer, types.Integer)(implement)
        return lower

    return register


def memory(function: Callable[..., Any], result: VectorType | None, *kinds: VectorType) -> Callable[[F], F]:
    """Decorate what reads or writes an array from an index on: (builder, pointer, element, *values) -> value."""

    def check(array: Any, start: Any, *given: Any) -> Any:
        if isinstance(array, types.Array) and isinstance(start, types.Integer) and given == kinds:
            return types.none if result is None else result
        return None

    def register(lower: F) -> F:
        type_callable(function)(lambda context: _fixed(check, 2 + len(kinds)))

        def implement(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, values[0])
            element = ir.IntType(signature.args[0].dtype.bitwidth)
            value = lower(builder, builder.gep(array.data, [values[1]]), element, *values[2:])
            return context.get_dummy_value() if result is None else value

        lower_builtin(function, types.Array, types.Integer, *kinds)(implement)
        return lower

    return register


def on_stack(function: Callable[[Any, int], Any], count: int) -> None:
    """Make a function of an array give its elements from an index on, and zeros up to `count`, in memory of its own.

    That memory is on the stack, until the function that calls this returns. `np.zeros` and a loop would
    be six functions more to compile for each kernel, and ask for memory at each call.
    """

    def check(array: Any, start: Any) -> Any:
        fits = isinstance(array, types.Array) and isinstance(start, types.Integer)
        return types.Array(array.dtype, 1, "C") if fits else None

    type_callable(function)(lambda context: _fixed(check, 2))

    def fill(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = signature.return_type
        element, start = context.get_data_type(kind.dtype), values[1]
        memory = ir.ArrayType(element, count)
        room = cgutils.alloca_once(builder, memory)
        room.align = 64  # as memory of NumPy's is, at least, where past the caches is written
        size = context.get_abi_sizeof(element)
        cgutils.memset(builder, room, context.get_constant(types.intp, count * size), 0)
        first = builder.bitcast(room, element.as_pointer())
        given = context.make_array(signature.args[0])(context, builder, values[0])
        left = builder.sub(given.nitems, start)
        cgutils.raw_memcpy(builder, first, builder.gep(given.data, [start]), left, size)
        array = context.make_array(kind)(context, builder)
        shape, strides = ([context.get_constant(types.intp, number)] for number in (count, size))
        populate_array(array, data=first, shape=shape, strides=strides, itemsize=strides[0], meminfo=None)
        return array._getvalue()

    lower_builtin(function, types.Array, types.Integer)(fill)


def from_stack(function: Callable[[Any, int, Any], None]) -> None:
    """Make a function of (array, start, other) copy the first elements of the other to the array's, from `start` on.

    A copy of memory and no loop: LLVM would turn a loop over fewer elements than a vector has into vectors.
    """

    def check(array: Any, start: Any, other: Any) -> Any:
        fits = isinstance(array, types.Array) and isinstance(start, types.Integer)
        return types.none if fits and isinstance(other, types.Array) and other.dtype == array.dtype else None

    type_callable(function)(lambda context: _fixed(check, 3))

    def copy(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array, other = (context.make_array(signature.args[place])(context, builder, values[place]) for place in (0, 2))
        size = context.get_abi_sizeof(context.get_data_type(signature.args[0].dtype))
        left = builder.sub(array.nitems, values[1])
        cgutils.raw_memcpy(builder, builder.gep(array.data, [values[1]]), other.data, left, size)
        return context.get_dummy_value()

    lower_builtin(function, types.Array, types.Integer, types.Array)(copy)


def _fixed(check: Callable[..., Any], count: int) -> Callable[..., Any]:
    """`check` with a fixed number of parameters, which numba wants to see."""
    shapes: tuple[Callable[..., Any], ...] = (
        lambda: check(),
        lambda a: check(a),
        lambda a, b: check(a, b),
        lambda a, b, c: check(a, b, c),
        lambda a, b, c, d: check(a, b, c, d),
        lambda a, b, c, d, e: check(a, b, c, d, e),
        lambda a, b, c, d, e, f: check(a, b, c, d, e, f),
    )
    return shapes[count]


def _spread(builder: Any, given: Any, value: Any, kind: VectorType) -> Any:
    """A number in every lane, cut to the lane's bits; a vector as it is."""
    if isinstance(given, VectorType):
        return value
    width = kind.element.width
    if isinstance(value, ir.Constant) and isinstance(value.constant, int):
        return kind.constant(value.constant & ((1 << width) - 1))
    if given.bitwidth > width:
        value = builder.trunc(value, kind.element)
    elif given.bitwidth < width:
        value = builder.zext(value, kind.element)
    undefined = ir.Constant(kind.llvm, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    )
