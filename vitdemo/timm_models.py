"""A pretrained Vision Transformer of timm's, by name, without a run folder.

Its classes are those that it was trained on (ImageNet's 1,000, with their names). Its weights are
timm's own download or a local file.

    run = timm_run("timm:deit_tiny_patch16_224")
    run.classes[281]  # "tabby, tabby cat"
    run = download(run)  # its weights, which timm would otherwise fetch when they are first needed

A model has classes only if its head is a classifier whose labels timm knows. DINO has no head, and
the head of a CLIP tower gives an embedding: `run.classes` is ().
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
from timm.models import PretrainedCfg, get_pretrained_cfg
from torch import nn

from vitdemo.attention import check_model
from vitdemo.downloads import OnBytes, download_from_hub
from vitdemo.errors import ModelError, RunError, Stopped
from vitdemo.models import ModelSpec, count_parameters, patch_side
from vitdemo.models.pretrained import build_timm, check_has_weights, check_name
from vitdemo.models.weights import existing
from vitdemo.runs import Evaluation, Run
from vitdemo.training import Preprocessing

PREFIX = "timm:"
WEIGHTS = "model.safetensors"  # in each of timm's repositories
LARGEST_GRID = 28  # patches a side, of which an image's attention takes 90 MB in a ViT-S
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
        "Predicts one of ImageNet's 1,000 classes for any photo. Small and fast.",
    ),
    Suggestion(
        "deit_small_patch16_224.fb_in1k",
        "DeiT-Small",
        "Same classes, higher accuracy: twice the width, four times the parameters.",
    ),
    Suggestion(
        "vit_small_patch16_224.dino",
        "DINO, ViT-S/16",
        "Self-supervised (Caron et al. 2021). No classes, but some heads segment objects.",
    ),
    Suggestion(
        "vit_small_patch14_reg4_dinov2.lvd142m",
        "DINOv2 with registers, ViT-S/14",
        "Self-supervised, with four register tokens (Darcet et al. 2024) and smooth maps.",
    ),
)


@dataclass(frozen=True)
class TimmRun(Run):
    """A model of timm's in the form that the page shows; it has no history and no evaluation.

    `weights` is a local file of them; None downloads timm's. `is_downloaded` says that the file is
    timm's own. `pretrained` False leaves the weights random, for tests.
    """

    weights: Path | None = None
    is_downloaded: bool = False
    pretrained: bool = True

    @property
    def place(self) -> str:
        """What tells it from another model of its name: the file of its weights."""
        own = self.weights and not self.is_downloaded
        return str(self.weights) if own else "timm's weights"

    @property
    def has_weights(self) -> bool:
        return True

    @property
    def has_evaluation(self) -> bool:
        return False

    @property
    def evaluation(self) -> Evaluation:
        raise RunError(f"'{self.name}' was not trained with vitdemo and has no evaluation.")


def timm_run(text: str, *, pretrained: bool = True) -> TimmRun:
    """Describe the model of `text`, "timm:NAME" or "timm:NAME=FILE" with a file of its weights.

    It takes images of timm's size, or the largest multiple of its patch size below it. Where those
    would make more than 28 x 28 patches, it takes 16 x 16, for which timm interpolates the position
    embeddings. Nothing is downloaded yet.

    Raises `ModelError` where timm has no such model or no such weights, where the file does not
    exist, or where the model is not one that can be explained: a plain Vision Transformer.
    """
    name, _, file = text.removeprefix(PREFIX).partition("=")
    if not text.startswith(PREFIX) or not name:
        raise ModelError(f"--model '{text}' is not of the form timm:NAME or timm:NAME=FILE.")
    check_name(name)
    if file:
        existing(file)
    elif pretrained:
        check_has_weights(name)
    model = _without_weights(name)
    config = get_pretrained_cfg(name)
    size = _image_size(model, config.input_size[-1])
    return TimmRun(
        path=Path(text),
        name=PREFIX + name,
        config={
            "recipe": {"name": PREFIX + name, "summary": f"timm's {name}, not fine-tuned"},
            "parameters": count_parameters(model),
        },
        classes=class_names(config),
        spec=ModelSpec("timm", size, name),
        preprocessing=Preprocessing(size, tuple(config.mean), tuple(config.std)),
        history=(),
        stamp=(text, pretrained),
        weights=Path(file) if file else None,
        pretrained=pretrained,
    )


def licence(run: TimmRun) -> str:
    """As timm names it; "" where it does not."""
    return get_pretrained_cfg(run.spec.name).license or ""


def download(run: TimmRun, on_bytes: OnBytes | None = None) -> TimmRun:
    """`run` with its weights as a local file, fetched where they are not here yet.

    `on_bytes(done, total)` may raise `Stopped` to end it: the next download goes on there. Weights
    that do not lie on the Hub are left to timm, which fetches them when they are first needed.
    Raises `ModelError` where they cannot be had.
    """
    repository = get_pretrained_cfg(run.spec.name).hf_hub_id
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
            f"The weights of '{run.spec.name}' could not be downloaded ({reason}). Check the "
            f"network, or use a local weights file: --model {run.name}=FILE."
        ) from error
    return replace(run, weights=file, is_downloaded=True)


def known_weights(run: TimmRun) -> Path | None:
    """The file that `download`, or timm, left here at any time."""
    repository = get_pretrained_cfg(run.spec.name).hf_hub_id
    if not repository:
        return None
    found = sorted(_folder(repository).glob(f"*-{WEIGHTS}"))
    kept = found[-1] if found else try_to_load_from_cache(repository, WEIGHTS)
    return Path(kept) if isinstance(kept, str | Path) else None


def _folder(repository: str) -> Path:
    """Beside what huggingface_hub keeps."""
    return Path(HF_HOME) / "vitdemo" / repository.replace("/", "--")


def load_timm_model(run: TimmRun, device: torch.device) -> nn.Module:
    """Build the model in evaluation mode on `device`, with its weights.

    Raises `ModelError` where they cannot be had, or a local file of them is of another model.
    """
    own = run.weights if not run.is_downloaded else None
    kept = (run.weights or known_weights(run)) if run.pretrained and not own else None
    weights = {"pretrained": run.pretrained, "weights": own, "downloaded": kept, "keep_head": True}
    try:
        with torch.inference_mode(False):
            model = build_timm(
                run.spec.name,
                len(run.classes),
                run.spec.image_size,
                **weights,
                **run.spec.options,
            )
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
        raise ModelError(f"timm's '{name}' is not supported. {error}") from error
    return model


def _image_size(model: nn.Module, size: int) -> int:
    """`size` in whole patches, or less where the attention of so many would be too much."""
    side = patch_side(model)
    patches = size // side
    return side * (patches if patches <= LARGEST_GRID else SMALLER_GRID)


def class_names(config: PretrainedCfg) -> tuple[str, ...]:
    """The labels of the classifier that `config` describes; () where timm knows none.

    timm names labels in `config`, or by the number of classes, which is different for each subset
    of ImageNet. The outputs of another head (the embedding of CLIP) are no classes.
    """
    count = config.num_classes
    if config.label_names and len(config.label_names) == count:
        return _told_apart(
            [(config.label_descriptions or {}).get(n, n) for n in config.label_names]
        )
    subset = infer_imagenet_subset({"num_classes": count})
    if subset is None:
        return ()
    info = ImageNetInfo(subset)
    return _told_apart([info.index_to_description(i) for i in range(count)])


def _told_apart(names: Sequence[str]) -> tuple[str, ...]:
    """A name that several classes have (ImageNet's two cranes) with each one's number."""
    times = Counter(names)
    return tuple(
        name if times[name] == 1 else f"{name} (class {index})" for index, name in enumerate(names)
    )
