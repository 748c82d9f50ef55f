"""Checkpoints: files of real models, read, checked, converted and quantised.

`container` and `folder` know files, `schemes` what tensors mean, `weights` which belong together;
`decoding`, `linting`, `quantizing`, `verifying` and `converting` work on what these find.

Floor 3b, below `verify/`. Reading headers and naming schemes (`lowprec checkpoint inspect`) needs neither
numba nor the verbs: what does, imports them when it is called.
"""

from __future__ import annotations
