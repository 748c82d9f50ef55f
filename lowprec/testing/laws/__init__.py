"""The laws, by topic. Importing this enters all of them into `lowprec.testing.law.LAWS`.

Floor 5.
"""

from __future__ import annotations

import importlib

__all__ = ["TOPICS"]

#: The modules of this folder, in the order of documents and tables.
TOPICS = ("decoding", "rounding", "special", "verbs", "stochastic", "order", "arithmetic", "dots", "blocks")

for topic in TOPICS:
    importlib.import_module(f"lowprec.testing.laws.{topic}")
