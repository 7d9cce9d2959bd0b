"""The networks of trainer/models in PyTorch's functions, with the names and the order of weights that Lockstep has.

Images are N, C, H, W inside, and convolution weights O, H, W, I outside.
"""

import torch
import torch.nn.functional as F

from hashing import initial


class Network:
    """Parameters and running statistics by name, made when a layer asks for them."""

    def __init__(self):
        self.parameters, self.statistics = {}, {}

    def parameter(self, name, *shape):
        self.parameters[name] = initial(name, shape).requires_grad_()
        return self.parameters[name]

    def conv(self, name, x, outputs, kernel=1, stride=1, padding=0, groups=1, bias=False):
        weight = self.parameter(f"{name}.weight", outputs, kernel, kernel, x.shape[1] // groups)
        offset = self.parameter(f"{name}.bias", outputs) if bias else None
        return F.conv2d(x, weight.permute(0, 3, 1, 2), offset, stride, padding, groups=groups)

    def batch_norm(self, name, x):
        features = x.shape[1]
        gain, shift = self.parameter(f"{name}.gain", features), self.parameter(f"{name}.shift", features)
        names = [f"{name}.running_mean", f"{name}.running_variance"]
        mean, variance = (self.statistics.setdefault(n, initial(n, (features,))) for n in names)
        return F.batch_norm(x, mean, variance, gain, shift, training=True, momentum=0.1, eps=1e-5)

    def layer_norm(self, name, x):
        features = x.shape[-1]
        gain, shift = self.parameter(f"{name}.gain", features), self.parameter(f"{name}.shift", features)
        return F.layer_norm(x, (features,), gain, shift, eps=1e-5)

    def linear(self, name, x, outputs, bias=True):
        weight = self.parameter(f"{name}.weight", outputs, x.shape[-1])
        return F.linear(x, weight, self.parameter(f"{name}.bias", outputs) if bias else None)


def mlp(net, x, width, layers, classes):
    for i in range(layers):
        x = net.linear(f"hidden.{i}", x, width, bias=False)
        x = F.relu(net.batch_norm(f"hidden.{i}.norm", x))
    return net.linear("scores", x, classes)


def char_transformer(net, characters, vocabulary, layers, width, heads):
    batch, context = characters.shape
    table = net.parameter("embedding.table", vocabulary, width)
    x = F.embedding(characters, table) + net.parameter("embedding.positions", context, width)
    for i in range(layers):
        name = f"block.{i}"
        h = net.layer_norm(f"{name}.attention.norm", x)
        h = net.linear(f"{name}.attention.qkv", h, 3 * width)
        q, k, v = h.reshape(batch, context, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, context, width)
        x = x + net.linear(f"{name}.attention.projection", h, width)
        h = net.layer_norm(f"{name}.feed_forward.norm", x)
        h = F.gelu(net.linear(f"{name}.feed_forward.up", h, 4 * width), approximate="tanh")
        x = x + net.linear(f"{name}.feed_forward.down", h, width)
    return net.linear("scores", net.layer_norm("norm", x), vocabulary, bias=False).flatten(0, 1)


def resnet(net, x, block, blocks, width, classes, cifar=False):
    x = net.conv("conv1", x, width, 3, 1, 1) if cifar else net.conv("conv1", x, width, 7, 2, 3)
    x = F.relu(net.batch_norm("bn1", x))
    if not cifar:
        x = F.max_pool2d(x, 3, 2, 1)
    for stage, count in enumerate(blocks):
        for i in range(count):
            at = f"layer{stage + 1}.{i}."
            stride = 2 if stage > 0 and i == 0 else 1
            y = block(net, at, x, width << stage, stride)
            if x.shape != y.shape:
                x = net.batch_norm(f"{at}downsample.1", net.conv(f"{at}downsample.0", x, y.shape[1], stride=stride))
            x = F.relu(x + y)
    return net.linear("fc", x.mean((2, 3)), classes)


def basic_block(net, at, x, width, stride):
    x = F.relu(net.batch_norm(f"{at}bn1", net.conv(f"{at}conv1", x, width, 3, stride, 1)))
    return net.batch_norm(f"{at}bn2", net.conv(f"{at}conv2", x, width, 3, 1, 1))


def bottleneck(net, at, x, width, stride):
    x = F.relu(net.batch_norm(f"{at}bn1", net.conv(f"{at}conv1", x, width)))
    x = F.relu(net.batch_norm(f"{at}bn2", net.conv(f"{at}conv2", x, width, 3, stride, 1)))
    return net.batch_norm(f"{at}bn3", net.conv(f"{at}conv3", x, 4 * width))


def mobilenet_v2(net, x, classes):
    def conv_norm(name, x, outputs, **how):
        return net.batch_norm(f"{name}.norm", net.conv(name, x, outputs, **how))

    x = F.relu6(conv_norm("features.0", x, 32, kernel=3, stride=2, padding=1))
    number = 1
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expansion, outputs, blocks, first_stride in stages:
        for i in range(blocks):
            name, before, wide = f"features.{number}", x, x.shape[1] * expansion
            number += 1
            if expansion > 1:
                x = F.relu6(conv_norm(f"{name}.expand", x, wide))
            stride = first_stride if i == 0 else 1
            x = F.relu6(conv_norm(f"{name}.depthwise", x, wide, kernel=3, stride=stride, padding=1, groups=wide))
            x = conv_norm(f"{name}.project", x, outputs)
            if x.shape == before.shape:
                x = x + before
    x = F.relu6(conv_norm(f"features.{number}", x, 1280))
    return net.linear("classifier", x.mean((2, 3)), classes)


def vgg_a(net, x, classes):
    number = 0
    for outputs in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        if outputs:
            x = F.relu(net.conv(f"features.{number}", x, outputs, 3, 1, 1, bias=True))
            number += 2
        else:
            x = F.max_pool2d(x, 2)
            number += 1
    x = x.permute(0, 2, 3, 1).flatten(1)
    for layer in (0, 3):
        x = F.relu(net.linear(f"classifier.{layer}", x, 4096))
    return net.linear("classifier.6", x, classes)
