"""The part "Head ablation": the effect of switching heads off.

Letters: L layers, H heads, C classes.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import gradio as gr
import numpy as np
import scipy
from torch import nn

from vitdemo.attention.ablation import Head
from vitdemo.errors import RunError, Stopped, VitdemoError
from vitdemo.inside.head_ablation import Effects, accuracy_without, answer_without, head_effects
from vitdemo.metrics import percent, signed, top_k
from vitdemo.metrics.paired import McNemar
from vitdemo.page.components.article import Article, Moved, Piece, Text
from vitdemo.page.components.head_wall import HEADS_OFF, SET_HEADS, WITH_HEADS, Drawn, HeadWall
from vitdemo.page.kit import ASKED, KEPT_SECONDS, PRIVATE, QUIET, Stops, for_people
from vitdemo.page.look.tab import Look
from vitdemo.runs import Run
from vitdemo.workbench import Workbench

ASK = "Measure accuracy on 1,000 test images"
WALL = (
    "Each cell shows how much the logit of {name} changes if only this head is switched off. "
    "Orange heads support the class, purple heads oppose it. A head without an effect may still "
    "matter: other heads can compensate for it."
)
INSTEAD = {
    "mean": "its mean (mean ablation)",
    "zero": "zeros (zero ablation)",
}
ZEROS = (
    "The output of a head that is off is replaced by zeros. This also removes the part of its "
    "output that is the same for every image."
)
MEAN = (
    "The output of a head that is off is replaced by its mean over {of}. This removes only what "
    "the head computes from this image."
)
NO_CANCEL = gr.update(interactive=False)
CHOOSE = "Click heads to switch them off; click again to switch them on."


@dataclass(frozen=True)
class Handlers:
    """Event handlers; heads that are off are passed as text, see `read`.

    `owned` is the name of the run that the heads belong to. Another model has all heads on.
    """

    workbench: Workbench
    stops: Stops = field(default_factory=Stops)

    def draw(self, image, name, text, owned, instead) -> tuple:
        """Return the heads' effects, the predictions, the heads as text, their run, the accuracy.

        The accuracy is emptied if the heads belong to another run.
        """
        run = self.workbench.run(name)
        found = head_effects(self.workbench, run, image, instead)
        same = owned in (None, name)
        heads = read(text if same else "", *found.without.shape[:2])
        wall = Drawn(found, words_of(found), written(heads))
        compared = self.compared(run, found.logits, image, heads, instead)
        return wall, compared, *((gr.skip(), name, gr.skip()) if same else ("", name, None))

    def compare(self, text, image, name, owned, instead) -> list[Piece] | dict:
        """Return the predictions of the chosen model with all heads and without the given ones."""
        if image is None or owned != name:
            return gr.skip()  # the heads belong to another model and will be redrawn
        run = self.workbench.run(name)
        look = self.workbench.look(run, image)
        heads = read(text, *look.attention.shape[:2])
        return self.compared(run, look.logits.float().cpu().numpy(), image, heads, instead)

    def compared(self, run, logits, image, heads, instead) -> list[Piece]:
        without = answer_without(self.workbench, run, image, heads, instead)
        return comparison(run, scipy.special.softmax(logits), without, heads)

    def measure(self, name, text, owned, instead, progress=gr.Progress()) -> Iterator[tuple]:  # noqa: B008, gradio's way
        """Yield the accuracy on test images, and whether the measurement can be cancelled."""
        raise_if_stopped = self.stops.watch()
        try:
            run = self.workbench.run(name)
            heads = read(text, *shape(self.workbench.model(run))) if owned == name else ()
            if not heads:
                raise RunError("No head is switched off. Switch off at least one head first.")
            yield None, gr.update(interactive=True)
            for step in accuracy_without(self.workbench, run, heads, instead):
                raise_if_stopped()
                progress((step.done, step.total), desc="Test images", unit="predictions")
                yield gr.skip(), gr.skip()
            yield [Text(change_words(name, step.test, heads), told=True)], NO_CANCEL
        except VitdemoError as error:
            yield str(error), NO_CANCEL
        except Stopped:
            yield "The measurement was cancelled.", NO_CANCEL


def shape(model: nn.Module) -> tuple[int, int]:
    """Return the numbers of layers and heads."""
    return len(model.blocks), model.blocks[0].attn.num_heads


def build(look: Look) -> None:
    """Lay out and wire the part."""
    ask = Handlers(look.workbench)
    owner = gr.State(None, time_to_live=KEPT_SECONDS)
    off = gr.Textbox("", visible="hidden", label="heads that are off", elem_id="heads-off")
    instead = gr.Radio(
        [(words, name) for name, words in INSTEAD.items()],
        value="mean",
        label="Replace head output with",
        elem_id="heads-instead",
    )
    with gr.Row():
        with gr.Column(scale=3, min_width=300):
            wall = HeadWall(elem_id="head-effects")
        with gr.Column(scale=2, min_width=300):
            compared = Article(elem_id="without")
            all_on = gr.Button("Switch all heads on", size="sm")
            count = gr.Button(ASK, size="sm")
            cancel = gr.Button("Cancel", size="sm", interactive=False)
            accuracy = Article(elem_id="accuracy-without", min_height=80)
    look.linked |= {"off": off, "instead": instead}
    drawn = [wall, compared, off, owner, accuracy]
    look.add("inside/ablation", ask.draw, [off, owner, instead], drawn, by=[instead])
    asked = [off, *look.always, owner, instead]
    for listen, text, values in (
        (wall.toggle, HEADS_OFF, WITH_HEADS),
        (all_on.click, "() => ''", "(_, ...values) => ['', ...values]"),
    ):
        listen(None, None, off, js=text, **PRIVATE)
        listen(for_people(ask.compare), asked, compared, js=values, **ASKED)
    off.change(None, off, None, js=SET_HEADS, **PRIVATE)
    asked, measured = [look.model, off, owner, instead], [accuracy, cancel]
    ask.stops.button(count, ask.measure, asked, measured)
    cancel.click(ask.stops.stop, **QUIET)


def read(text: str | None, L: int, H: int) -> frozenset[Head]:
    """Parse "3.1 4.2" (layer.head, from 1) into heads; heads that do not exist are ignored."""
    found = re.findall(r"(?<!\S)(\d{1,4})\.(\d{1,4})(?!\S)", text or "", re.ASCII)
    heads = ((int(layer) - 1, int(head) - 1) for layer, head in found)
    return frozenset(pair for pair in heads if 0 <= pair[0] < L and 0 <= pair[1] < H)


def written(heads: Collection[Head]) -> str:
    return " ".join(f"{layer + 1}.{head + 1}" for layer, head in sorted(heads))


def words_of(found: Effects) -> str:
    """Return the caption of the heads' effects, including the replacement of a head's output."""
    off = MEAN.format(of=found.mean_of) if found.mean_of else ZEROS
    return f"{WALL.format(name=found.run.classes[found.target])} {off}"


def comparison(
    run: Run, all_on: np.ndarray, without: np.ndarray, heads: Collection[Head]
) -> list[Piece]:
    """Compare the five most probable classes (C,) with all heads and without `heads`."""
    shown, _ = top_k(all_on, min(5, len(run.classes)))
    before, now = int(all_on.argmax()), int(without.argmax())
    shown = [*shown, *([now] if now not in shown else [])]  # include the new prediction
    rows = [(run.classes[c], float(all_on[c]), float(without[c])) for c in shown]
    heading = ("all heads", "without")
    if not heads:
        return [Text(CHOOSE, told=True), Moved("All heads are on", rows, heading)]
    verdict = (
        f"{run.name} {'still' if now == before else 'now'} predicts {run.classes[now]} "
        f"({percent(without[now])}%; with all heads {percent(all_on[now])}%)."
    )
    return [Text(verdict, told=True), Moved(f"Without {listed(heads)}", rows, heading)]


def listed(heads: Collection[Head]) -> str:
    """List the first six heads in words, and the number of the others."""
    words = ", ".join(f"layer {layer + 1} head {head + 1}" for layer, head in sorted(heads)[:6])
    return words + (f" and {len(heads) - 6} more" if len(heads) > 6 else "")


def change_words(name: str, test: McNemar, heads: Collection[Head]) -> str:
    """Report the accuracy with all heads and without `heads`, and whether they differ.

    The text names model and heads, because the user may have chosen others in the meantime.
    """
    change, low, high = 100 * test.difference, *(100 * test.interval)
    if low <= 0 <= high:
        verdict = "The interval contains 0: the change is not significant."
    else:
        verdict = f"The interval excludes 0: a significant {'loss' if change < 0 else 'gain'}."
    span = f"{signed(low)} to {signed(high)}"
    return (
        f"{name}, accuracy on {test.n:,} test images: **{percent(test.second_accuracy)}%** with "
        f"all heads, **{percent(test.first_accuracy)}%** without {listed(heads)}. Change: "
        f"{signed(change)} percentage points, 95% confidence interval {span}. {verdict}"
    )
