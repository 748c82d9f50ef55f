"""Peers: other libraries, each with an adapter that offers calls to time.

Those that round without encoding (qtorch, CPFloat) take part where values are rounded to values, and in
stochastic rounding, which hardly any library does to codes. Nothing here is needed to run: a peer that is
not installed is left out.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from threadpoolctl import ThreadpoolController

from benchmarks.peers import frameworks, research
from benchmarks.peers.research import fractions
from benchmarks.peers.work import Way, Work, native
from lowprec.arrays.threads import get_threads, set_threads

__all__ = ["PEERS", "Peer", "Way", "Work", "blas", "find", "fractions", "native", "said", "switch"]


@dataclass(frozen=True)
class Peer:
    """A library that lowprec is timed against."""

    name: str
    modules: tuple[str, ...]  #: what to import; empty for what is no Python package
    ways: Callable[[Work], Iterator[Way]]  #: nothing, if it cannot do the work
    limit: int = 1 << 28  #: elements above which it would take too long

    @property
    def version(self) -> str | None:
        """The installed version, or None."""
        if not self.modules:
            return "from $CPFLOAT_LIBRARY" if os.environ.get("CPFLOAT_LIBRARY") else None
        try:
            return importlib.metadata.version(self.name)
        except importlib.metadata.PackageNotFoundError:
            return None


def find(threads: int = 1) -> tuple[dict[str, Peer], dict[str, str]]:
    """Import the peers, and return those that can be used and what keeps each of the others away.

    `threads` is how many JAX may start: it cannot be told later.
    """
    found, missing = {}, {}
    for peer in PEERS:
        if peer.version is None:
            missing[peer.name] = "not installed"
            continue
        try:
            if peer.name == "jax":
                frameworks.start_jax(threads)
            for module in peer.modules:
                importlib.import_module(module)
            found[peer.name] = peer
        except Exception as error:  # whatever a library does when it is imported
            missing[peer.name] = said(error)
    return found, missing


def said(error: Exception) -> str:
    """Return the kind of an exception and the beginning of its message, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"


@functools.cache
def blas() -> Any:
    """Return the control of the libraries that make NumPy's products of matrices."""
    return ThreadpoolController().select(user_api="blas")


def switch(threads: int) -> None:
    """Let lowprec, torch and the products of NumPy use so many threads."""
    if get_threads() != threads:
        set_threads(threads)
    for library in blas().lib_controllers:
        library.set_num_threads(threads)
    if "torch" in sys.modules and (torch := importlib.import_module("torch")).get_num_threads() != threads:
        torch.set_num_threads(threads)


#: Every peer that there is an adapter for; the first two are witnesses too.
PEERS = (
    Peer("ml_dtypes", ("ml_dtypes",), functools.partial(frameworks.numpy, builtin=False)),
    Peer("numpy", ("numpy",), functools.partial(frameworks.numpy, builtin=True)),
    Peer("torch", ("torch",), frameworks.torch),
    Peer("torchao", ("torch",), frameworks.torchao),
    Peer("jax", ("jax",), frameworks.jax),
    Peer("gfloat", ("gfloat",), research.gfloat, limit=1 << 16),
    Peer("apytypes", ("apytypes",), research.apytypes, limit=1 << 20),
    Peer("qtorch", ("torch", "qtorch.quant"), research.qtorch, limit=1 << 20),
    Peer("CPFloat", (), research.cpfloat),
    Peer("VeriFloat", ("verifloat",), research.verifloat),
    Peer("mmasim", ("torch", "mmasim.arithmetic.fdpa"), research.mmasim),
)
