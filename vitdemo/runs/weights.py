"""Saved weights of a run: after its last epoch, and after single epochs."""

import math
from dataclasses import dataclass

import torch
from torch import nn

from vitdemo.errors import RunError, VitdemoError, short_reason
from vitdemo.models import build_model
from vitdemo.models.pretrained import read_weights
from vitdemo.runs.files import EPOCHS_FOLDER, weights_path
from vitdemo.runs.lineage import get_lineage
from vitdemo.runs.run import Run


@dataclass(frozen=True)
class SavedWeights:
    """Weights saved after `run_epoch` of `run`; `epoch` also counts the epochs of earlier runs."""

    epoch: int
    run: Run
    run_epoch: int

    @property
    def record(self) -> dict | None:
        """Record of the epoch in the run's history, or None if it is missing."""
        return next((r for r in self.run.history if r["epoch"] == self.run_epoch), None)


def list_saved_weights(run: Run) -> list[SavedWeights]:
    """Return all saved weights of the runs in `get_lineage(run)`, first to last."""
    lineage = get_lineage(run)
    ends = [*(before for before, _ in lineage[1:]), math.inf]  # epoch at which the next run started
    return [
        SavedWeights(before + epoch, member, epoch)
        for (before, member), end in zip(lineage, ends, strict=True)
        for epoch in list_saved_epochs(member)
        if before + epoch <= end
    ]


def list_saved_epochs(run: Run) -> list[int]:
    """Return the epochs whose weights are saved in `epochs/`; most runs have none."""
    names = (path.stem for path in (run.path / EPOCHS_FOLDER).glob("*.safetensors"))
    return sorted(int(name) for name in names if name.isdecimal())


def load_model(run: Run, device: torch.device | str = "cpu", epoch: int | None = None) -> nn.Module:
    """Load the run's trained model on `device`, as float32 and in evaluation mode.

    With an `epoch` of `list_saved_epochs`, load the weights after this epoch. Raises `RunError` if
    the weights are missing or do not fit the model.
    """
    try:
        # Inference mode is off, because weights created in it can never have a gradient.
        with torch.inference_mode(False):
            model = build_model(run.spec, len(run.classes))
            model.load_state_dict(read_weights(weights_path(run.path, epoch)), strict=True)
    except FileNotFoundError as error:
        if epoch is not None:
            available = ", ".join(map(str, list_saved_epochs(run))) or "none"
            raise RunError(
                f"'{run.name}' has no weights of epoch {epoch}. Epochs with weights: {available}."
            ) from error
        raise RunError(
            f"'{run.name}' has no weights: it is still training, or included without weights. "
            "Choose another model."
        ) from error
    except VitdemoError:
        raise
    except Exception as error:  # safetensors and load_state_dict raise unrelated error classes
        raise RunError(
            f"The weights of '{run.name}' cannot be loaded: {short_reason(error)}. "
            "Choose another model."
        ) from error
    return model.eval().to(device)
