"""Loads a checkpoint of Lockstep into a PyTorch network and compares its scores with those that Lockstep computed.

compare.py FOLDER NAME PIXELS: FOLDER has model.safetensors or its shards, and sample.safetensors with `image`
(N, H, W, C) and `scores`. With FOLDER "-", prints the names and shapes that the network has instead.
"""

import json
import pathlib
import sys

import torch

from networks import network

CLASSES = 10
TYPES = {"F32": torch.float32, "F64": torch.float64, "I32": torch.int32, "I64": torch.int64}


def tensors_of(path):
    raw = bytearray(path.read_bytes())
    begin = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:begin])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        kind, first = TYPES[entry["dtype"]], begin + entry["data_offsets"][0]
        count = (entry["data_offsets"][1] - entry["data_offsets"][0]) // kind.itemsize
        tensors[name] = torch.frombuffer(raw, dtype=kind, count=count, offset=first).reshape(entry["shape"])
    return tensors


def checkpoint(folder):
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return tensors_of(folder / "model.safetensors")
    places = json.loads(index.read_text())["weight_map"]
    tensors = {}
    for file in sorted(set(places.values())):
        tensors |= tensors_of(folder / file)
    assert {name: places[name] for name in tensors} == places, "the index names other tensors than the shards have"
    return tensors


def main(folder, name, pixels):
    net = network(name, int(pixels), CLASSES).double().eval()
    if folder == "-":
        for key, value in sorted(net.state_dict().items()):
            if not key.endswith("num_batches_tracked"):
                print(key, *value.shape)
        return
    net.load_state_dict(checkpoint(pathlib.Path(folder)), strict=True)
    sample = tensors_of(pathlib.Path(folder) / "sample.safetensors")
    with torch.no_grad():
        scores = net(sample["image"].double().permute(0, 3, 1, 2))
    off = (scores - sample["scores"]).norm() / scores.norm()
    print(f"{name}: {off:.1e} of the norm of the scores")
    assert off < 1e-9, (scores, sample["scores"])


main(*sys.argv[1:])
