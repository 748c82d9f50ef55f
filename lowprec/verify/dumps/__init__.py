"""Arrays to compare: in memory, in files larger than memory, and weights of checkpoints."""

from lowprec.verify.dumps.files import open_dump

__all__ = ["open_dump"]
