"""Pretrained Vision Transformers from timm, by name and without a run folder.

The classes come from the training set, for example the 1,000 classes of ImageNet. The weights are
downloaded by timm or read from a local file.

    run = create_timm_run("timm:deit_tiny_patch16_224")
    run.classes[281]  # "tabby, tabby cat"
    run = download_weights(run)  # otherwise timm downloads the weights when they are first needed

`run.classes` is () if the model has no classifier head or timm has no labels for it. For example,
DINO has no classifier head, and a CLIP image encoder returns an embedding.
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

from vitdemo.data.downloads import OnBytes, download_from_hub
from vitdemo.errors import ModelError, RunError, Stopped, short_reason
from vitdemo.models import ModelSpec, count_parameters, patch_side
from vitdemo.models.plain_vit import check_plain_vit
from vitdemo.models.pretrained import build_timm, check_has_weights, check_name
from vitdemo.models.weights import require_weights_file
from vitdemo.paths import expand_path
from vitdemo.runs.files import Evaluation
from vitdemo.runs.processors import read_timm_config
from vitdemo.runs.run import Run

TIMM_PREFIX = "timm:"
HUB_WEIGHTS_FILE = "model.safetensors"  # file name in each of timm's repositories
MAX_GRID_SIDE = 28  # patches per side; at this limit, a ViT-S's attention takes 90 MB per image
REDUCED_GRID_SIDE = 16  # patches per side for larger models, as in ViT-L/14 at 224 pixels
REDUCED_NOTICE = "The input is reduced from {} to {} pixels, so that attention fits into memory."
ACTIVATION_NOTICE = (
    "These weights were trained with quick-GELU, but this model of timm uses GELU. Use timm:{} for "
    "the original activation."
)
MODELS_VARIABLE = "VITDEMO_MODELS"  # environment variable with comma-separated names of models


@dataclass(frozen=True)
class ModelSuggestion:
    """A suggested model: timm's `name`, its title, and a short description of its use."""

    name: str
    title: str
    description: str


MODEL_SUGGESTIONS = (
    ModelSuggestion(
        "deit_tiny_patch16_224.fb_in1k",
        "DeiT-Tiny",
        "Predicts one of ImageNet's 1,000 classes for any photo. The smallest of these models.",
    ),
    ModelSuggestion(
        "deit_small_patch16_224.fb_in1k",
        "DeiT-Small",
        "Predicts the same classes as DeiT-Tiny, with higher accuracy but four times as many "
        "parameters.",
    ),
    ModelSuggestion(
        "vit_small_patch16_224.dino",
        "DINO, ViT-S/16",
        "Self-supervised pretraining (Caron et al. 2021). Some attention heads segment objects.",
    ),
    ModelSuggestion(
        "vit_small_patch14_reg4_dinov2.lvd142m",
        "DINOv2 with registers, ViT-S/14",
        "Self-supervised pretraining with four register tokens (Darcet et al. 2024). The "
        "attention maps are smooth.",
    ),
)


@dataclass(frozen=True)
class TimmRun(Run):
    """A timm model as a run, without training history and evaluation.

    `weights` is a local file, or None to download timm's weights. `is_downloaded` is True if the
    file was downloaded from timm. `pretrained` is False for random weights in tests. `notices` are
    assumptions and differences from the model's own preprocessing, one sentence each.
    """

    weights: Path | None = None
    is_downloaded: bool = False
    pretrained: bool = True
    notices: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Path of the weights file, which distinguishes models of the same name."""
        own = self.weights and not self.is_downloaded
        return str(self.weights) if own else "timm's weights"

    @property
    def licence(self) -> str:
        """Licence that timm states for the weights, or ""."""
        return get_pretrained_cfg(self.spec.name).license or ""

    def find_downloaded(self) -> Path | None:
        """Return the file of an earlier download by `download_weights` or by timm, or None."""
        repository = get_pretrained_cfg(self.spec.name).hf_hub_id
        if not repository:
            return None
        found = sorted(_download_folder(repository).glob(f"*-{HUB_WEIGHTS_FILE}"))
        kept = found[-1] if found else try_to_load_from_cache(repository, HUB_WEIGHTS_FILE)
        return Path(kept) if isinstance(kept, str | Path) else None

    def load(self, device: torch.device) -> nn.Module:
        """Build the model in evaluation mode, with its weights. Raises `ModelError`."""
        own = self.weights if not self.is_downloaded else None
        kept = (self.weights or self.find_downloaded()) if self.pretrained and not own else None
        try:
            with torch.inference_mode(False):
                model = build_timm(
                    self.spec.name,
                    len(self.classes),
                    self.spec.image_size,
                    pretrained=self.pretrained,
                    weights=own,
                    downloaded=kept,
                    keep_head=True,
                    **self.spec.options,
                )
        except ModelError:
            if kept:  # the next attempt must not use a damaged file
                kept.unlink(missing_ok=True)
            raise
        return model.eval().to(device)

    @property
    def has_folder(self) -> bool:
        return False

    @property
    def has_weights(self) -> bool:
        return True

    @property
    def has_evaluation(self) -> bool:
        return False

    @property
    def evaluation(self) -> Evaluation:
        raise RunError(
            f"'{self.name}' has no evaluation, because it is timm's model. Choose another model."
        )


def create_timm_run(text: str, *, pretrained: bool = True) -> TimmRun:
    """Return the run for `text`: "timm:NAME", or "timm:NAME=FILE" with a file of weights.

    The image size is timm's, rounded down to a multiple of the patch size. Above `MAX_GRID_SIDE`
    patches per side, the model uses `REDUCED_GRID_SIDE`, and timm interpolates the position
    embeddings. Nothing is downloaded yet.

    Raises `ModelError` for an unknown model, unknown weights or a missing file, and for a model
    that is not a plain Vision Transformer.
    """
    name, _, file = text.removeprefix(TIMM_PREFIX).partition("=")
    if not text.startswith(TIMM_PREFIX) or not name:
        raise ModelError(f"--model '{text}' is not valid. Write timm:NAME or timm:NAME=FILE.")
    check_name(name)
    if file:
        file = expand_path(file)
        require_weights_file(file)
    elif pretrained:
        check_has_weights(name)
    model = _build_without_weights(name)
    config = get_pretrained_cfg(name)
    size = choose_image_size(model, config.input_size[-1])
    preprocessing, notices = read_timm_config(config.to_dict(), size)
    return TimmRun(
        path=Path(text),
        name=TIMM_PREFIX + name,
        config={
            "recipe": {"name": TIMM_PREFIX + name, "summary": f"timm's {name}, not fine-tuned"},
            "parameters": count_parameters(model),
        },
        classes=get_class_names(config),
        spec=ModelSpec("timm", size, name),
        preprocessing=preprocessing,
        history=(),
        stamp=(text, pretrained),
        weights=Path(file) if file else None,
        pretrained=pretrained,
        notices=(
            *notices,
            *describe_reduction(config.input_size[-1], size),
            *describe_activation(name, config.tag),
        ),
    )


def describe_reduction(size: int, chosen: int) -> list[str]:
    """Return a notice if a model uses inputs of `chosen` pixels instead of `size`."""
    return [] if chosen == size else [REDUCED_NOTICE.format(size, chosen)]


def describe_activation(name: str, tag: str | None) -> list[str]:
    """Return a notice if timm's weights `tag` of `name` were trained with quick-GELU.

    timm lists each of these CLIP encoders under two names, and one of the names uses GELU.
    """
    architecture = name.partition(".")[0]
    original = architecture.replace("_clip_", "_clip_quickgelu_")
    if "quickgelu" in name or original == architecture or not tag:
        return []
    if f"{original}.{tag}" not in timm.list_models(f"{original}.*", pretrained=True):
        return []
    return [ACTIVATION_NOTICE.format(f"{original}.{tag}")]


def download_weights(run: TimmRun, on_bytes: OnBytes | None = None) -> TimmRun:
    """Return `run` with a local file of its weights, which is downloaded if necessary.

    `on_bytes(done, total)` may raise `Stopped` to stop; the next download then continues. Weights
    that are not on the Hub are downloaded by timm when they are first needed. Raises `ModelError`
    if the download fails.
    """
    repository = get_pretrained_cfg(run.spec.name).hf_hub_id
    if run.weights or not repository or run.find_downloaded():
        return run
    folder, label = _download_folder(repository), f"{run.spec.name} from the Hub"
    try:
        file = download_from_hub(
            repository, HUB_WEIGHTS_FILE, folder, label=label, on_bytes=on_bytes
        )
    except Stopped:
        raise
    except Exception as error:  # errors of httpx, huggingface_hub and the disk have no common class
        raise ModelError(
            f"The weights of '{run.spec.name}' could not be downloaded ({short_reason(error)}). "
            f"Check the network, or use a local weights file: --model {run.name}=FILE."
        ) from error
    return replace(run, weights=file, is_downloaded=True)


def _download_folder(repository: str) -> Path:
    """Return the folder of downloads, which is next to the cache of huggingface_hub."""
    return Path(HF_HOME) / "vitdemo" / repository.replace("/", "--")


def _build_without_weights(name: str) -> nn.Module:
    with torch.device("meta"):  # computes only shapes, which needs no memory
        model = timm.create_model(name, pretrained=False)
    try:
        check_plain_vit(model)
    except TypeError as error:
        raise ModelError(f"timm's '{name}' is not supported. {error}") from error
    return model


def choose_image_size(model: nn.Module, size: int) -> int:
    """Round `size` down to whole patches, or reduce it if attention would need too much memory."""
    side = patch_side(model)
    patches = size // side
    return side * (patches if patches <= MAX_GRID_SIDE else REDUCED_GRID_SIDE)


def get_class_names(config: PretrainedCfg) -> tuple[str, ...]:
    """Return the labels of the classifier that `config` describes, or () if timm has no labels.

    timm stores labels in `config`, or finds the labels by the number of classes, which differs
    between subsets of ImageNet. Other outputs, such as CLIP's embedding, are not classes.
    """
    count = config.num_classes
    if config.label_names and len(config.label_names) == count:
        return number_duplicate_names(
            [(config.label_descriptions or {}).get(n, n) for n in config.label_names]
        )
    subset = infer_imagenet_subset({"num_classes": count})
    if subset is None:
        return ()
    info = ImageNetInfo(subset)
    return number_duplicate_names([info.index_to_description(i) for i in range(count)])


def number_duplicate_names(names: Sequence[str]) -> tuple[str, ...]:
    """Add the class index to names that several classes share (ImageNet has two cranes)."""
    times = Counter(names)
    return tuple(
        name if times[name] == 1 else f"{name} (class {index})" for index, name in enumerate(names)
    )
