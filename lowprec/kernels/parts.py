"""Compile the parts of kernels only as far as kernels need them.

numba optimises every function and makes machine code of it, although a helper of kernels never runs by
itself: its code is linked into kernels, where all of it is optimised again. Here a helper stops before
that, which takes a third off the time that a kernel takes to compile.

Floor 2b. Imports numba.
"""

from __future__ import annotations

from typing import Any

from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.environment import lookup_environment
from numba.core.typed_passes import NativeLowering

from lowprec.interrupts import held

__all__ = ["KernelCompiler", "PartCompiler"]


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """LLVM code with what it calls: not optimised beyond single functions, and without machine code."""

    def finalize(self) -> None:
        """Link what is called."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            if hasattr(library, "_reload_init"):  # of newer versions of numba
                self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerPart(NativeLowering):  # type: ignore[misc]
    """Lower a helper to LLVM code that kernels link."""

    _name = "lower_part"

    def run_pass(self, state: Any) -> bool:
        """Lower, and record the code under an object that stands in for machine code, as there is none."""
        context = state.targetctx
        state.library = _PartLibrary(context.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered, library = state["cr"], state.library
        library._ensure_finalized()
        fndesc = lowered.fndesc
        name = fndesc.qualname.rpartition(".")[2]
        entry = _dynfunc.make_function(fndesc.lookup_module(), name, "", 0, lowered.env, (library,))
        context.insert_user_function(entry, fndesc, [library])
        state.reload_init.extend(getattr(library, "_reload_init", ()))
        state["cr"] = lowered._replace(cfunc=entry)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerKernel(NativeLowering):  # type: ignore[misc]
    """Lower a kernel, whose machine code holds that of all its helpers."""

    _name = "lower_kernel"

    def run_pass(self, state: Any) -> bool:
        """Lower, and set the environments of helpers, which numba sets only where they have machine code."""
        super().run_pass(state)
        for variable in state.library._final_module.global_variables:
            environment = lookup_environment(variable.name)
            if environment is not None:
                state.library.codegen.set_env(variable.name, environment)
        return True


def _pipeline(state: Any, lowering: type) -> list[Any]:
    passes = DefaultPassBuilder.define_nopython_pipeline(state)
    passes.passes = [
        (lowering, text) if kind is NativeLowering else (kind, text) for kind, text in passes.passes
    ]
    passes._finalized = False
    passes.finalize()
    return [passes]


class _Compiler(CompilerBase):  # type: ignore[misc]
    """Compiles one function."""

    def __init__(self, *given: Any) -> None:
        """Have numba load what it knows of functions; what is lost of it halfway stays lost."""
        with held():
            super().__init__(*given)


class PartCompiler(_Compiler):
    """Compiles helpers of kernels."""

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes, with our own lowering."""
        return _pipeline(self.state, _LowerPart)


class KernelCompiler(_Compiler):
    """Compiles kernels."""

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes, with our own lowering."""
        return _pipeline(self.state, _LowerKernel)
