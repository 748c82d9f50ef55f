"""Vector language: LLVM types and instructions behind Python functions, for numba to call.

Floor 2b. See README.md next to this file.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba.core import cgutils
from numba.extending import lower_builtin, models, register_model, type_callable
from numba.np.arrayobj import populate_array

from lowprec.kernels.jit import AnyArray

__all__ = ["VectorType", "boolean", "builtin", "from_stack", "ir", "memory", "nothing", "on_stack", "section"]
__all__ += ["word"]

F = TypeVar("F", bound=Callable[..., object])

types: Any = numba.types

#: The types of a truth value, of a number of 32 bits, and of what returns nothing.
boolean, word, nothing = types.boolean, types.uint32, types.none


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
        """Return a constant with one value for each element, or the same one for all."""
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


def memory(
    function: Callable[..., Any],
    result: VectorType | None,
    *kinds: VectorType,
    widths: tuple[int, ...] = (8, 16, 32, 64),
) -> Callable[[F], F]:
    """Decorate what reads or writes an array from an index: (builder, pointer, element, *values) -> value.

    For an `AnyArray` it is made once for each of `widths`, in bits; the array chooses while a kernel runs.
    """

    def check(array: Any, start: Any, *given: Any) -> Any:
        if isinstance(array, types.Array) and isinstance(start, types.Integer) and given == kinds:
            return types.none if result is None else result
        return None

    def register(lower: F) -> F:
        type_callable(function)(lambda context: _fixed(check, 2 + len(kinds)))

        def implement(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, values[0])
            place, value = _address(builder, signature.args[0], array, values[1]), None
            if isinstance(signature.args[0], AnyArray):
                value = by_width(builder, place, array.itemsize, values[2:])
            else:
                element = ir.IntType(signature.args[0].dtype.bitwidth)
                value = lower(builder, place, element, *values[2:])
            return context.get_dummy_value() if result is None else value

        def by_width(builder: Any, place: Any, size: Any, given: Any) -> Any:
            blocks = [builder.append_basic_block(f"of_{width}") for width in widths]
            choice, end, made = builder.switch(size, blocks[0]), builder.append_basic_block("end"), []
            for width, block in zip(widths, blocks, strict=True):
                choice.add_case(size.type(width // 8), block)
                builder.position_at_end(block)
                element = ir.IntType(width)
                value = lower(builder, builder.bitcast(place, element.as_pointer()), element, *given)
                made.append((value, builder.block))
                builder.branch(end)
            builder.position_at_end(end)
            if result is None:
                return None
            chosen = builder.phi(result.llvm)
            for value, block in made:
                chosen.add_incoming(value, block)
            return chosen

        lower_builtin(function, types.Array, types.Integer, *kinds)(implement)
        return lower

    return register


def _address(builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """Return the address of an element."""
    return builder.gep(
        array.data, [builder.mul(index, array.itemsize) if isinstance(kind, AnyArray) else index]
    )


def _part(context: Any, builder: Any, kind: Any, given: Any, first: Any, count: Any) -> Any:
    """Return an array of the same type as another, with so many elements from an address on."""
    array, size = context.make_array(kind)(context, builder), given.itemsize
    populate_array(array, data=first, shape=[count], strides=[size], itemsize=size, meminfo=None)
    return array._getvalue()


def on_stack(function: Callable[[Any, int], Any], count: int) -> None:
    """Make a function give an array's elements from an index on, then zeros up to `count`, in its own memory.

    That memory is on the stack, until the function that calls this returns. `np.zeros` and a loop would
    be six functions more to compile for each kernel, and ask for memory at each call.
    """

    def check(array: Any, start: Any) -> Any:
        fits = isinstance(array, types.Array) and isinstance(start, types.Integer)
        return array.copy(readonly=False) if fits else None

    type_callable(function)(lambda context: _fixed(check, 2))

    def fill(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given, kind = signature.args[0], signature.return_type
        array = context.make_array(given)(context, builder, values[0])
        element = context.get_data_type(kind.dtype)
        most = 8 if isinstance(given, AnyArray) else context.get_abi_sizeof(element)
        room = cgutils.alloca_once(builder, ir.ArrayType(ir.IntType(8), count * most))
        room.align = 64  # as memory of NumPy's is, at least, where past the caches is written
        number = context.get_constant(types.intp, count)
        cgutils.memset(builder, room, builder.mul(number, array.itemsize), 0)
        first = builder.bitcast(room, element.as_pointer())
        _copy(builder, first, _address(builder, given, array, values[1]), array, values[1])
        return _part(context, builder, kind, array, first, number)

    lower_builtin(function, types.Array, types.Integer)(fill)


def from_stack(function: Callable[[Any, int, Any], None]) -> None:
    """Make a function (array, start, other) copy the first elements of the other into the array from `start`.

    A copy of memory and no loop: LLVM would turn a loop over fewer elements than a vector has into vectors.
    """

    def check(array: Any, start: Any, other: Any) -> Any:
        fits = isinstance(array, types.Array) and isinstance(start, types.Integer)
        return types.none if fits and isinstance(other, types.Array) and other.dtype == array.dtype else None

    type_callable(function)(lambda context: _fixed(check, 3))

    def copy(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array, other = (
            context.make_array(signature.args[place])(context, builder, values[place]) for place in (0, 2)
        )
        _copy(builder, _address(builder, signature.args[0], array, values[1]), other.data, array, values[1])
        return context.get_dummy_value()

    lower_builtin(function, types.Array, types.Integer, types.Array)(copy)


def _copy(builder: Any, to: Any, at: Any, array: Any, start: Any) -> None:
    """Copy as many bytes as an array's elements from an index on have."""
    size = builder.mul(builder.sub(array.nitems, start), array.itemsize)
    cgutils.raw_memcpy(builder, to, at, size, 1)


def section(function: Callable[[Any, int, int], Any]) -> None:
    """Make a function (array, start, stop) give the elements from an index to another, where they are."""

    def check(array: Any, start: Any, stop: Any) -> Any:
        fits = isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"
        return array if fits and all(isinstance(each, types.Integer) for each in (start, stop)) else None

    type_callable(function)(lambda context: _fixed(check, 3))

    def cut(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given = signature.args[0]
        array, (_, start, stop) = context.make_array(given)(context, builder, values[0]), values
        first = _address(builder, given, array, start)
        return _part(context, builder, given, array, first, builder.sub(stop, start))

    lower_builtin(function, types.Array, types.Integer, types.Integer)(cut)


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
    """Spread a number over all lanes, cut to the lane's bits; return a vector as it is."""
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
