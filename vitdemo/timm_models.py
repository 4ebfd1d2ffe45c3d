"""A pretrained Vision Transformer of timm's, by name, shown as it comes: without a run folder.

Its classes are those that it was trained on (ImageNet's 1,000, with their names), its weights
timm's own download or a local file.

    run = timm_run("timm:deit_tiny_patch16_224")
    run.classes[281]  # "tabby, tabby cat"
    run = download(run)  # its weights, which timm would otherwise fetch when they are first needed

A model that was trained without labels (DINO) has no classes: `run.classes` is ().
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import timm
import torch
from huggingface_hub import try_to_load_from_cache
from huggingface_hub.constants import HF_HOME
from timm.data import ImageNetInfo, infer_imagenet_subset
from torch import nn

from vitdemo.attention import check_model
from vitdemo.downloads import OnBytes, download_from_hub
from vitdemo.errors import ModelError, RunError, Stopped
from vitdemo.models import ModelSpec, build_model, count_parameters
from vitdemo.runs import Evaluation, Run
from vitdemo.training import Preprocessing

PREFIX = "timm:"
WEIGHTS = "model.safetensors"  # in each of timm's repositories
LARGEST_GRID = 28  # patches a side, of which a picture's attention takes 90 MB in a ViT-S
SMALLER_GRID = 16  # that of ViT-L/14 at 224 px
VARIABLE = "VITDEMO_MODELS"  # names of models to show, with commas between them


@dataclass(frozen=True)
class Suggestion:
    """A model worth having beside the trained ones: timm's `name`, and what it is good for."""

    name: str
    title: str
    use: str


SUGGESTIONS = (
    Suggestion(
        "deit_tiny_patch16_224.fb_in1k",
        "DeiT-Tiny",
        "Answers with ImageNet's 1,000 classes, so any photo gets one; small and quick.",
    ),
    Suggestion(
        "deit_small_patch16_224.fb_in1k",
        "DeiT-Small",
        "The same classes, more often right: twice the width, four times the size.",
    ),
    Suggestion(
        "vit_small_patch16_224.dino",
        "DINO, ViT-S/16",
        "Learnt without labels (Caron et al. 2021): no classes, but heads that trace objects.",
    ),
    Suggestion(
        "vit_small_patch14_reg4_dinov2.lvd142m",
        "DINOv2 with registers, ViT-S/14",
        "Learnt without labels, with four register tokens (Darcet et al. 2024): smooth maps.",
    ),
)


@dataclass(frozen=True)
class TimmRun(Run):
    """A model of timm's in the form that the page shows; it has no history and no evaluation.

    `weights` is a local file of them; None downloads timm's. `pretrained` False leaves the weights
    random, which is of use in tests alone.
    """

    weights: Path | None = None
    pretrained: bool = True

    @property
    def has_weights(self) -> bool:
        return True

    @property
    def has_evaluation(self) -> bool:
        return False

    @property
    def evaluation(self) -> Evaluation:
        raise RunError(f"'{self.name}' was not trained here: it has no evaluation.")


def timm_run(text: str, *, pretrained: bool = True) -> TimmRun:
    """The model of `text`, "timm:NAME" or "timm:NAME=FILE" with a local file of its weights.

    It takes pictures of timm's size, but for those that would make more than 28 x 28 patches: then
    16 x 16, for which timm interpolates the position embeddings. Nothing is downloaded yet.
    Raises `ModelError` where timm has no such model, or where it is not one that can be explained:
    a plain Vision Transformer.
    """
    name, _, file = text.removeprefix(PREFIX).partition("=")
    if not text.startswith(PREFIX) or not name:
        raise ModelError(f"--model '{text}' is not of the form timm:NAME or timm:NAME=FILE.")
    if not timm.is_model(name):
        raise ModelError(f"timm has no model '{name}': see timm.list_models('*vit*').")
    if file and not Path(file).is_file():
        raise ModelError(f"The weights file '{file}' does not exist.")
    model = _without_weights(name)
    config = timm.get_pretrained_cfg(name)
    size = _image_size(model, config.input_size[-1])
    return TimmRun(
        path=Path(text),
        name=PREFIX + name,
        config={
            "recipe": {"name": PREFIX + name, "summary": f"timm's {name}, as it comes"},
            "parameters": count_parameters(model),
        },
        classes=_class_names(model),
        spec=ModelSpec("timm", size, name),
        preprocessing=Preprocessing(size, tuple(config.mean), tuple(config.std)),
        history=(),
        stamp=(text, pretrained),
        weights=Path(file) if file else None,
        pretrained=pretrained,
    )


def licence(run: TimmRun) -> str:
    """As timm names it; "" where it does not."""
    return timm.get_pretrained_cfg(run.spec.name).license or ""


def download(run: TimmRun, on_bytes: OnBytes | None = None) -> TimmRun:
    """`run` with its weights as a local file, fetched where they are not here yet.

    `on_bytes(done, total)` may raise `Stopped` to end it: the next download goes on there. Weights
    that do not lie on the Hub are left to timm, which fetches them when they are first needed.
    Raises `ModelError` where they cannot be had.
    """
    repository = timm.get_pretrained_cfg(run.spec.name).hf_hub_id
    if run.weights or not repository or known_weights(run):
        return run
    words = f"{run.spec.name} from the Hub"
    try:
        file = download_from_hub(
            repository, WEIGHTS, _folder(repository), words=words, on_bytes=on_bytes
        )
    except Stopped:
        raise
    except Exception as error:  # httpx, huggingface_hub, disk: all end in the same way out
        reason = str(error).partition("\n")[0][:200] or type(error).__name__
        raise ModelError(
            f"The weights of '{run.spec.name}' could not be downloaded ({reason}): check the "
            f"network, or start with --model {run.name}=FILE, a local file of them."
        ) from error
    return replace(run, weights=file)


def known_weights(run: TimmRun) -> Path | None:
    """The file that `download`, or timm, left here at any time."""
    repository = timm.get_pretrained_cfg(run.spec.name).hf_hub_id
    if not repository:
        return None
    found = sorted(_folder(repository).glob(f"*-{WEIGHTS}"))
    kept = found[-1] if found else try_to_load_from_cache(repository, WEIGHTS)
    return Path(kept) if isinstance(kept, str | Path) else None


def _folder(repository: str) -> Path:
    """Beside what huggingface_hub keeps."""
    return Path(HF_HOME) / "vitdemo" / repository.replace("/", "--")


def load_timm_model(run: TimmRun, device: torch.device) -> nn.Module:
    """The model in evaluation mode on `device`. Raises `ModelError` without its weights."""
    kept = known_weights(run) if run.pretrained and not run.weights else None
    options = {"pretrained": run.pretrained, "weights": run.weights or kept}
    try:
        with torch.inference_mode(False):
            model = build_model(run.spec, len(run.classes), **options)
    except ModelError:
        if kept:  # a damaged file would be found again and again
            kept.unlink(missing_ok=True)
        raise
    return model.eval().to(device)


def _without_weights(name: str) -> nn.Module:
    with torch.device("meta"):  # its parts alone: quick, and no memory
        model = timm.create_model(name, pretrained=False)
    try:
        check_model(model)
    except TypeError as error:
        raise ModelError(f"timm's '{name}' cannot be shown. {error}") from error
    if model.num_classes == 1:
        raise ModelError(f"timm's '{name}' has a single class: there is nothing to tell apart.")
    return model


def _image_size(model: nn.Module, size: int) -> int:
    """`size`, or less where its patches would be so many that their attention is too much."""
    patch = model.patch_embed.patch_size[0]
    return size if size <= LARGEST_GRID * patch else SMALLER_GRID * patch


def _class_names(model: nn.Module) -> tuple[str, ...]:
    subset = infer_imagenet_subset(model)
    if subset is None:
        return tuple(f"class {index}" for index in range(model.num_classes))
    info = ImageNetInfo(subset)
    return _told_apart([info.index_to_description(i) for i in range(model.num_classes)])


def _told_apart(names: Sequence[str]) -> tuple[str, ...]:
    """A name that several classes have (ImageNet's two cranes) with each one's number."""
    times = Counter(names)
    return tuple(
        name if times[name] == 1 else f"{name} (class {index})" for index, name in enumerate(names)
    )
