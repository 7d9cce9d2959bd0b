"""Trains a network with PyTorch and prints its images per second as lockstep-trainer does. It computes in bfloat16
by AMP and channels_last, on images that stay where they are computed on.

    pytorch_speed.py NETWORK DEVICE BATCH PIXELS WARMUP STEPS

Runs under the Python that tests/e2e/torch.sh prints. DEVICE is cuda, or cpu to test this script:
in float32 then, because a CPU may take minutes for a step in bfloat16.
"""

import pathlib
import sys
import time

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench/trainer"))
import pytorch_steps  # noqa: E402

CLASSES = 1000  # of ImageNet, which both networks are made for


def main():
    name, device = sys.argv[1:3]
    batch, pixels, warmup, steps = map(int, sys.argv[3:])
    make, _ = pytorch_steps.NETWORKS[name]
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    network = make().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)
    images = torch.randn(batch, 3, pixels, pixels, device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(0, CLASSES, (batch,), device=device)
    loss_of = nn.CrossEntropyLoss()
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    for step in range(warmup + steps):
        if step == warmup:
            wait()
            begun = time.monotonic()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = loss_of(network(images), labels)
        loss.backward()
        optimizer.step()
    wait()
    seconds = time.monotonic() - begun
    print(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name() if device == 'cuda' else 'the CPU'}")
    print(f"total images/sec: {steps * batch / seconds:.2f}")


if __name__ == "__main__":
    main()
