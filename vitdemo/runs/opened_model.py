"""Third-party Vision Transformers, opened from the Hugging Face Hub or from this computer.

    run = open_model("hf-hub:google/vit-base-patch16-224")  # transformers or timm
    run = open_model("local:weights.pth?heads=6&labels=labels.txt")
    run.notices  # assumptions, one sentence each
    context = AppContext([], None, torch.device("cpu"), [run])

No code from the model's repository is run, and pickled code is never executed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import timm
import torch
from timm.models import PretrainedCfg, get_pretrained_cfg
from torch import nn

from vitdemo.data.downloads import OnBytes
from vitdemo.data.image_folders import normalize_name
from vitdemo.errors import ModelError, RunError
from vitdemo.models import ModelSpec, build_model, count_parameters, transformers_names
from vitdemo.models.plain_vit import check_plain_vit
from vitdemo.models.pretrained import build_timm, check_name
from vitdemo.models.vit_shape import (
    SUPPORTED_MODELS,
    VitShape,
    build_from_tensors,
    choose_num_heads,
    count_unused_tensors,
    find_vit_tensors,
    infer_shape,
    make_spec,
)
from vitdemo.models.weights import check_fit, find_tensors, read_weights_file
from vitdemo.paths import expand_path
from vitdemo.runs.model_files import (
    HUB_PREFIX,
    LOCAL_PREFIX,
    ModelAddress,
    ModelFiles,
    fetch_files,
    parse_address,
)
from vitdemo.runs.processors import (
    DEFAULTS_NOTICE,
    OTHER_SIZE_NOTICE,
    read_numbers,
    read_positive,
    read_processor,
    read_timm_config,
)
from vitdemo.runs.timm_run import (
    MAX_GRID_SIDE,
    REDUCED_GRID_SIDE,
    TIMM_PREFIX,
    TimmRun,
    choose_image_size,
    create_timm_run,
    describe_activation,
    describe_reduction,
    get_class_names,
    number_duplicate_names,
)
from vitdemo.training import Preprocessing

MAX_ARGUMENT = 2**16  # largest number in a timm config
NUMBERED_LABEL = "class {}"
NO_LABELS_NOTICE = "The labels are unknown, so the classes are numbered. State labels to name them."
IMAGENET_NOTICE = "The labels are not stored with the model: ImageNet's {} labels are assumed."
HEADS_NOTICE = (
    "{} attention heads are assumed, 64 dimensions each. To change it, add ?heads=N to the model "
    "address."
)
POOLING_NOTICE = (
    "The classifier is assumed to read the class token. If it reads the mean of the patches, add "
    "?pool=avg to the model address."
)
GELU_NOTICE = (
    "The activation GELU is assumed. For OpenAI's CLIP, add ?act=quick_gelu to the model address."
)
EPS_NOTICE = (
    "The LayerNorm constant {:g} is assumed. To change it, add ?eps=E to the model address."
)
UNUSED_NOTICE = "These parts of the file are not used: {}."
INDEPENDENT_NOTICE = (
    "The model has {} ({}) instead of classes with exactly one correct class, so vitdemo shows no "
    "predictions."
)
NO_CLASSIFIER_NOTICE = "The model has no classifier, so it predicts no classes."
CONCATENATED_NOTICE = (
    "The classifier reads the class token and the mean of the patches. Attention maps show only "
    "the class token's attention."
)
SINGLE_LABEL = "single_label_classification"  # transformers' `problem_type`
POOLINGS = ("token", "avg")
MAX_PARTS_NAMED = 4


@dataclass(frozen=True)
class OpenedModel(TimmRun):
    """A third-party model as a run."""

    build: Callable[[], nn.Module] = field(default=nn.Identity, compare=False)

    @property
    def place(self) -> str:
        """Address of the model, which distinguishes models of the same name."""
        return str(self.path)

    @property
    def licence(self) -> str:
        return ""

    @property
    def evaluation(self):
        raise RunError(
            f"'{self.name}' has no evaluation, because it was not trained here. Choose another "
            "model."
        )

    def find_downloaded(self) -> Path | None:
        return self.weights if self.name.startswith(HUB_PREFIX) else None

    # Inference mode is off, because weights that are created in it can never have a gradient.
    @torch.inference_mode(False)
    def load(self, device: torch.device) -> nn.Module:
        """Build the model in evaluation mode on `device`. Raises `ModelError`."""
        return self.build().eval().to(device)


class _Description(NamedTuple):
    """Description of a model from its files: construction, input and labels."""

    spec: ModelSpec
    build: Callable[[], nn.Module]
    num_classes: int
    labels: tuple[str, ...]
    preprocessing: Preprocessing
    summary: str
    notices: list[str]


def create_model_run(text: str) -> TimmRun:
    """Return the run of a "timm:", "hf-hub:" or "local:" address. Raises `ModelError`."""
    return create_timm_run(text) if text.startswith(TIMM_PREFIX) else open_model(text)


def is_model_address(text: str) -> bool:
    """Return whether `text` is the address of a model that `open_model` opens."""
    schemes = (HUB_PREFIX, LOCAL_PREFIX, "hf_hub:", "local-dir:", "http://", "https://", "file://")
    return text.strip().startswith(schemes)


def add_timm_prefix(text: str) -> str:
    """Return `text` with the prefix "timm:", unless it has a prefix already."""
    return text if text.startswith(TIMM_PREFIX) or is_model_address(text) else TIMM_PREFIX + text


def list_notices(runs: Sequence[TimmRun]) -> list[str]:
    """Return the notices of all opened models, each with the model's name."""
    return [f"{run.name}: {notice}" for run in runs for notice in run.notices]


def open_model(
    text: str, labels: Sequence[str] = (), on_bytes: OnBytes | None = None
) -> OpenedModel:
    """Open a Vision Transformer of timm, transformers or vitdemo, or any file with its tensors.

    Args:
        text: "hf-hub:USER/NAME[@revision]" or "local:PATH", with options after "?": `heads` (number
            of attention heads), `labels` (text file, one label per line), `size` (side of the input
            in pixels), `mean` and `std` (one or three numbers), and others, see
            docs/models-and-api.md.
        labels: names of the outputs, instead of the labels in the model's files.
        on_bytes: is called as `on_bytes(done, total)` during a download, and may raise `Stopped`.

    Raises `ModelError` with one sentence for a model that cannot be opened.
    """
    address = parse_address(text)
    files = fetch_files(address, on_bytes)
    try:
        found = _describe(files, address)
    except ModelError as error:
        raise ModelError(f"'{address.location}': {error}") from error
    except (TypeError, ValueError, KeyError, AttributeError) as error:  # unusual config
        raise ModelError(
            f"'{address.location}': the JSON files are not valid ({type(error).__name__}: {error})."
        ) from error
    given = tuple(labels) or _read_labels(address.options.get("labels"))
    names, notices = _choose_labels(found, given)
    with torch.inference_mode(False):
        model = found.build()
    status = files.weights.stat()
    stamp = (text, names, str(files.weights), status.st_mtime_ns, status.st_size)
    name = address.location
    if address.prefix == LOCAL_PREFIX:
        path = Path(address.location)
        name = path.resolve().name if path.is_dir() else path.name
    return OpenedModel(
        path=Path(text),
        name=address.prefix + name,
        config={
            "recipe": {"name": address.prefix + name, "summary": found.summary},
            "parameters": count_parameters(model),
        },
        classes=names,
        spec=found.spec,
        preprocessing=found.preprocessing,
        history=(),
        stamp=stamp,
        weights=files.weights,
        notices=tuple([*found.notices, *notices]),
        build=found.build,
    )


def _describe(files: ModelFiles, address: ModelAddress) -> _Description:
    """Describe a model by the kind of its config.json: timm, transformers, vitdemo, or none."""
    config = files.config
    if "architecture" in config and "model_type" not in config:
        return _describe_timm(files, address)
    if "model_type" in config:
        transformers_names.check_config(config)
        return _describe_tensors(files, address)
    if {"model", "classes", "normalisation"} <= set(config):
        return _describe_run(files)
    return _describe_tensors(files, address)


def _describe_timm(files: ModelFiles, address: ModelAddress) -> _Description:
    """Describe a model with timm's config.json, in its new or its flat layout."""
    config = files.config
    details = config.get("pretrained_cfg", config)
    name, args = config["architecture"], dict(config.get("model_args") or {})
    if not isinstance(name, str) or not isinstance(details, dict):
        raise ModelError("config.json is not in timm's format. Choose another model.")
    check_name(name)
    classes = config.get("num_classes", details.get("num_classes", 0))
    size = _first_number(args.pop("img_size", None) or details.get("input_size", [3, 224, 224]))
    if not config.get("label_names") and _is_embedding(name, classes):
        classes = 0
    _check_arguments(args)
    # These options are fixed by vitdemo.
    args = {k: v for k, v in args.items() if k not in ("num_classes", "in_chans", "device")}
    try:
        with torch.device("meta"):
            model = timm.create_model(name, num_classes=classes, img_size=size, **args)
    except Exception as error:  # timm's constructors raise errors of any class
        with torch.device("meta"):
            _check_supported(timm.create_model(name), name)
        raise ModelError(f"config.json does not fit timm's '{name}' ({error}).") from error
    _check_supported(model, name)
    chosen = _stated_number(address, "size") or choose_image_size(model, size)
    pixels, notices = read_timm_config(details, chosen, address.options)
    notices += describe_reduction(size, chosen)
    notices += describe_activation(name, details.get("tag"))
    labels = config.get("label_names", details.get("label_names", details.get("labels")))
    classes = _count_classes(classes, config.get("problem_type"), notices)
    labels = labels if classes else None
    build = partial(
        build_timm, name, classes, chosen, weights=files.weights, keep_head=True, **args
    )
    descriptions = config.get("label_descriptions", details.get("label_descriptions"))
    if isinstance(descriptions, list):  # descriptions in the order of the labels
        descriptions = dict(zip(labels or (), descriptions, strict=False))
    names = get_class_names(
        PretrainedCfg(num_classes=classes, label_names=labels, label_descriptions=descriptions)
    )
    if names and not labels:
        notices.append(IMAGENET_NOTICE.format(f"{classes:,}"))
    spec = ModelSpec("timm", chosen, name, args)
    return _Description(spec, build, classes, names, pixels, f"timm's {name}", notices)


def _check_supported(model: nn.Module, name: str) -> None:
    try:
        check_plain_vit(model)
    except TypeError as error:
        raise ModelError(f"timm's '{name}' cannot be opened. {SUPPORTED_MODELS}") from error


def _is_embedding(name: str, outputs: int) -> bool:
    """Return whether timm has weights of `name` with `outputs` unlabelled outputs (CLIP)."""
    if get_class_names(PretrainedCfg(num_classes=outputs)):
        return False
    tagged = timm.list_models(f"{name}.*", pretrained=True)
    return any(get_pretrained_cfg(each).num_classes == outputs for each in tagged)


def _check_arguments(args: dict[str, Any]) -> None:
    """Raise `ModelError` for sizes that need too much memory even before the weights are read."""
    for name, value in args.items():
        if isinstance(value, int) and value > (256 if name == "depth" else MAX_ARGUMENT):
            raise ModelError(
                f"config.json has {name} {value:,}, which is too large. Choose another model."
            )


def _describe_run(files: ModelFiles) -> _Description:
    """Describe a run of vitdemo, whose config.json describes an architecture that timm lacks."""
    config = files.config
    try:
        spec = ModelSpec(**config["model"])
        classes = tuple(normalize_name(str(name)) for name in config["classes"])
        mean, std = (read_numbers(config["normalisation"][k], k) for k in ("mean", "std"))
    except (KeyError, TypeError) as error:
        raise ModelError(f"config.json is not valid ({error!r}). Choose another model.") from error
    recipe = config.get("recipe")
    summary = recipe.get("summary", "") if isinstance(recipe, dict) else ""
    build = partial(_build_run, files.weights, spec, len(classes))
    pixels = Preprocessing(spec.image_size, mean, std)
    return _Description(spec, build, len(classes), classes, pixels, f"vitdemo: {summary}", [])


def _build_run(weights: Path, spec: ModelSpec, num_classes: int) -> nn.Module:
    try:
        model = build_model(spec, num_classes)
    except TypeError as error:  # an unknown option
        raise ModelError(
            f"config.json describes an unknown model ({error}). Choose another model."
        ) from error
    tensors = find_tensors(read_weights_file(weights), model)
    check_fit(tensors, model, file=weights, with_head=True)
    model.load_state_dict(tensors, strict=True)
    return model


def _describe_tensors(files: ModelFiles, address: ModelAddress) -> _Description:
    """Describe a model of transformers, or a model whose files have no known config.json."""
    config, kind = files.config, files.config.get("model_type", "")
    content = read_weights_file(files.weights)
    tensors = find_vit_tensors(content)
    shape = infer_shape(tensors)
    if kind:
        _check_sizes(shape, config)
    shape, options, notices = _choose_parts(files, kind, address, shape)
    pixels, notices_of_pixels = _choose_pixels(files, kind, address, shape)
    notices += notices_of_pixels
    if unused := count_unused_tensors(content):
        notices.append(UNUSED_NOTICE.format(_list_parts(unused)))
    classes = _count_classes(shape.num_classes, config.get("problem_type"), notices)
    labels = transformers_names.get_labels(config) if classes else ()
    if classes != shape.num_classes:
        shape = replace(shape, num_classes=0, pooling=shape.pooling.partition("+")[0])
    spec = make_spec(tensors, shape, pixels.size, **options)
    # transformers interpolates DINOv2's position embeddings without antialiasing.
    build = partial(_build_tensors, files.weights, shape, spec, antialias=kind != "dinov2")
    named = f"transformers' {(config.get('architectures') or [kind])[0]}" if kind else "ViT"
    summary = (
        f"{named}: {shape.depth} layers, {options['num_heads']} heads, width {shape.embed_dim}"
    )
    return _Description(spec, build, classes, labels, pixels, summary, notices)


def _list_parts(counts: dict[str, int]) -> str:
    """Return the first parts with their numbers of tensors, for example "decoder (8 tensors)"."""
    parts = [f"{part} ({n} tensor{'s' * (n > 1)})" for part, n in counts.items()]
    rest = len(parts) - MAX_PARTS_NAMED
    return ", ".join(parts[:MAX_PARTS_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _build_tensors(weights: Path, shape: VitShape, spec: ModelSpec, antialias: bool) -> nn.Module:
    tensors = find_vit_tensors(read_weights_file(weights))
    return build_from_tensors(tensors, shape, spec, antialias=antialias)


def _check_sizes(shape: VitShape, config: dict[str, Any]) -> None:
    sizes = {
        "hidden_size": shape.embed_dim,
        "num_hidden_layers": shape.depth,
        "patch_size": shape.patch_size,
        "image_size": shape.image_size,
        "num_register_tokens": shape.registers,
    }
    # Without a classifier, the config still lists two placeholder labels.
    if shape.num_classes and config.get("id2label"):
        sizes["id2label"] = shape.num_classes
    for name, size in sizes.items():
        stated = config.get(name, size)
        stated = len(stated) if name == "id2label" else stated
        if stated not in (size, [size, size]):
            what = "labels in id2label" if name == "id2label" else name
            raise ModelError(
                f"config.json says {stated} {what}, but the weights have {size}. The files belong "
                "to different models."
            )


def _choose_pixels(
    files: ModelFiles, kind: str, address: ModelAddress, shape: VitShape
) -> tuple[Preprocessing, list[str]]:
    """Return the preprocessing with an input size that fits the model, and notices."""
    pixels, notices = read_processor(
        files.processor, kind, address.options, is_clip=shape.has_pre_norm
    )
    size = shape.image_size
    if kind.startswith("dinov2") or not size:  # these models accept other sizes than in training
        size = pixels.size or size
    elif pixels.size not in (0, size):
        notices.append(OTHER_SIZE_NOTICE.format(pixels.size, size))
    size = _stated_number(address, "size") or size
    if not size:
        raise ModelError(
            "The model has no position embeddings, so its input size is unknown: state it, for "
            "example local:PATH?size=224."
        )
    patches = size // shape.patch_size
    chosen = shape.patch_size * (patches if patches <= MAX_GRID_SIDE else REDUCED_GRID_SIDE)
    if not chosen:
        raise ModelError(f"{size} pixels are less than one patch of {shape.patch_size} pixels.")
    return replace(pixels, size=chosen), notices + describe_reduction(size, chosen)


def _choose_parts(
    files: ModelFiles, kind: str, address: ModelAddress, shape: VitShape
) -> tuple[VitShape, dict[str, Any], list[str]]:
    """Return the shape and the options of `make_spec`, and a notice per assumption.

    These parts are not in the tensors, but come from the config or from the model address.
    """
    config, stated, notices = files.config, address.options, []
    heads, is_assumed = choose_num_heads(
        shape, _stated_number(address, "heads") or config.get("num_attention_heads", 0)
    )
    if is_assumed:
        notices.append(HEADS_NOTICE.format(heads))
    eps = config.get("layer_norm_eps", transformers_names.DEFAULT_EPS.get(kind, 1e-6))
    eps = read_positive(stated.get("eps", 1e-5 if shape.has_pre_norm else eps), "eps")
    activation = stated.get("act", config.get("hidden_act", "gelu"))
    if activation not in transformers_names.ACTIVATIONS:
        known = ", ".join(transformers_names.ACTIVATIONS)
        raise ModelError(f"Unknown activation '{activation}': choose {known}.")
    missing = [n for n in ("hidden_act", "layer_norm_eps") if n not in config] if kind else []
    if missing:
        names = ", ".join(missing)
        notices.append(DEFAULTS_NOTICE.format("config.json", names, "transformers"))
    if "pool" in stated:
        shape = _replace_pooling(shape, stated["pool"])
    elif not kind and shape.pooling == "token" and shape.num_classes and not shape.has_distillation:
        notices.append(POOLING_NOTICE)
    if not kind and not shape.is_gated and "act" not in stated:
        notices.append(GELU_NOTICE)
    if not kind and "eps" not in stated:
        notices.append(EPS_NOTICE.format(eps))
    if "+" in shape.pooling:
        notices.append(CONCATENATED_NOTICE)
    options = {
        "num_heads": heads,
        "eps": eps,
        "activation": transformers_names.ACTIVATIONS[activation],
    }
    return shape, options, notices


def _replace_pooling(shape: VitShape, pooling: str) -> VitShape:
    if pooling not in POOLINGS:
        raise ModelError(f"'pool={pooling}' is not valid: choose {' or '.join(POOLINGS)}.")
    if shape.pooling not in (pooling, "token") or shape.has_distillation:
        raise ModelError(f"pool={pooling} does not fit this model: omit this option.")
    return replace(shape, pooling=pooling)


def _count_classes(outputs: int, problem_type: str | None, notices: list[str]) -> int:
    """Return the number of mutually exclusive classes, or 0 for other outputs.

    As in transformers, a softmax requires more than one output and `SINGLE_LABEL`.
    """
    if outputs == 1 or problem_type not in (None, SINGLE_LABEL):
        named = "1 output" if outputs == 1 else f"{outputs:,} outputs"
        notices.append(INDEPENDENT_NOTICE.format(named, problem_type or "a number or one label"))
        return 0
    if not outputs:
        notices.append(NO_CLASSIFIER_NOTICE)
    return outputs


def _first_number(size: Any) -> int:
    """Return the side in pixels from timm's size, which is a number or (3, S, S), a square."""
    sides = [size] if isinstance(size, int) else list(size)[-2:]
    if not all(isinstance(side, int) and side > 0 for side in sides) or len(set(sides)) != 1:
        raise ModelError(f"config.json has the input size {size}; vitdemo needs square images.")
    return sides[0]


def _stated_number(address: ModelAddress, name: str) -> int:
    text = address.options.get(name, "")
    if not text:
        return 0
    if not text.isdecimal() or not 0 < int(text) < 10_000:
        raise ModelError(f"'{name}={text}' is not valid. Choose a whole number from 1 to 9,999.")
    return int(text)


def _read_labels(file: str | None) -> tuple[str, ...]:
    """Read labels from a text file, one per line; return () if `file` is None."""
    if not file:
        return ()
    try:
        text = expand_path(file).read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ModelError(
            f"The labels file '{file}' cannot be read: {reason}. Choose a UTF-8 text file."
        ) from error
    return parse_labels(text)


def parse_labels(text: str) -> tuple[str, ...]:
    """Return the labels in `text`, one per line; empty lines at the end are ignored."""
    return tuple(normalize_name(line.strip()) for line in text.strip().splitlines())


def _choose_labels(
    description: _Description, given: Sequence[str]
) -> tuple[tuple[str, ...], list[str]]:
    count = description.num_classes
    if given and len(given) != count:
        outputs = f"{count:,} outputs" if count else "no classes"
        raise ModelError(
            f"There are {len(given):,} labels, but the model has {outputs}. Enter one label per "
            "output."
        )
    labels = tuple(given) or description.labels
    if labels:
        if len(labels) != count:
            raise ModelError(
                f"config.json has {len(labels):,} labels, but the model has {count:,} outputs. "
                "Correct the labels."
            )
        return number_duplicate_names(labels), []
    if not count:
        return (), []
    assumed = get_class_names(PretrainedCfg(num_classes=count))
    if assumed:
        return assumed, [IMAGENET_NOTICE.format(f"{count:,}")]
    return tuple(NUMBERED_LABEL.format(i) for i in range(count)), [NO_LABELS_NOTICE]
