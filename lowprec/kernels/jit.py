"""Compilation of kernels.

`nogil`, so that threads run side by side. Never `fastmath`: it lets the compiler change results.
Compiled kernels are kept on disk by `cache`.

Floor 2b.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, cast, get_origin, get_type_hints

import numba
import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.imputils import impl_ret_borrowed
from numba.core.registry import cpu_target
from numba.extending import (
    NativeValue,
    intrinsic,
    lower_builtin,
    models,
    register_model,
    type_callable,
    unbox,
)
from numba.np.arrayobj import populate_array

from lowprec.kernels import compiling  # noqa: F401 - it watches numba compile
from lowprec.kernels.cache import DiskCache
from lowprec.kernels.parts import KernelCompiler, PartCompiler

__all__ = [
    "MODES",
    "AnyArray",
    "ForAll",
    "bit_length",
    "bound",
    "elements",
    "exchange_modes",
    "has_half",
    "helper",
    "in_wide_vectors",
    "inlined",
    "jit",
    "jit_for_all",
    "load_record",
    "retyped",
]

F = TypeVar("F", bound=Callable[..., object])
R = TypeVar("R", bound=tuple[Any, ...])

types: Any = numba.types

#: Nothing calls these but kernels: no way in from outside needs to be compiled.
_INTERNAL = {
    "nogil": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": PartCompiler,
}


def jit(function: F, name: str = "") -> F:
    """Compile a kernel, at its first call for each combination of argument types, or take it from the disk.

    A kernel that closes over constants must be given a name that tells it from all others.
    """
    _named(function, name)
    compiled = numba.njit(nogil=True, no_cfunc_wrapper=True, pipeline_class=KernelCompiler)(function)
    if compiled is not function:  # it is where compilation is switched off
        compiled._cache = DiskCache(f"{function.__module__}.{function.__qualname__}")
    return cast(F, compiled)


class AnyArray(types.Array):  # type: ignore[misc]
    """The type of contiguous arrays with one axis; the size of their elements only a running kernel knows."""

    def __init__(self) -> None:
        super().__init__(types.uint8, 1, "C", name="any array")

    def copy(self, **changed: Any) -> AnyArray:
        """Return the one type there is."""
        return self


register_model(AnyArray)(models.ArrayModel)


@unbox(AnyArray)  # type: ignore[untyped-decorator]
def _unbox_any(kind: Any, given: Any, c: Any) -> Any:
    """Take an array as it is; numba would compare the size of its elements with the type's."""
    record = c.context.make_array(kind)(c.context, c.builder)
    place = c.builder.bitcast(record._getpointer(), c.pyapi.voidptr)
    failed = cgutils.is_not_null(c.builder, c.pyapi.nrt_adapt_ndarray_from_python(given, place))
    return NativeValue(record._getvalue(), is_error=failed)


class ForAll:
    """A kernel that is compiled once for all types of some of its arguments, which are arrays.

    Nobody looks at the types of its arguments: contiguous arrays with one axis, as the kernel says.
    """

    def __init__(self, compiled: Any, arrays: slice) -> None:
        self._compiled, self._arrays = compiled, arrays
        self.py_func = compiled.py_func
        self._run: Callable[..., int] | None = None

    def run_for(self, *given: Any) -> Callable[..., int]:
        """Return what runs for arguments of these types."""
        if self._run is None:
            kinds = [*map(numba.typeof, given)]
            kinds[self._arrays] = [AnyArray()] * len(kinds[self._arrays])
            self._run = self._compiled.compile(tuple(kinds))
        return self._run

    def __call__(self, *given: Any) -> int:
        """Run the kernel."""
        return (self._run or self.run_for(*given))(*given)


def jit_for_all(function: Callable[..., int], name: str, arrays: slice) -> Callable[..., int]:
    """Compile a kernel as `jit` does, but once for all types of the arrays among its arguments."""
    compiled = jit(function, name)
    return compiled if compiled is function else ForAll(compiled, arrays)


def bound(kernel: Callable[..., int], given: tuple[Any, ...], others: tuple[Any, ...]) -> Callable[..., int]:
    """Return a kernel that has its first arguments, for others of the very types of these.

    Nobody looks at the types of arguments then, which takes a third of a call: whoever calls it must.
    """
    if isinstance(kernel, ForAll):
        return functools.partial(kernel.run_for(*given, *others), *given)
    if not isinstance(kernel, numba.core.dispatcher.Dispatcher):  # compilation is switched off
        return functools.partial(kernel, *given)
    return functools.partial(kernel.compile(tuple(map(numba.typeof, (*given, *others)))), *given)


def inlined(function: F) -> F:
    """Compile a helper of kernels, and put its code in place of every call."""
    return _without_literals(numba.njit(forceinline=True, **_INTERNAL)(function))


def helper(function: F, name: str = "") -> F:
    """Compile a part of kernels that is called as a function. Named as kernels are."""
    _named(function, name)
    return _without_literals(numba.njit(**_INTERNAL)(function))


def _without_literals(compiled: Any) -> Any:
    """Let a helper be compiled once for all integers: numba compiles it for each that calls spell out."""
    if isinstance(compiled, numba.core.dispatcher.Dispatcher):
        template = compiled.get_call_template

        def call_template(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
            return template(tuple(map(_unliteral, args)), {name: _unliteral(kws[name]) for name in kws})

        compiled.get_call_template = call_template
    return compiled


def _unliteral(kind: Any) -> Any:
    return types.unliteral(kind) if isinstance(kind, types.IntegerLiteral) else kind


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
    """Return the elements of an array at the first len(places) places, which are 0, 1, 2, …, as a tuple."""
    return tuple(array[place] for place in places)


@type_callable(elements)  # type: ignore[untyped-decorator]
def _type_elements(_: Any) -> Callable[..., Any]:
    def typer(array: Any, places: Any) -> Any:
        return types.UniTuple(array.dtype, places.count)

    return typer


@lower_builtin(elements, types.Any, types.Any)  # type: ignore[untyped-decorator]
def _lower_elements(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """Emit one load for each element, without a loop."""
    kind = signature.return_type
    first = context.make_array(signature.args[0])(context, builder, values[0]).data
    pointers = [builder.gep(first, [ir.Constant(ir.IntType(64), place)]) for place in range(kind.count)]
    return context.make_tuple(builder, kind, [builder.load(pointer) for pointer in pointers])


def retyped(array: np.ndarray[Any, Any], kind: type[np.generic]) -> np.ndarray[Any, Any]:
    """Return contiguous bytes as an array of another type; `array.view` takes longer to compile."""
    return array.view(kind)


@type_callable(retyped)  # type: ignore[untyped-decorator]
def _type_retyped(_: Any) -> Callable[..., Any]:
    return lambda array, kind: array.copy(dtype=kind.dtype)


@lower_builtin(retyped, types.Array, types.Any)  # type: ignore[untyped-decorator]
def _lower_retyped(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """Emit another record of the same memory."""
    given, kind = signature.args[0], signature.return_type
    array, made = (
        context.make_array(given)(context, builder, values[0]),
        context.make_array(kind)(context, builder),
    )
    element = context.get_data_type(kind.dtype)
    size = context.get_constant(types.intp, context.get_abi_sizeof(element))
    count = builder.udiv(array.nitems, size)
    populate_array(
        made, builder.bitcast(array.data, element.as_pointer()), [count], [size], size, array.meminfo,
        array.parent,
    )  # fmt: skip
    return impl_ret_borrowed(context, builder, kind, made._getvalue())


def load_record(kind: type[R], words: np.ndarray[Any, Any], start: Any) -> R:
    """Load a NamedTuple from an array, from index `start` on; `Signed` fields as signed integers."""
    signed, number = _signed(kind), np.dtype(f"i{words.itemsize}").type
    return kind(*(number(words[start + i]) if minus else words[start + i] for i, minus in enumerate(signed)))


@type_callable(load_record)  # type: ignore[untyped-decorator]
def _type_load_record(_: Any) -> Callable[..., Any]:
    def typer(kind: Any, words: Any, start: Any) -> Any:
        fields = [
            types.Integer.from_bitwidth(words.dtype.bitwidth, minus) for minus in _signed(kind.instance_class)
        ]
        return types.BaseTuple.from_types(fields, kind.instance_class)

    return typer


@lower_builtin(load_record, types.Any, types.Any, types.Any)  # type: ignore[untyped-decorator]
def _lower_load_record(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """Emit one load for each element, without a loop."""
    _, words, start = signature.args
    array = context.make_array(words)(context, builder, values[1])
    first = context.cast(builder, values[2], start, types.intp)
    loaded = []
    for i in range(len(signature.return_type)):
        place = builder.add(first, context.get_constant(types.intp, i))
        loaded.append(builder.load(cgutils.get_item_pointer(context, builder, words, array, [place])))
    return context.make_tuple(builder, signature.return_type, loaded)


@functools.cache
def _signed(kind: type) -> tuple[bool, ...]:
    """Return whether each field of a NamedTuple is annotated as `Signed`."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(get_origin(hints[name]) is Annotated for name in kind._fields)  # type: ignore[attr-defined]


def bit_length(word: np.uint64) -> np.int64:
    """Bits of a word up to its leading one, 0 for 0."""
    return np.int64(int(word).bit_length())


@type_callable(bit_length)  # type: ignore[untyped-decorator]
def _type_bit_length(_: Any) -> Callable[..., Any]:
    return lambda word: types.int64(types.uint64)


@lower_builtin(bit_length, types.uint64)  # type: ignore[untyped-decorator]
def _lower_bit_length(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    zeros = builder.ctlz(values[0], ir.Constant(ir.IntType(1), 0))
    return builder.sub(ir.Constant(ir.IntType(64), 64), zeros)


def in_wide_vectors() -> None:
    """Let the compiler use the widest vectors of the processor in the kernel that calls this.

    For some processors it takes half of the width otherwise.
    """


@type_callable(in_wide_vectors)  # type: ignore[untyped-decorator]
def _type_in_wide_vectors(_: Any) -> Callable[..., Any]:
    return lambda: types.none


@lower_builtin(in_wide_vectors)  # type: ignore[untyped-decorator]
def _lower_in_wide_vectors(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    set.add(builder.function.attributes, '"prefer-vector-width"="512"')  # llvmlite's own `add` knows few
    return context.get_dummy_value()


#: Narrows a vector of binary32 numbers to binary16.
_NARROW = """
define <8 x half> @narrow(<8 x float> %x) {
    %narrow = fptrunc <8 x float> %x to <8 x half>
    ret <8 x half> %narrow
}
"""


@functools.cache
def has_half() -> bool:
    """Return whether the processor that kernels are compiled for converts binary32 to binary16.

    That need not be the processor at hand ($NUMBA_CPU_NAME), so the code generator is asked. Where there
    are none it calls a function of a compiler's run-time library, which the process may lack.
    """
    target: Any = cpu_target.target_context.codegen()
    return "__truncsfhf2" not in target._tm.emit_assembly(binding.parse_assembly(_NARROW))


# -- the processor's modes ----------------------------------------------------------------------------

#: What the register of the usual modes holds: nearest even, no flushing, no traps. None where that is not
#: known.
MODES: int | None = {"x86_64": 0x1F80, "aarch64": 0, "arm64": 0}.get(
    binding.get_process_triple().partition("-")[0]
)
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
