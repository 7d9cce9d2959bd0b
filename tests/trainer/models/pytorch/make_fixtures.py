"""Writes what PyTorch computes in one training step of each network of trainer/models, for pytorch_test.cpp:

    $(tests/e2e/torch.sh) tests/trainer/models/pytorch/make_fixtures.py

All of it is float64: scores, mean loss, the gradient of each parameter, and the running statistics after the step. A
tensor is one line: what it is, its name, its number of elements, its norm, and 64 of its elements (hashing.bits says
which; all of a small one). A tensor that is zero but for rounding has the norm 0 and no elements. Batch norm takes
away what a shift before the convolution before it adds.
"""

import pathlib

import torch
import torch.nn.functional as F

import networks
from hashing import MASK, bits, hashed, indices

FOLDER = pathlib.Path(__file__).parent
SAMPLES = 64
ZERO = 1e-12  # the norm of what is zero but for rounding; of pytorch_test.cpp


def resnet(block, blocks, **options):
    return lambda net, x: networks.resnet(net, x, block, blocks, **options)


# name: (network, shape of its input, classes, label smoothing). pytorch_test.cpp has the same list.
CASES = {
    "mlp": (lambda net, x: networks.mlp(net, x, width=12, layers=2, classes=5), (8, 6), 5, 0),
    "char-transformer": (
        lambda net, x: networks.char_transformer(net, x, vocabulary=11, layers=2, width=16, heads=4), (2, 8), 11, 0),
    "resnet18-cifar": (
        resnet(networks.basic_block, (2, 2, 2, 2), width=16, classes=10, cifar=True), (4, 32, 32, 3), 10, 0),
    "resnet18": (resnet(networks.basic_block, (2, 2, 2, 2), width=16, classes=10), (4, 64, 64, 3), 10, 0),
    "resnet50": (resnet(networks.bottleneck, (3, 4, 6, 3), width=8, classes=10), (4, 64, 64, 3), 10, 0.1),
    "mobilenet-v2": (lambda net, x: networks.mobilenet_v2(net, x, classes=10), (4, 64, 64, 3), 10, 0.1),
    "vgg-a": (lambda net, x: networks.vgg_a(net, x, classes=10), (2, 32, 32, 3), 10, 0),
}


def line(kind, name, tensor):
    values = tensor.detach().flatten()
    if values.norm() < ZERO:
        return f"{kind} {name} {len(values)} 0\n"
    at = range(len(values))
    if len(values) > SAMPLES:
        at = [(v & MASK) % len(values) for v in bits("sample", SAMPLES).tolist()]
    numbers = [values.norm().item()] + [values[i].item() for i in at]
    return f"{kind} {name} {len(values)} " + " ".join(f"{number:.12g}" for number in numbers) + "\n"


def fixture(name):
    build, shape, classes, smoothing = CASES[name]
    net = networks.Network()
    if name == "char-transformer":
        x, y = indices("characters", shape, classes), indices("targets", shape, classes).flatten()
    elif len(shape) == 4:
        x, y = hashed("image", shape).permute(0, 3, 1, 2), indices("class", shape[:1], classes)
    else:
        x, y = hashed("features", shape), indices("class", shape[:1], classes)
    scores = build(net, x)
    loss = F.cross_entropy(scores, y, label_smoothing=smoothing)
    loss.backward()
    lines = [f"# {name}, by PyTorch {torch.__version__.split('+')[0]} in float64 (make_fixtures.py)\n"]
    lines += [line("scores", "scores", scores), line("loss", "loss", loss)]
    lines += [line("gradient", n, parameter.grad) for n, parameter in net.parameters.items()]
    lines += [line("statistic", n, statistic) for n, statistic in net.statistics.items()]
    return "".join(lines)


def main():
    for name in CASES:
        (FOLDER / f"{name}.txt").write_text(fixture(name))


if __name__ == "__main__":
    main()
