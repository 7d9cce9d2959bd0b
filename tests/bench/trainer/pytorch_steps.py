"""Trains a convolutional network with PyTorch, one step for each line of the standard input. It answers with the step's
wall time and CPU time in seconds. Its peer is `convolution_bench --on-request`.

Runs under the Python that tests/e2e/torch.sh prints. Images are channels_last, the faster order of PyTorch on a CPU.
"""

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


# The network, its images in a step (as in network.cpp), their pixels, and its classes.
NETWORKS = {
    "resnet18-cifar": (lambda: resnet(basic, (2, 2, 2, 2), True, 10), 64, 32, 10),
    "resnet50": (lambda: resnet(bottleneck, (3, 4, 6, 3), False, 1000), 16, 224, 1000),
    "mobilenet-v2": (mobilenet_v2, 16, 224, 1000),
    "vgg-a": (vgg_a, 8, 224, 1000),
}


def main():
    name, threads = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    make, batch, pixels, classes = NETWORKS[name]
    network = make().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)
    images = torch.randn(batch, 3, pixels, pixels).to(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (batch,))
    loss_of = nn.CrossEntropyLoss()
    for _ in sys.stdin:
        wall, cpu = time.monotonic(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        loss_of(network(images), labels).backward()
        optimizer.step()
        print(f"{time.monotonic() - wall:.6f} {time.process_time() - cpu:.6f}", flush=True)


if __name__ == "__main__":
    main()
