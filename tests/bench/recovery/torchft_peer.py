"""A replica group of one process under torchft: its manager averages gradients, and a newcomer takes a survivor's
state.

torchft_peer.py LEDGER REPLICA LAYERS WIDTH, with TORCHFT_LIGHTHOUSE in the environment.
"""

import datetime
import sys

import torch
import torch.distributed as dist
from torchft import Manager, ProcessGroupGloo

import peer_model


def main(ledger, replica, layers, width):
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    network = peer_model.model(int(layers), int(width))
    optimizer = peer_model.optimizer_of(network)
    parameters = list(network.parameters())
    gradients = torch.zeros(sum(p.numel() for p in parameters))  # one tensor, so that there is one all-reduce
    for p, part in zip(parameters, gradients.split([p.numel() for p in parameters])):
        p.grad = part.view_as(p)

    def load(state):
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])

    manager = Manager(
        pg=ProcessGroupGloo(timeout=datetime.timedelta(seconds=5)), load_state_dict=load,
        state_dict=lambda: {"network": network.state_dict(), "optimizer": optimizer.state_dict()},
        min_replica_size=1, replica_id=f"group_{replica}", store_addr="127.0.0.1", store_port=store.port, rank=0,
        world_size=1, hostname="127.0.0.1", init_sync=False, timeout=datetime.timedelta(seconds=10))
    lines = peer_model.Ledger(ledger)
    while True:
        manager.start_quorum()
        gradients.zero_()
        samples, classes = peer_model.batch(manager.current_step(), int(replica))
        torch.nn.functional.cross_entropy(network(samples), classes).backward()
        manager.allreduce(gradients).wait()
        if manager.should_commit():
            optimizer.step()
            lines.committed(manager.current_step(), manager._quorum_id, manager.participating_rank() or 0,
                            manager.num_participants())


if __name__ == "__main__":
    main(*sys.argv[1:])
