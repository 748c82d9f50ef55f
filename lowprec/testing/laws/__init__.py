"""The laws, by topic. Importing this enters all of them into `lowprec.testing.law.LAWS`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from lowprec.testing.law import LAWS, Topic, Verdict

#: The modules of this folder, in the order of documents and tables.
TOPICS = (
    "decoding",
    "rounding",
    "special",
    "codebooks",
    "verbs",
    "stochastic",
    "order",
    "dots",
    "arithmetic",
    "functions",
    "blocks",
)

for topic in TOPICS:
    importlib.import_module(f"lowprec.testing.laws.{topic}")


def verdicts(about: Topic, subject: Any) -> Iterator[Verdict]:
    """Yield every law of a topic that says anything about a subject, tried on it."""
    for law in LAWS.values():
        if law.topic == about and law.concerns(subject):
            with np.errstate(all="ignore"):
                outcome = law.check(subject)
            yield Verdict(law, subject.path, outcome.tried, outcome.found)
