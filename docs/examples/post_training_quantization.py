"""Post-training quantisation of a network with outliers: 8-bit integers, FP8 and MX side by side.

A perceptron learns scikit-learn's digits in float. A few of its hidden channels are then multiplied by a
factor, and divided by it again in the next layer: the network computes what it did, but now its activations
have outliers, as those of large transformers do. All of its products are then done in each format:

    integers and FP8    weights with a scale for each output channel, of the largest value; activations with
    one
                        scale, by the best of three ways on images of the training set
    MX                  both in blocks of 32 along the sum, nothing to calibrate

Accuracy is that on images that were not trained on; dB is how far the outputs are above their error, SQNR.

    python docs/examples/post_training_quantization.py --plot ptq.png
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import click
import numpy as np
import numpy.typing as npt

import lowprec as lp
from lowprec.methods import fp8, mx

Array = npt.NDArray[np.float32]
#: From activations (images, in), a weight (out, in) and the number of its layer to their product (images,
#: out).
Product = Callable[[Array, Array, int], Array]

SCALED = ("int8", "e4m3fn", "e5m2")
BLOCKS = ("mxint8", "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4")
METHODS = ("max", "percentile", "mse")
FACTORS = (1, 8, 64, 512)
CHANNELS = 3


@dataclass
class Network:
    """Linear layers with a ReLU between each two."""

    weights: list[Array]
    biases: list[Array]

    def outputs(self, images: Array, product: Product) -> Array:
        """The outputs, with products done by a function and everything else in binary32."""
        values = images
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = lp.add(product(values, weight, layer), bias, "binary32")
            if layer + 1 < len(self.weights):
                values = np.maximum(values, np.float32(0))
        return values

    def with_outliers(self, factor: int, rng: np.random.Generator) -> Network:
        """The same function, with some channels of each hidden layer scaled up exactly, by a power of two."""
        weights, biases = [each.copy() for each in self.weights], [each.copy() for each in self.biases]
        for layer in range(len(weights) - 1):
            channels = rng.choice(len(biases[layer]), CHANNELS, replace=False)
            weights[layer][channels] *= np.float32(factor)
            biases[layer][channels] *= np.float32(factor)
            weights[layer + 1][:, channels] /= np.float32(factor)
        return Network(weights, biases)


def in_float(values: Array, weight: Array, _: int) -> Array:
    """The product in binary64."""
    exact: Array = values.astype(np.float64) @ weight.T.astype(np.float64)
    return exact


def in_blocks(fmt: str) -> Product:
    """Products of MX blocks."""
    return lambda values, weight, _: mx.matmul(values, weight.T, fmt)


def scaled(network: Network, fmt: str, images: Array) -> Product:
    """Products of scaled codes; activations' scales are found in the way that is best on some images."""
    seen: list[Array] = []
    wanted = network.outputs(
        images, lambda values, weight, _: (seen.append(values), in_float(values, weight, 0))[1]
    )
    weights = [fp8.encode(weight, fmt, axis=0).T for weight in network.weights]

    def product(method: str) -> Product:
        scales = [lp.scale_for(values, fmt, method) for values in seen]
        return lambda values, _, layer: fp8.matmul(
            fp8.encode(values, fmt, scale=scales[layer]), weights[layer]
        )

    products = [product(method) for method in METHODS]
    return max(products, key=lambda each: fp8.sqnr(wanted, network.outputs(images, each)))


def trained(quick: bool) -> tuple[Network, Array, Array, npt.NDArray[np.int64]]:
    """A network, images to calibrate with, and images and digits to test with."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    images, digits = load_digits(return_X_y=True)
    learn, test, learn_digits, test_digits = train_test_split(
        images / 16, digits, test_size=500, random_state=0, stratify=digits
    )
    model = MLPClassifier((128, 128), random_state=0, max_iter=400, tol=1e-2 if quick else 1e-4)
    model.fit(learn, learn_digits)
    weights = [np.ascontiguousarray(each.T, np.float32) for each in model.coefs_]
    network = Network(weights, [each.astype(np.float32) for each in model.intercepts_])
    count = 48 if quick else 500
    return network, learn[:128].astype(np.float32), test[:count].astype(np.float32), test_digits[:count]


def crest_factor(network: Network, images: Array) -> float:
    """The largest magnitude over the root mean square, of the activations that enter the last layer."""
    seen: list[Array] = []
    network.outputs(images, lambda values, weight, _: (seen.append(values), in_float(values, weight, 0))[1])
    return float(np.abs(seen[-1]).max() / np.sqrt(np.mean(np.square(seen[-1], dtype=np.float64))))


def measured(quick: bool) -> tuple[dict[str, list[tuple[float, float]]], list[float]]:
    """Of each format accuracy in percent and SQNR in decibels, by factor; and the crest factors."""
    network, calibration, images, digits = trained(quick)
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in ("float", *SCALED, *BLOCKS)}
    crests = []
    for factor in FACTORS:
        outlying = network.with_outliers(factor, np.random.default_rng(0))
        wanted = outlying.outputs(images, in_float)
        crests.append(crest_factor(outlying, images))
        products = {"float": in_float}
        products |= {fmt: scaled(outlying, fmt, calibration) for fmt in SCALED}
        products |= {fmt: in_blocks(fmt) for fmt in BLOCKS}
        for name, product in products.items():
            outputs = outlying.outputs(images, product)
            rows[name].append(
                (100 * float((outputs.argmax(axis=1) == digits).mean()), fp8.sqnr(wanted, outputs))
            )
    return rows, crests


def table(rows: dict[str, list[tuple[float, float]]], crests: list[float]) -> str:
    """The results as text."""
    lines = [f"{'channels times':14}" + "".join(f"{factor:>16}" for factor in FACTORS)]
    lines += [f"{'crest factor':14}" + "".join(f"{crest:16.1f}" for crest in crests)]
    lines += [f"{'':14}" + f"{'%':>9}{'dB':>7}" * len(FACTORS)]
    for name, results in rows.items():
        cells = "".join(
            f"{accuracy:9.1f}{'' if name == 'float' else f'{ratio:.1f}':>7}" for accuracy, ratio in results
        )
        lines.append(f"{name:14}{cells}".rstrip())
    return "\n".join(lines)


def draw(rows: dict[str, list[tuple[float, float]]], crests: list[float], path: str) -> None:
    """Accuracy and SQNR over the crest factor, as a figure in a file."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for name, results in rows.items():
        style = "k:" if name == "float" else "o-" if name in SCALED else "s--"
        for place, axes in enumerate(panels):
            if name != "float" or place == 0:
                axes.plot(FACTORS, [result[place] for result in results], style, label=name, markersize=4)
    for axes, label in zip(panels, ("accuracy in %", "SQNR of the outputs in dB"), strict=True):
        axes.set(xlabel=f"factor of {CHANNELS} channels of 128", ylabel=label, xticks=FACTORS)
        axes.set_xscale("log", base=2)
        axes.set_xticks(
            FACTORS, [f"{factor}\ncrest {crest:.0f}" for factor, crest in zip(FACTORS, crests, strict=True)]
        )
    panels[0].legend(fontsize="small")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


@click.command()
@click.option(
    "--quick", is_flag=True, help="A network trained less, and fewer images: seconds instead of a minute."
)
@click.option("--plot", type=click.Path(dir_okay=False), help="Write the figure to this file.")
def main(quick: bool, plot: str | None) -> None:
    """Hold int8, FP8 and MX against each other on a network with outliers."""
    rows, crests = measured(quick)
    click.echo(table(rows, crests))
    if plot:
        draw(rows, crests, plot)


if __name__ == "__main__":
    main()
