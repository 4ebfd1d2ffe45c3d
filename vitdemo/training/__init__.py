"""Training: recipes, the training loop, and the devices and processes that it uses."""

from vitdemo.training.devices import choose_compile_mode, choose_device
from vitdemo.training.inference import Preprocessing, predict_logits
from vitdemo.training.trainer import Trainer

__all__ = ["Preprocessing", "Trainer", "choose_compile_mode", "choose_device", "predict_logits"]
