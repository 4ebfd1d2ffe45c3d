"""Training in several processes, one per device, started by `torchrun`.

Every process loads the whole dataset and draws the same random numbers. Each process augments and
trains on a part of each batch. Without `torchrun`, these functions do nothing.
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
    """Group of `count` processes that train together, and the `rank` of this process."""

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """True in the first process, the only one that writes files and prints."""
        return self.rank == 0

    def distribute_model(self, model: nn.Module) -> nn.Module:
        """Copy the first process's weights to all processes, and average gradients over them."""
        if self.count == 1:
            return model
        device = next(model.parameters()).device
        return DistributedDataParallel(model, [device] if device.type == "cuda" else None)

    def all_reduce_sum(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over all processes, in place."""
        if self.count > 1:
            dist.all_reduce(tensor)
        return tensor

    def broadcast_buffers(self, model: nn.Module) -> None:
        """Copy the first process's buffers to all processes, whose BatchNorm statistics differ."""
        if self.count > 1:
            for buffer in model.buffers():
                dist.broadcast(buffer, 0)

    def broadcast_flag(self, flag: bool, device: torch.device) -> bool:
        """Return the value of `flag` in the first process."""
        return bool(
            self.all_reduce_sum(torch.tensor(float(flag and self.is_first), device=device)).item()
        )

    def destroy_group(self) -> None:
        if self.count > 1:
            dist.destroy_process_group()


def is_first_process() -> bool:
    """Return whether this process has rank 0, even before `join_processes`."""
    return int(os.environ.get("RANK", 0)) == 0


def join_processes(device: torch.device) -> tuple[Processes, torch.device]:
    """Return the processes that `torchrun` started and the device of this process.

    Raises `VitdemoError` if there are more processes than GPUs.
    """
    count = int(os.environ.get("WORLD_SIZE", 1))
    if count == 1:
        return Processes(), device
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    if device.type == "cuda":
        if local >= torch.cuda.device_count():
            raise VitdemoError(
                f"torchrun started {os.environ['LOCAL_WORLD_SIZE']} processes, but this computer "
                f"has {torch.cuda.device_count()} GPUs: use a smaller --nproc_per_node, or "
                "--device cpu."
            )
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    dist.barrier()  # no process may write to the run folder before all processes have read it
    return Processes(rank, count), device
