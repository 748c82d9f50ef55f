"""The laws, by topic. Importing this enters all of them into `lowprec.testing.law.LAWS`.

Floor 5.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from lowprec.testing.law import LAWS, Topic, Verdict

__all__ = ["LAWS", "TOPICS", "verdicts"]

#: The modules of this folder, in the order of documents and tables.
TOPICS = ("decoding", "rounding", "special", "verbs", "stochastic", "order", "dots", "arithmetic", "blocks")

for topic in TOPICS:
    importlib.import_module(f"lowprec.testing.laws.{topic}")


def verdicts(about: Topic, subject: Any) -> list[Verdict]:
    """Every law about formats, operations or blocks that says anything about a subject, tried on it."""
    tried = []
    for law in LAWS.values():
        if law.topic == about and law.applies(subject):
            with np.errstate(all="ignore"):
                outcome = law.check(subject)
            tried.append(Verdict(law, subject.path, outcome.tried, outcome.found))
    return tried
