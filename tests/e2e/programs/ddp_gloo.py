"""A PyTorch program that knows nothing of Lockstep: DistributedDataParallel over gloo, with checkpoints of its own.

Usage: ddp_gloo.py STEPS CHECKPOINT_FOLDER

If CHECKPOINT_FOLDER holds a named pipe `hold`, rank 0 waits after its first checkpoint until a writer opens the pipe.
"""

import hashlib
import os
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CHECKPOINT_EVERY = 20


def batch(step, rank):
    """Points of a rank's own, the same ones whenever a step is done again: which of two blurred circles are they on?"""
    chance = torch.Generator().manual_seed(1000 * step + rank)
    outer = torch.randint(2, (32, 1), generator=chance).float()
    angle = 6.2832 * torch.rand(32, 1, generator=chance)
    radius = 1 + outer + 0.4 * torch.randn(32, 1, generator=chance)
    return torch.cat([angle.cos(), angle.sin()], dim=1) * radius, outer


def main(steps, folder):
    torch.set_num_threads(1)
    torch.manual_seed(7)
    dist.init_process_group("gloo")
    rank, path = dist.get_rank(), os.path.join(folder, "newest.pt")
    model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                                                  nn.Linear(64, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    begin = 0
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        begin = saved["step"]
    print(f"begins at step {begin} of {steps}", flush=True)
    for step in range(begin, steps):
        points, outer = batch(step, rank)
        loss = nn.functional.binary_cross_entropy_with_logits(model(points), outer)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and (step + 1) % CHECKPOINT_EVERY == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1},
                       path + ".new")
            os.replace(path + ".new", path)
            if step + 1 == CHECKPOINT_EVERY and os.path.exists(os.path.join(folder, "hold")):
                open(os.path.join(folder, "hold")).close()
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    all_ranks = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(all_ranks, flat)
    assert all(torch.equal(flat, other) for other in all_ranks), "the ranks hold different parameters"
    digest = hashlib.sha256(bytes(flat.view(torch.uint8).tolist())).hexdigest()
    print(f"ends at step {steps} with the same parameters on {len(all_ranks)} ranks: {digest}", flush=True)
    dist.barrier()
    # An orderly end of PyTorch 2.15 now and then aborts with "terminate called without an active exception".
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
