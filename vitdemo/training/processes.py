"""One training in several processes, one a device, as `torchrun` starts them.

Every process holds the whole data set and draws the same numbers; it augments and trains on its own
share of each batch. Without `torchrun` there is one process, and nothing here does anything.
"""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from vitdemo.errors import VitdemoError


@dataclass(frozen=True)
class Processes:
    """How many train together, and which of them this one is."""

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """The first process alone writes and prints."""
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model with its gradients averaged over all processes; also copies the first's."""
        if self.count == 1:
            return model
        device = next(model.parameters()).device
        return DistributedDataParallel(model, [device] if device.type == "cuda" else None)

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.count > 1:
            dist.all_reduce(tensor)
        return tensor

    def share_buffers(self, model: nn.Module) -> None:
        """Give all processes the first one's buffers: BatchNorm's statistics are each one's own."""
        if self.count > 1:
            for buffer in model.buffers():
                dist.broadcast(buffer, 0)

    def agree(self, answer: bool, device: torch.device) -> bool:
        """The first process's answer, in all of them."""
        return bool(self.sum(torch.tensor(float(answer and self.is_first), device=device)).item())

    def leave(self) -> None:
        if self.count > 1:
            dist.destroy_process_group()


def join_processes(device: torch.device) -> tuple[Processes, torch.device]:
    """The processes that `torchrun` started (one, without it) and this one's own device.

    Raises `VitdemoError` where there are more processes than GPUs.
    """
    count = int(os.environ.get("WORLD_SIZE", 1))
    if count == 1:
        return Processes(), device
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    if device.type == "cuda":
        if local >= torch.cuda.device_count():
            raise VitdemoError(
                f"torchrun started {os.environ['LOCAL_WORLD_SIZE']} processes here, but there are "
                f"{torch.cuda.device_count()} GPUs: lower --nproc_per_node, or pass --device cpu."
            )
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    dist.barrier()  # whoever goes on may write; by now the others have seen the folder as it was
    return Processes(rank, count), device
