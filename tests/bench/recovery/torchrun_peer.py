"""A rank under torchrun: DistributedDataParallel over gloo, a checkpoint every ten steps, from which all continue after
a restart.

torchrun_peer.py LEDGER CHECKPOINT LAYERS WIDTH
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import peer_model

EVERY = 10  # steps between checkpoints


def main(ledger, path, layers, width):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    generation = int(os.environ["TORCHELASTIC_RESTART_COUNT"]) + 1
    network = peer_model.model(int(layers), int(width))
    optimizer = peer_model.optimizer_of(network)
    step = 0
    if os.path.exists(path):
        saved = torch.load(path, weights_only=True)
        network.load_state_dict(saved["network"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    replicas = DistributedDataParallel(network, gradient_as_bucket_view=True)
    lines = peer_model.Ledger(ledger)
    while True:
        samples, classes = peer_model.batch(step, rank)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(replicas(samples), classes).backward()
        optimizer.step()
        step += 1
        lines.committed(step, generation, rank, world)
        if rank == 0 and step % EVERY == 0:
            torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
                       path + ".new")
            os.replace(path + ".new", path)


if __name__ == "__main__":
    main(*sys.argv[1:])
