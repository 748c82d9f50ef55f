"""Which format for these weights: every split of some widths, in blocks and not, on a network's tensors.

A perceptron learns scikit-learn's digits; its weights and the activations of test images are the data.
Printed are the formats that no other one beats with as few bits, and how MXFP4, NVFP4 and others stand beside
them.

    python docs/examples/finding_formats.py --plot formats.png
"""

from __future__ import annotations

import click
import numpy as np

import lowprec as lp

BESIDE = ("mxfp4", "nvfp4", "mxfp6_e2m3", "mxfp8_e4m3", "mxint8")


def tensors() -> dict[str, np.ndarray]:
    """Return weights (out, in) of a trained perceptron, and the activations of its test images."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    images, labels = load_digits(return_X_y=True)
    network = MLPClassifier((128, 64), max_iter=60, random_state=0, early_stopping=True)
    network.fit(images[:1400] / 16, labels[:1400])
    found, hidden = {}, images[1400:] / 16
    for layer, (weight, bias) in enumerate(zip(network.coefs_, network.intercepts_, strict=True)):
        found[f"weight {layer}"] = weight.T.astype(np.float32)
        found[f"activation {layer}"] = hidden.astype(np.float32)
        hidden = np.maximum(hidden @ weight + bias, 0)
    return found


@click.command()
@click.option("--quick", is_flag=True, help="Try four bits alone.")
@click.option("--plot", type=click.Path(), help="Draw all candidates into this file.")
def main(quick: bool, plot: str | None) -> None:
    """Try formats on the tensors of a small network."""
    data = tensors()
    found = lp.sweep_formats(data, 4 if quick else (4, 6, 8), sizes=(16, 32, 64), progress=True)
    print(found)
    print("\nbeside them:")
    for row in lp.sweep_formats(data, elements=BESIDE).rows:
        print(f"{row.bits:9.4f}  {row.sqnr:8.2f}  {row}")
    if plot:
        lp.plot.error_by_bits(found).ax.figure.savefig(plot)


if __name__ == "__main__":
    main()
