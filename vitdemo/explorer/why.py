"""Why this class? Every map of a picture for a class, and how true each is to its model.

Plain functions of one `Explorer`, which a notebook may call as the page does:

    found = maps(explorer, explorer.run("vit-small-pretrained"), image, target="cat", against="dog")
    found.maps[0].values  # (rows, columns)
    truth(explorer, found, image, fill="drop").areas["relevance"]  # (deletion, insertion)
"""

import hashlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from vitdemo import attributions, faithfulness
from vitdemo.attributions import METHODS, Method, OnStep
from vitdemo.errors import RunError
from vitdemo.explorer import Explorer
from vitdemo.runs import Run

KEPT = 200  # answers, some kilobytes each; a class of 30 asks about that many in a lesson
MOST_STEPS = 64  # of a curve: every patch of a small model, every third of ViT-B/16


@dataclass(frozen=True)
class ClassMap:
    """`values` (rows, columns) of one method; `signed` where what is negative speaks against."""

    method: Method
    values: np.ndarray
    signed: bool


@dataclass(frozen=True)
class Why:
    """The maps of one picture: for class `target`, or for it and `against` another (indices)."""

    run: Run
    seen: np.ndarray  # (S, S, 3) uint8
    probabilities: np.ndarray  # (C,)
    target: int
    against: int | None
    maps: tuple[ClassMap, ...]  # the best measured first
    best: str | None  # the method that measured best on test pictures, for models of this kind
    fills: tuple[str, ...]  # what can stand for a patch that is gone
    truths: dict[str, "Truth"]  # by fill: those that were measured before
    key: tuple  # of the picture, the model and the classes

    @property
    def named(self) -> str:
        """ "cat", or "cat and not dog"."""
        name = self.run.classes[self.target]
        return name if self.against is None else f"{name} and not {self.run.classes[self.against]}"


@dataclass(frozen=True)
class Truth:
    """Curves (K+1,) of every map, of random orders and from the centre out, as numpy arrays."""

    fill: str
    shares: np.ndarray
    deletion: dict[str, np.ndarray]
    insertion: dict[str, np.ndarray]
    bands: tuple[np.ndarray, np.ndarray]  # (3, K+1) each: mean, 5th and 95th percentile
    areas: dict[str, tuple[float, float]]  # name -> (deletion, insertion)
    random_areas: np.ndarray  # (2, R)


def class_index(run: Run, name: str) -> int:
    """Raises `RunError` where the model has no such class."""
    if name not in run.classes:
        few = ", ".join(run.classes[:12]) + (", ..." if len(run.classes) > 12 else "")
        raise RunError(f"'{run.name}' has no class '{name}': it has {few}.")
    return run.classes.index(name)


def maps(
    explorer: Explorer,
    run: Run,
    image: Image.Image,
    *,
    target: str | None = None,
    against: str | None = None,
    slow: bool = True,
    on_step: OnStep | None = None,
) -> Why:
    """Maps of an RGB image by every method that serves `run`'s model, all for one class.

    Args:
        target, against: names of classes; None is the predicted class, and no other one.
        slow: those that take many passes, too; without it they are there if they were made before.
        on_step: called as (done, total) while a slow one works; it may raise to end it.

    Raises `RunError` for a class that the model does not have, or for twice the same.
    """
    model = explorer.model(run)
    seen, pixels = explorer.input(run.preprocessing, image)
    probabilities = explorer.answer(run, image).probabilities
    first = class_index(run, target) if target else int(probabilities.argmax())
    second = class_index(run, against) if against else None
    if second == first:
        raise RunError(f"'{run.classes[first]}' cannot be set against itself: choose another one.")
    digest = hashlib.blake2b(seen.tobytes(), digest_size=16).digest()
    asked = _Asked(_kept(explorer), (run.path, run.stamp, digest, first, second), model, pixels)
    found = asked.together([m.name for m in asked.methods if not m.long])
    for method in asked.methods:
        if method.long and (slow or asked.has(method.name)):
            found |= asked.alone(method, on_step)
    shown = (m for m in asked.methods if m.name in found)
    drawn = (ClassMap(m, found[m.name], _is_signed(m, second)) for m in shown)
    answer = run, seen, probabilities, first, second, tuple(drawn), asked.best
    found = Why(*answer, faithfulness.fills(model), {}, asked.key)
    truths = {fill: asked.kept.get(_truth_key(found, fill)) for fill in found.fills}
    return replace(found, truths={fill: truth for fill, truth in truths.items() if truth})


def truth(
    explorer: Explorer,
    why: Why,
    image: Image.Image,
    *,
    fill: str = "mean",
    on_step: OnStep | None = None,
) -> Truth:
    """How true the maps of `why` are: see `faithfulness.measure`, with up to `MOST_STEPS` steps.

    `image` is that of `why`. Raises `RunError` for a fill that is not or that the model lacks.
    """
    model = explorer.model(why.run)
    if fill not in why.fills:
        choices = ", ".join(why.fills)
        raise RunError(f"'{why.run.name}' has no fill '{fill}': choose one of {choices}.")

    def measured() -> Truth:
        _, pixels = explorer.input(why.run.preprocessing, image)
        grid = attributions.cell_grid(model, pixels)
        values = {
            m.method.name: faithfulness.resampled(torch.from_numpy(m.values)[None], grid)[0]
            for m in why.maps
        }
        settings = {"fill": fill, "against": why.against, "steps": MOST_STEPS, "on_step": on_step}
        return _summarised(
            fill, faithfulness.measure(model, pixels, why.target, values, **settings)
        )

    return _kept(explorer).get_or_make(_truth_key(why, fill), measured)


class Kept:
    """The answers given last, for all who look; what two ask at once may be made twice."""

    def __init__(self, most: int):
        self.most = most
        self._answers: OrderedDict[tuple, object] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple):
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
            return self._answers.get(key)

    def get_or_make(self, key: tuple, make: Callable):
        found = self.get(key)
        if found is None:
            found = make()
            with self._lock:
                self._answers[key] = found
                while len(self._answers) > self.most:
                    self._answers.popitem(last=False)
        return found


_of_explorers: weakref.WeakKeyDictionary[Explorer, Kept] = weakref.WeakKeyDictionary()


def _kept(explorer: Explorer) -> Kept:
    return _of_explorers.setdefault(explorer, Kept(KEPT))


@dataclass(frozen=True)
class _Asked:
    """One question: maps of one picture by one model for one class, or one against another."""

    kept: Kept
    key: tuple
    model: nn.Module
    pixels: Tensor  # (1, 3, S, S)

    @property
    def best(self) -> str | None:
        return attributions.BEST_MEASURED.get(attributions.kind_of(self.model))

    @property
    def methods(self) -> list[Method]:
        """Those that serve the model, the best measured first."""
        return sorted(attributions.methods_for(self.model), key=lambda m: m.name != self.best)

    def has(self, name: str) -> bool:
        return self.kept.get((*self.key, name)) is not None

    def alone(self, method: Method, on_step: OnStep | None) -> dict[str, np.ndarray]:
        make = partial(self._compute, [method.name], on_step)
        return self.kept.get_or_make((*self.key, method.name), make)

    def together(self, names: list[str]) -> dict[str, np.ndarray]:
        """All in one pass there and back, or two for a contrast."""
        return dict(self.kept.get_or_make((*self.key, "quick"), partial(self._compute, names)))

    def _compute(self, names: list[str], on_step: OnStep | None = None) -> dict[str, np.ndarray]:
        *_, target, against = self.key
        # What does not depend on the class has no contrast: its own map stands beside the others.
        apart = [name for name in names if _is_signed(METHODS[name], against)]
        asked = self.model, self.pixels, target
        if against is None:
            found = attributions.attribute_many(names, *asked, on_step=on_step)
        else:
            found = attributions.contrast_many(apart, *asked, against, on_step=on_step)
            rest = [name for name in names if name not in apart]
            found |= attributions.attribute_many(rest, *asked)
        return {name: values[0].float().cpu().numpy() for name, values in found.items()}


def _is_signed(method: Method, against: int | None) -> bool:
    return method.signed or (against is not None and method.class_specific)


def _truth_key(why: Why, fill: str) -> tuple:
    return (*why.key, "truth", fill, *sorted(m.method.name for m in why.maps))


def _summarised(fill: str, found: faithfulness.Truth) -> Truth:
    def areas(curves: Tensor) -> Tensor:
        return faithfulness.area(found.shares, curves)

    random = found.random_deletion, found.random_insertion
    return Truth(
        fill,
        found.shares.numpy(),
        {name: curve.numpy() for name, curve in found.deletion.items()},
        {name: curve.numpy() for name, curve in found.insertion.items()},
        tuple(torch.stack(faithfulness.band(curves)).numpy() for curves in random),
        {
            name: (float(areas(curve)), float(areas(found.insertion[name])))
            for name, curve in found.deletion.items()
        },
        torch.stack([areas(curves) for curves in random]).numpy(),
    )
