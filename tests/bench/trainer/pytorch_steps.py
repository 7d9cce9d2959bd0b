"""Trains a network with PyTorch, one step for each line of the standard input. It answers with the step's wall time and
CPU time in seconds, and with the most memory in MiB that the process has had.

Its peer is `training_step_bench --on-request`. Runs under the Python that tests/e2e/torch.sh prints:

  pytorch_steps.py NETWORK THREADS eager|compiled

Images are channels_last, the faster order of PyTorch on a CPU.
"""

import logging
import pathlib
import re
import sys
import time

import torch
from torch import nn


def conv_norm(inputs, outputs, kernel=1, stride=1, groups=1, activation=None):
    layers = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([activation(inplace=True)] if activation else []))


class Residual(nn.Module):
    """The sum of a path and its input, which is projected where the shapes differ; then ReLU."""

    def __init__(self, path, inputs, outputs, stride):
        super().__init__()
        self.path = path
        self.skip = conv_norm(inputs, outputs, 1, stride) if stride > 1 or inputs != outputs else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.path(x) + self.skip(x))


def basic(inputs, width, stride):
    path = nn.Sequential(conv_norm(inputs, width, 3, stride, activation=nn.ReLU), conv_norm(width, width, 3))
    return Residual(path, inputs, width, stride), width


def bottleneck(inputs, width, stride):
    path = nn.Sequential(
        conv_norm(inputs, width, activation=nn.ReLU),
        conv_norm(width, width, 3, stride, activation=nn.ReLU),
        conv_norm(width, 4 * width),
    )
    return Residual(path, inputs, 4 * width, stride), 4 * width


def resnet(block, blocks, small, classes):
    layers = [conv_norm(3, 64, 3 if small else 7, 1 if small else 2, activation=nn.ReLU)]
    if not small:
        layers.append(nn.MaxPool2d(3, 2, 1))
    channels = 64
    for stage, count in enumerate(blocks):
        for i in range(count):
            layer, channels = block(channels, 64 << stage, 2 if stage > 0 and i == 0 else 1)
            layers.append(layer)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class InvertedResidual(nn.Module):
    """MobileNet-V2's block: widens, convolves each channel by itself, narrows."""

    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        width = inputs * expansion
        layers = [conv_norm(inputs, width, activation=nn.ReLU6)] if expansion > 1 else []
        layers.append(conv_norm(width, width, 3, stride, groups=width, activation=nn.ReLU6))
        self.path = nn.Sequential(*layers, conv_norm(width, outputs))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.path(x) if self.adds else self.path(x)


def mobilenet_v2():
    layers, channels = [conv_norm(3, 32, 3, 2, activation=nn.ReLU6)], 32
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expansion, outputs, blocks, stride in stages:
        for i in range(blocks):
            layers.append(InvertedResidual(channels, outputs, stride if i == 0 else 1, expansion))
            channels = outputs
    layers += [conv_norm(channels, 1280, activation=nn.ReLU6), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Dropout(0.2), nn.Linear(1280, 1000))


def vgg_a():
    layers, channels = [], 3
    for outputs in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        if outputs == 0:
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.ReLU(inplace=True)]
        channels = outputs
    layers.append(nn.Flatten())
    for inputs in (512 * 7 * 7, 4096):
        layers += [nn.Linear(inputs, 4096), nn.ReLU(inplace=True), nn.Dropout()]
    return nn.Sequential(*layers, nn.Linear(4096, 1000))


def mlp():
    layers = []
    for inputs in (784, 512):
        layers += [nn.Linear(inputs, 512, bias=False), nn.BatchNorm1d(512), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Linear(512, 10))


class Block(nn.Module):
    """Pre-norm causal attention and a feed-forward part, each added to its input."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.projection = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        samples, positions, width = x.shape
        parts = self.qkv(self.norm(x)).view(samples, positions, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(seen.transpose(1, 2).reshape(samples, positions, width))
        return x + self.feed_forward(x)


class Transformer(nn.Module):
    """A GPT over characters, as trainer/models/char_transformer.h has it."""

    def __init__(self, vocabulary=65, context=128, layers=4, width=128, heads=4):
        super().__init__()
        self.characters, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)), nn.LayerNorm(width))
        self.scores = nn.Linear(width, vocabulary, bias=False)

    def forward(self, characters):
        return self.scores(self.blocks(self.characters(characters) + self.positions.weight)).flatten(0, 1)


def images(samples, pixels, classes):
    return torch.randn(samples, 3, pixels, pixels), torch.randint(0, classes, (samples,))


# The network, and its samples with their classes: as many in a step as in network.cpp.
NETWORKS = {
    "resnet18-cifar": (lambda: resnet(basic, (2, 2, 2, 2), True, 10), lambda: images(64, 32, 10)),
    "resnet50": (lambda: resnet(bottleneck, (3, 4, 6, 3), False, 1000), lambda: images(16, 224, 1000)),
    "mobilenet-v2": (mobilenet_v2, lambda: images(16, 224, 1000)),
    "vgg-a": (vgg_a, lambda: images(8, 224, 1000)),
    "mlp": (mlp, lambda: (torch.randn(128, 784), torch.randint(0, 10, (128,)))),
    "char-transformer": (Transformer, lambda: (torch.randint(0, 65, (32, 128)), torch.randint(0, 65, (32 * 128,)))),
}


def peak_mib():
    return int(re.search(r"^VmHWM:\s+(\d+)", pathlib.Path("/proc/self/status").read_text(), re.M)[1]) // 1024


def main():
    name, threads, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    make, draw = NETWORKS[name]
    network, (samples, classes) = make(), draw()
    if samples.dim() == 4:
        network, samples = (it.to(memory_format=torch.channels_last) for it in (network, samples))
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)
    if how == "compiled":
        logging.getLogger("torch").setLevel(logging.ERROR)  # it warns that there is no Triton, which a GPU needs
        network = torch.compile(network)
    loss_of = nn.CrossEntropyLoss()
    for _ in sys.stdin:
        wall, cpu = time.monotonic(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        loss_of(network(samples), classes).backward()
        optimizer.step()
        print(f"{time.monotonic() - wall:.6f} {time.process_time() - cpu:.6f} {peak_mib()}", flush=True)


if __name__ == "__main__":
    main()
