"""Attribution maps of a class, all computed by one function, `attribute`.

An `AttributionMethod` describes its map, the map's limit and the supported models. `METHODS` lists
all methods by name. No method leaves a hook, a flag or a gradient on the model, so threads can
share the model. Integrated Gradients and occlusion explain the log-probability of the class, as the
faithfulness test does. Maps from attention and features use the gradient of the logit.

Letters: B batch, P patches (rows x columns), N tokens, D width, S side in pixels, C classes.

    attribute("relevance", model, images, target=3)  # (B, rows, columns)
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitdemo.explain import attention, forward_pass
from vitdemo.models import is_vision_transformer
from vitdemo.models.convnet import ConvNet
from vitdemo.models.pretrained import patch_sides

CELLS_PER_SIDE = 8  # cells per side of the grid for the maps of a model without patches
# Integrated Gradients doubles its number of steps until the completeness gap is small enough.
INTEGRATION_STEPS, MAX_COMPLETENESS_GAP = (32, 64, 128, 256, 512), 0.01
ATTRIBUTION_BATCH_SIZE = 64  # images per forward pass; `on_step` is called once per pass

OnStep = Callable[[int, int], None]  # (done, total); may raise to stop the computation


@dataclass(frozen=True)
class AttributionMethod:
    """One attribution method, with its name, caption, function and properties.

    `caption` describes the map and its limit. `model_kinds` are the supported values of
    `get_model_kind`. An `is_signed` method also gives negative values. An `is_slow` method takes
    many forward passes. An `is_linear` method gives maps that are linear in the score: the map of a
    difference of scores is the difference of the maps. The values of an `is_complete` method add up
    to the change of the score (`completeness_gap`). If many patches of a map are exactly 0,
    `compute_ranking` gives values that rank these patches, see `compute_ranking_values`.
    """

    name: str
    title: str
    caption: str
    model_kinds: tuple[str, ...]
    compute: Callable[["_AttributionInput", OnStep], Tensor]
    is_class_specific: bool = True
    is_signed: bool = False
    is_slow: bool = False
    is_linear: bool = False
    is_complete: bool = False
    compute_ranking: Callable[["_AttributionInput", OnStep], Tensor] | None = None


def get_model_kind(model: nn.Module) -> str:
    """Return the kind of `model`: "vit", or "cnn" for vitdemo's ConvNet and torchvision's ResNet.

    Raises `ValueError` for any other model.
    """
    if is_vision_transformer(model):
        return "vit"
    if isinstance(model, ConvNet) or all(
        hasattr(model, n) for n in (*_RESNET_STAGES, "avgpool", "fc")
    ):
        return "cnn"
    raise ValueError(
        f"Cannot explain {type(model).__name__}: use a Vision Transformer, vitdemo's ConvNet or "
        "torchvision's ResNet."
    )


def list_methods(model: nn.Module) -> list[AttributionMethod]:
    """Return the methods that support `model`, in the order of `METHODS`."""
    kind = get_model_kind(model)
    return [method for method in METHODS.values() if kind in method.model_kinds]


def get_num_classes(model: nn.Module) -> int:
    return model.num_classes if hasattr(model, "num_classes") else model.fc.out_features


def cell_grid(model: nn.Module, images: Tensor) -> tuple[int, int]:
    """Return the rows and columns of a Vision Transformer's patch grid.

    For models without patches, return at most `CELLS_PER_SIDE` rows and columns.
    """
    height, width = images.shape[-2:]
    if is_vision_transformer(model):
        rows, columns = patch_sides(model.patch_embed)
        return height // rows, width // columns
    return min(CELLS_PER_SIDE, height), min(CELLS_PER_SIDE, width)


def cell_indices(height: int, width: int, grid: tuple[int, int], device: torch.device) -> Tensor:
    """Return the index, 0 to P-1, of the cell that contains each pixel, (height, width)."""
    row = torch.arange(height, device=device) * grid[0] // height
    column = torch.arange(width, device=device) * grid[1] // width
    return row[:, None] * grid[1] + column  # (height, width)


def sum_over_cells(pixels: Tensor, grid: tuple[int, int]) -> Tensor:
    """Sum the values of `pixels` (B, height, width) in each cell: (B, rows, columns)."""
    B, height, width = pixels.shape
    cell = cell_indices(height, width, grid, pixels.device).flatten()  # (height*width,)
    total = pixels.new_zeros(B, grid[0] * grid[1])
    return total.index_add(1, cell, pixels.flatten(1)).unflatten(1, grid)


def attribute(
    method: str,
    model: nn.Module,
    images: Tensor,
    target: int | Tensor,
    *,
    path_steps: tuple[int, ...] | None = None,
    on_step: OnStep | None = None,
) -> Tensor:
    """Compute the attribution (B, rows, columns) of each patch for the class `target`.

    Maps are float32 for a model in half precision.

    Args:
        method: a name in `METHODS`.
        model: in eval mode. Other threads may use it at the same time.
        images: normalised, (B, 3, S, S). Zero is `Preprocessing.zero_colour`.
        target: one class for all images, or a LongTensor (B,) with one class per image.
        path_steps: numbers of steps of Integrated Gradients, tried in turn until the completeness
            gap is below `MAX_COMPLETENESS_GAP` (default: `INTEGRATION_STEPS`).
        on_step: called as (done, total) during a slow method; may raise to stop the method.

    The result has the patch grid of a ViT. For a convolutional model, the grid is that of the last
    features (Grad-CAM), or has `CELLS_PER_SIDE` rows and columns. Raises `ValueError` for an
    unknown method, for a method that does not support the model, and for an unknown class. Raises
    `TypeError` for a ViT that `forward_pass.trace` rejects.
    """
    options = {"path_steps": path_steps, "on_step": on_step}
    return attribute_many([method], model, images, target, **options)[method]


# Tensors of the caller's inference mode cannot carry a gradient, so the mode is switched off.
@torch.inference_mode(False)
def attribute_many(
    methods: Collection[str],
    model: nn.Module,
    images: Tensor,
    target: int | Tensor,
    *,
    path_steps: tuple[int, ...] | None = None,
    on_step: OnStep | None = None,
) -> dict[str, Tensor]:
    """Compute attribution maps by several methods; gradient methods share one backward pass."""
    chosen = _get_supported_methods(methods, model)
    subject = _AttributionInput(model, images, target, path_steps=path_steps)
    return _compute_maps(chosen, subject, on_step)


@torch.inference_mode(False)
def attribute_classes(
    methods: Sequence[str], model: nn.Module, image: Tensor, targets: Sequence[int]
) -> dict[str, Tensor]:
    """Compute maps (T, rows, columns) of one image (1, 3, S, S) for each of T classes.

    `methods` must be fast methods that depend on the class. All classes share one forward pass.
    Other arguments and errors are as in `attribute_many`.
    """
    chosen, maps = _get_supported_methods(methods, model), []
    shared = [None] * len(targets)
    if get_model_kind(model) == "vit":
        shared = forward_pass.iter_class_gradients(model, image, targets)
    for target, gradients in zip(targets, shared, strict=True):
        subject = _AttributionInput(model, image, target)
        if gradients is not None:
            subject.gradients = gradients
        maps.append(_compute_maps(chosen, subject))
    return {name: torch.cat([own[name] for own in maps]) for name in methods}


@torch.inference_mode(False)
def contrast_many(
    methods: Collection[str],
    model: nn.Module,
    images: Tensor,
    target: int | Tensor,
    against: int | Tensor,
    *,
    on_step: OnStep | None = None,
) -> dict[str, Tensor]:
    """Compute the map of class `target` minus the map of class `against`, by each method.

    For an `is_linear` method, the result is the map of the difference of the two scores. For other
    methods, the result is the difference of two maps whose negative values were set to 0. The
    result is 0 for a method that does not depend on the class. Other arguments and errors are as in
    `attribute_many`.
    """
    chosen = _get_supported_methods(methods, model)
    apart = [method for method in chosen if not method.is_linear]
    first, second = (
        _compute_maps(apart, _AttributionInput(model, images, each)) for each in (target, against)
    )
    linear = [method for method in chosen if method.is_linear]
    found = _compute_maps(linear, _AttributionInput(model, images, target, against), on_step)
    found |= {name: values - second[name] for name, values in first.items()}
    return {method.name: found[method.name] for method in chosen}


@torch.inference_mode(False)
def compute_ranking_values(
    method: str,
    model: nn.Module,
    images: Tensor,
    values: Tensor,
    target: int | Tensor,
    against: int | Tensor | None = None,
) -> Tensor:
    """Return the values (B, rows, columns) that rank the patches of the map `values`.

    Grad-CAM sets negative values to 0, so many patches are equal, and their order is undefined.
    The values before this step rank them. Other maps are returned unchanged.
    """
    (chosen,) = _get_supported_methods([method], model)
    if chosen.compute_ranking is None:
        return values
    ranked = replace(chosen, compute=chosen.compute_ranking)
    targets = [target] if against is None else [target, against]
    first, *second = (
        _compute_maps([ranked], _AttributionInput(model, images, each)) for each in targets
    )
    return first[method] - second[0][method] if second else first[method]


def _get_supported_methods(names: Collection[str], model: nn.Module) -> list[AttributionMethod]:
    supported = {method.name: method for method in list_methods(model)}
    for name in names:
        if name not in METHODS:
            raise ValueError(f"Unknown method '{name}': choose one of {', '.join(METHODS)}.")
        if name not in supported:
            raise ValueError(
                f"'{name}' does not support {type(model).__name__}: choose one of "
                f"{', '.join(supported)}."
            )
    return [supported[name] for name in names]


def _compute_maps(
    methods: list[AttributionMethod], subject: "_AttributionInput", on_step: OnStep | None = None
) -> dict[str, Tensor]:
    subject.needs_gradients = any(method.compute in _GRADIENT_METHODS for method in methods)
    report = on_step or (lambda done, total: None)
    return {method.name: method.compute(subject, report).detach() for method in methods}


class _AttributionInput:
    """Model, images and classes to explain, with cached results that several methods share."""

    def __init__(
        self,
        model: nn.Module,
        images: Tensor,
        target: int | Tensor,
        against: int | Tensor | None = None,
        path_steps: tuple[int, ...] | None = None,
    ):
        self.model, self.target = model, target
        self.path_steps = path_steps or INTEGRATION_STEPS
        self.images = images.clone() if images.is_inference() else images
        self.class_weights = self.one_hot(target)  # (B, C): factors of the log-probabilities
        if against is not None:
            self.class_weights -= self.one_hot(against)
        self.grid = cell_grid(model, images)
        self.needs_gradients = False

    @cached_property
    def gradients(self) -> forward_pass.ClassGradients:
        return forward_pass.class_gradients(self.model, self.images, self.target)

    @cached_property
    def attention(self) -> Tensor:  # (L, B, H, N, N)
        if self.needs_gradients:
            return torch.stack(self.gradients.attention)
        with torch.no_grad():
            return forward_pass.trace(self.model, self.images).attention

    def one_hot(self, target: int | Tensor) -> Tensor:
        """Check the classes and return them as vectors (B, C)."""
        images, count = self.images, get_num_classes(self.model)
        classes = forward_pass.check_target(target, len(images), count, images.device)
        dtype = torch.promote_types(images.dtype, torch.float32)
        return F.one_hot(classes, count).to(dtype)

    def to_patch_maps(self, matrix: Tensor) -> Tensor:
        """Return the mean over the classifier's rows of `matrix` as maps (B, rows, columns)."""
        prefix, rows = self.model.num_prefix_tokens, forward_pass.classifier_rows(self.model)
        return attention.classifier_map(matrix, prefix, rows).unflatten(1, self.grid)


def _relevance(subject: _AttributionInput, on_step: OnStep) -> Tensor:
    found = subject.gradients
    matrix = attention.accumulate_relevance(found.attention, found.attention_gradients)
    return subject.to_patch_maps(attention.subtract_identity(matrix))


def _gradient_rollout(subject: _AttributionInput, on_step: OnStep) -> Tensor:
    found = subject.gradients
    matrix = attention.gradient_rollout(found.attention, found.attention_gradients)
    return subject.to_patch_maps(matrix)


def _grad_cam(subject: _AttributionInput, on_step: OnStep) -> Tensor:
    """Compute Grad-CAM (Selvaraju et al. 2017, https://arxiv.org/abs/1610.02391, eqs. 1 and 2)."""
    return _signed_grad_cam(subject, on_step).clamp(min=0)


def _signed_grad_cam(subject: _AttributionInput, on_step: OnStep) -> Tensor:
    """Compute Grad-CAM without its last step, which sets negative values to 0.

    The patches of a Vision Transformer replace the positions of a convolution.
    """
    if get_model_kind(subject.model) == "cnn":
        features, gradients = _convolutional_features(subject)
    else:
        found, prefix = subject.gradients, subject.model.num_prefix_tokens
        features, gradients = (
            each[:, prefix:].mT.unflatten(2, subject.grid)
            for each in (found.features, found.feature_gradients)
        )
    weights = forward_pass.upcast(gradients).mean(dim=(2, 3), keepdim=True)  # (B, D, 1, 1)
    return (forward_pass.upcast(features) * weights).sum(dim=1)


_RESNET_STAGES = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4")


@torch.enable_grad()
def _convolutional_features(subject: _AttributionInput) -> tuple[Tensor, Tensor]:
    """Return the last features (B, D, rows, columns) of a convolutional model, and gradients."""
    model, x = subject.model, subject.images
    is_convnet = isinstance(model, ConvNet)
    with torch.no_grad():
        for name in ("forward_features",) if is_convnet else _RESNET_STAGES:
            x = getattr(model, name)(x)
    x = x.requires_grad_()
    logits = model.forward_head(x) if is_convnet else model.fc(model.avgpool(x).flatten(1))
    (gradients,) = torch.autograd.grad((logits * subject.class_weights).sum(), x)
    return x.detach(), gradients


def _integrated_gradients(subject: _AttributionInput, on_step: OnStep) -> Tensor:
    """Compute Integrated Gradients, summed over the pixels of each cell.

    Sundararajan et al. 2017, https://arxiv.org/abs/1703.01365, equation 1. The numbers of steps in
    `path_steps` are tried in turn until the completeness gap is below `MAX_COMPLETENESS_GAP`.
    """
    return torch.cat([_path_integral(subject, i, on_step) for i in range(len(subject.images))])


@torch.enable_grad()
def _path_integral(subject: _AttributionInput, i: int, on_step: OnStep) -> Tensor:
    """Compute the Integrated Gradients (1, rows, columns) of the image `i` of `subject`."""
    from captum.attr import IntegratedGradients  # importing takes two seconds

    image, weights = subject.images[i : i + 1], subject.class_weights[i : i + 1]
    for steps in subject.path_steps:
        done = 0

        def score(images: Tensor, steps: int = steps) -> Tensor:
            nonlocal done
            on_step(min(done, steps), steps)
            done += len(images)
            return log_score(subject.model, images.to(image.dtype), weights)

        pixels = IntegratedGradients(score).attribute(
            # float32 is needed, because bfloat16 cannot represent the small steps of the path
            forward_pass.upcast(image.clone()),
            baselines=0.0,  # the uniform colour
            n_steps=steps,
            # A backward pass needs more memory than a forward pass.
            internal_batch_size=ATTRIBUTION_BATCH_SIZE // 4,
        )  # (1, 3, S, S)
        found = sum_over_cells(pixels.sum(dim=1), subject.grid)
        if float(completeness_gap(subject.model, image, found, weights)) < MAX_COMPLETENESS_GAP:
            break
    on_step(steps, steps)
    return found


@torch.no_grad()
def completeness_gap(model: nn.Module, images: Tensor, maps: Tensor, weights: Tensor) -> Tensor:
    """Compute the completeness gap (B,) of `maps` (B, rows, columns) of Integrated Gradients.

    The gap is the relative difference between the sum of a map and the score change from the mean
    colour to `images` (B, 3, S, S). The score is the log-probability times `weights` (B, C): a
    one-hot vector for a class, or the difference of two one-hot vectors for a contrast.
    """
    change = log_score(model, images, weights) - log_score(model, torch.zeros_like(images), weights)
    tiny = torch.finfo(change.dtype).tiny  # `change` is 0 for an image of the uniform colour
    return (maps.sum(dim=(1, 2)) - change).abs() / change.abs().clamp(min=tiny)


def log_score(model: nn.Module, images: Tensor, weights: Tensor) -> Tensor:
    """Compute the sum (B,) over classes of log-probabilities times `weights` (B, C), in float32.

    For the difference of two classes, log-probabilities and logits give the same score.
    """
    return (forward_pass.upcast(model(images)).log_softmax(dim=1) * weights).sum(dim=1)


def _occlusion(subject: _AttributionInput, on_step: OnStep) -> Tensor:
    def score(images: Tensor, picture: Tensor) -> Tensor:
        return log_score(subject.model, images, subject.class_weights[picture])

    return occlude(score, subject.images, subject.grid, on_step)


@torch.no_grad()
def occlude(
    score: Callable[[Tensor, Tensor], Tensor],
    images: Tensor,
    grid: tuple[int, int],
    on_step: OnStep | None = None,
) -> Tensor:
    """Compute the decrease (B, rows, columns, ...) of a score when a cell becomes 0.

    Zeiler & Fergus 2014, https://arxiv.org/abs/1311.2901, section 4.2. `images` are (B, 3, S, S).
    `score` takes variants (n, 3, S, S) of the images, and the index (n,) of each variant's image;
    it returns (n, ...). `on_step` is as in `attribute`.
    """
    B, (rows, columns) = len(images), grid
    cell = cell_indices(*images.shape[-2:], grid, images.device)  # (S, S)
    total = B * rows * columns
    which = torch.arange(total, device=images.device)  # all cells of the first image come first
    report, scores = on_step or (lambda done, total: None), []
    for chunk in which.split(ATTRIBUTION_BATCH_SIZE):
        report(int(chunk[0]), total)
        picture, hidden = chunk // (rows * columns), chunk % (rows * columns)
        kept = cell != hidden[:, None, None]  # (chunk, S, S)
        holed = images[picture] * kept[:, None]  # zero is the uniform colour
        scores.append(score(holed, picture))
    report(total, total)
    whole = score(images, torch.arange(B, device=images.device))  # (B, ...)
    return whole[:, None, None] - torch.cat(scores).unflatten(0, (B, rows, columns))


def _last_attention(subject: _AttributionInput, on_step: OnStep) -> Tensor:
    return subject.to_patch_maps(attention.fuse_heads(subject.attention[-1]))


def _rollout(subject: _AttributionInput, on_step: OnStep) -> Tensor:
    prefix = subject.model.num_prefix_tokens
    return subject.to_patch_maps(attention.rollout(subject.attention, num_prefix_tokens=prefix))


_GRADIENT_METHODS = (_relevance, _gradient_rollout, _grad_cam, _signed_grad_cam)
_ALL_KINDS = ("vit", "cnn")

METHODS = {
    method.name: method
    for method in (
        AttributionMethod(
            "relevance",
            "Relevance",
            "Attention weights of all layers, weighted by the gradient of the class's logit and "
            "accumulated from layer to layer (Chefer et al. 2021). The map has no negative "
            "values, so it does not show patches that oppose the class. The method ignores the "
            "MLPs.",
            ("vit",),
            _relevance,
        ),
        AttributionMethod(
            "gradient_rollout",
            "Gradient-weighted rollout",
            "Attention rollout in which the attention weights of each layer are multiplied by the "
            "gradient of the class's logit. The effects of attention heads with opposite signs "
            "can cancel out, and layers with a small gradient contribute little.",
            ("vit",),
            _gradient_rollout,
        ),
        AttributionMethod(
            "grad_cam",
            "Grad-CAM",
            "Input features of the last attention layer (in a convolutional model: output of the "
            "last convolution), weighted by their mean gradient for the class. Negative values are "
            "set to 0. A position in a late layer may contain information from other patches.",
            _ALL_KINDS,
            _grad_cam,
            compute_ranking=_signed_grad_cam,
        ),
        AttributionMethod(
            "integrated_gradients",
            "Integrated Gradients",
            "Gradient of the class's log-probability, integrated from a uniform image (model "
            "input 0) to this image (Sundararajan et al. 2017). The values add up to the change "
            "of the log-probability. A different starting image gives a different map.",
            _ALL_KINDS,
            _integrated_gradients,
            is_signed=True,
            is_slow=True,
            is_linear=True,
            is_complete=True,
        ),
        AttributionMethod(
            "occlusion",
            "Occlusion",
            "Decrease of the class's log-probability if one patch is replaced by a uniform "
            "colour, the model input 0 (Zeiler & Fergus 2014). A patch gets a low value if its "
            "neighbours contain the same information. The model may never have seen such a patch "
            "in training.",
            _ALL_KINDS,
            _occlusion,
            is_signed=True,
            is_slow=True,
            is_linear=True,
        ),
        AttributionMethod(
            "attention",
            "Last layer's attention",
            "Attention of the class token to each patch in the last layer, averaged over the "
            "heads. For a model without a class token, the mean attention of all patch tokens is "
            "shown. The map is the same for every class. A token of the last layer also contains "
            "information from other patches.",
            ("vit",),
            _last_attention,
            is_class_specific=False,
        ),
        AttributionMethod(
            "rollout",
            "Attention rollout",
            "Product of the attention matrices of all layers (Abnar & Zuidema 2020). The map is "
            "the same for every class, and gives all heads and layers the same importance.",
            ("vit",),
            _rollout,
            is_class_specific=False,
        ),
    )
}
