"""Random choices that can be made again, and specifications that are accepted."""

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

#: Cases one after the other that share most of what kernels are compiled for.
ALIKE = 12


class Draw(random.Random):
    """The random choices of one case. `alike` makes those that cases with neighbouring numbers share."""

    def __init__(self, seed: int, topic: str, number: int, alike: int = ALIKE) -> None:
        super().__init__(f"{seed} {topic} {number}")
        self.few = f"{seed} {topic} {number // alike}"
        self.alike = random.Random(self.few)

    def chance(self, share: float) -> bool:
        """True in this share of cases."""
        return self.random() < share

    def one_of_few(self, what: str, choices: Sequence[T]) -> T:
        """One of two or three of the choices, the same in cases that are alike."""
        few = random.Random(f"{self.few} {what}")
        return self.choice([few.choice(choices) for _ in range(3)])

    def often(self, usual: T, others: Sequence[T], share: float = 0.3) -> T:
        """The usual choice, but in a share of cases one of the others."""
        return self.choice(others) if self.chance(share) else usual


def accepted(make: Callable[[], T]) -> T:
    """The first specification that is one."""
    for _ in range(1000):
        try:
            return make()
        except (ValueError, TypeError):
            continue
    raise RuntimeError("1,000 draws, and none of them is accepted")
