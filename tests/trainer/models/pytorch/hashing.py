"""The numbers that the networks of both sides begin with: trainer/core/random.h, over tensors of PyTorch."""

import math

import torch

MASK = (1 << 64) - 1
SEED = 17  # of pytorch_test.cpp


def _signed(x):
    return x - (1 << 64) if x >> 63 else x


def _shift(x, bits):
    """To the right, as unsigned integers are."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def mix(x):
    """core::mix of an int, or of each element of an int64 tensor."""
    if isinstance(x, int):
        x = (x + 0x9E3779B97F4A7C15) & MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        return x ^ (x >> 31)
    x = x + _signed(0x9E3779B97F4A7C15)
    x = (x ^ _shift(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shift(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _shift(x, 31)


def key_of(name):
    """core::derive(SEED, name)"""
    fnv = 0xCBF29CE484222325
    for byte in name.encode():
        fnv = ((fnv ^ byte) * 0x100000001B3) & MASK
    return mix(SEED ^ mix(fnv))


def bits(name, count):
    """core::derive(key_of(name), i) for i below `count`, as int64."""
    return mix(mix(torch.arange(count, dtype=torch.int64)) ^ _signed(key_of(name)))


def hashed(name, shape):
    """Uniform in [-1, 1), by the name and the place in the order of memory."""
    count = math.prod(shape)
    return (_shift(bits(name, count), 11).double() * 2.0**-52 - 1).reshape(shape)


def indices(name, shape, below):
    # An unsigned remainder, which int64 does not have.
    return torch.tensor([(v & MASK) % below for v in bits(name, math.prod(shape)).tolist()]).reshape(shape)


def initial(name, shape):
    """The value of a parameter or a running statistic."""
    value = hashed(name, shape)
    if name.endswith((".gain", ".running_variance")):
        return 1 + value / 4
    if len(shape) == 1:
        return value / 4
    return value * math.sqrt(6 / math.prod(shape[1:]))  # He's variance, from the numbers that a sum has
