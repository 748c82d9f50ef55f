"""Evidence: what accumulations, library calls and profiles were held against, and how many results agreed."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from typing import Literal

from lowprec.spec.evidence.reviewed import reviewed

__all__ = ["DOCUMENTS", "EVIDENCE_KINDS", "Evidence", "evidence_for"]

Kind = Literal["measured", "model", "software"]

#: Kinds of evidence, the best first, and what they mean.
EVIDENCE_KINDS: dict[str, str] = {
    "measured": "results that others recorded on the device",
    "model": "a model of the device, by others",
    "software": "the software itself, or what others recorded of it",
}
#: What is said where there is none.
DOCUMENTS = "documents"


@dataclass(frozen=True)
class Evidence:
    """Results of a device, a model or some software that were compared: an entry of tables/silicon.toml."""

    kind: Kind
    what: str  #: the device, the model or the software
    by: str  #: who recorded or made it: a key of docs/references.md
    date: str  #: of the data; of a model, when it was compared
    values: int  #: results compared for each subject
    differ: int  #: how many of them differ
    check: str  #: the command that compares them, or a selection, again
    #: Names of accumulations, of library calls, of profiles, or of a profile and a format of it.
    subjects: tuple[str, ...]

    def __str__(self) -> str:
        """Return it in words.

        >>> print(evidence_for("volta_mma_binary16_binary32")[0])
        measured: 5,000 results of NVIDIA V100, 0 differ [KHATTAK]
        """
        return f"{self.kind}: {self.values:,} results of {self.what}, {self.differ:,} differ [{self.by}]"


@functools.cache
def _by_subject() -> dict[str, tuple[Evidence, ...]]:
    """Return all evidence by the name that a subject begins with, the best first."""
    found: dict[str, list[Evidence]] = {}
    entries = tomllib.loads(reviewed("silicon.toml"))["evidence"]
    for entry in sorted(entries, key=lambda each: [*EVIDENCE_KINDS].index(each["kind"])):
        evidence = Evidence(**{**entry, "subjects": tuple(entry["subjects"])})
        for name in dict.fromkeys(subject.partition(" ")[0] for subject in evidence.subjects):
            found.setdefault(name, []).append(evidence)
    return {name: tuple(each) for name, each in found.items()}


def evidence_for(name: str) -> tuple[Evidence, ...]:
    """Return the evidence for an accumulation, a library call or a profile with its formats; the best first.

    >>> [each.what for each in evidence_for("ampere_mma_tf32_binary32")]
    ['NVIDIA A100', 'NVIDIA A2', 'mmasim 2.1.1']
    >>> evidence_for("fp32_fma")
    ()
    """
    return _by_subject().get(name, ())
