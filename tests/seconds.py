"""How long tests take, of which tests/conftest.py decides what runs when.

pytest -m "" --junitxml DURATIONS.xml        with an empty LOWPREC_CACHE_DIR
python -m tests.seconds DURATIONS.xml ...     put those of two seconds and more into tests/seconds.json,
                                              by the fastest of several reports
"""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

FILE = Path(__file__).with_suffix(".json")
#: What takes less is not written down.
LEAST = 2


def seconds() -> dict[str, int]:
    """Return the seconds of each slow test by its node's name, rounded down."""
    return dict(json.loads(FILE.read_text()))


def read(path: str) -> dict[str, int]:
    """Return the seconds of each test of a report of pytest in JUnit's format."""
    return {
        f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}": int(
            float(case.get("time", "0"))
        )
        for case in ElementTree.parse(path).iter("testcase")
    }


if __name__ == "__main__":
    read_of: dict[str, int] = {}
    for report in sys.argv[1:]:
        for name, taken in read(report).items():
            read_of[name] = min(taken, read_of.get(name, taken))
    found = seconds() | read_of
    slow = {name: taken for name, taken in sorted(found.items()) if taken >= LEAST}
    FILE.write_text(json.dumps(slow, indent=1) + "\n")
