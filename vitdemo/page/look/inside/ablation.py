"""The part "Head ablation": what changes when heads are switched off.

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

ASK = "Accuracy on 1,000 test pictures without them"
WALL = (
    "Each cell is one head: by how much the logit of {name} changes when this head alone is "
    "switched off; orange where the head spoke for the class, purple where it spoke against it. "
    "A head that changes nothing by itself may still matter: others can stand in for it."
)
INSTEAD = {
    "mean": "its mean (mean ablation)",
    "zero": "zeros (zero ablation)",
}
ZEROS = "A head that is off hands on zeros: what it adds to every picture alike goes too."
MEAN = (
    "A head that is off hands on its mean over {of}: what is lost is what it tells of this picture."
)
NO_CANCEL = gr.update(interactive=False)
CHOOSE = "Choose heads to switch them off, all at the same time, and on again."


@dataclass(frozen=True)
class Handlers:
    """What the components ask for; heads that are off come as text, see `read`.

    `owned` is the name of the run that they are heads of: another model has all its heads on.
    """

    workbench: Workbench
    stops: Stops = field(default_factory=Stops)

    def draw(self, image, name, text, owned, instead) -> tuple:
        """The wall, the answers, the text, whose heads they are, and the accuracy."""
        run = self.workbench.run(name)
        found = head_effects(self.workbench, run, image, instead)
        same = owned in (None, name)
        heads = read(text if same else "", *found.without.shape[:2])
        wall = Drawn(found, words_of(found), written(heads))
        compared = self.compared(run, found.logits, image, heads, instead)
        return wall, compared, *((gr.skip(), name, gr.skip()) if same else ("", name, None))

    def compare(self, text, image, name, owned, instead) -> list[Piece] | dict:
        """The answers of the chosen model with all heads and without those."""
        if image is None or owned != name:
            return gr.skip()  # the wall of another model, about to be redrawn
        run = self.workbench.run(name)
        look = self.workbench.look(run, image)
        heads = read(text, *look.attention.shape[:2])
        return self.compared(run, look.logits.float().cpu().numpy(), image, heads, instead)

    def compared(self, run, logits, image, heads, instead) -> list[Piece]:
        without = answer_without(self.workbench, run, image, heads, instead)
        return comparison(run, scipy.special.softmax(logits), without, heads)

    def measure(self, name, text, owned, instead, progress=gr.Progress()) -> Iterator[tuple]:  # noqa: B008, gradio's way
        """The accuracy on test pictures, and whether there is something to cancel."""
        raise_if_stopped = self.stops.watch()
        try:
            run = self.workbench.run(name)
            heads = read(text, *shape(self.workbench.model(run))) if owned == name else ()
            if not heads:
                raise RunError("Switch a head off first: there is nothing to compare.")
            yield None, gr.update(interactive=True)
            for step in accuracy_without(self.workbench, run, heads, instead):
                raise_if_stopped()
                progress((step.done, step.total), desc="Test pictures", unit="answers")
                yield gr.skip(), gr.skip()
            yield [Text(change_words(name, step.test, heads), told=True)], NO_CANCEL
        except VitdemoError as error:
            yield str(error), NO_CANCEL
        except Stopped:
            yield "Cancelled: nothing was measured.", NO_CANCEL


def shape(model: nn.Module) -> tuple[int, int]:
    """Layers and heads."""
    return len(model.blocks), model.blocks[0].attn.num_heads


def build(look: Look) -> None:
    """Lay out and wire the part."""
    ask = Handlers(look.workbench)
    owner = gr.State(None, time_to_live=KEPT_SECONDS)
    off = gr.Textbox("", visible="hidden", label="heads that are off", elem_id="heads-off")
    instead = gr.Radio(
        [(words, name) for name, words in INSTEAD.items()],
        value="mean",
        label="A head that is off hands on",
        elem_id="heads-instead",
    )
    with gr.Row():
        with gr.Column(scale=3, min_width=300):
            wall = HeadWall(elem_id="head-effects")
        with gr.Column(scale=2, min_width=300):
            compared = Article(elem_id="without")
            all_on = gr.Button("All heads on", size="sm")
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
    """Heads of "3.1 4.2" (layer.head, from 1) that the model has; anything else is left out."""
    found = re.findall(r"(?<!\S)(\d{1,4})\.(\d{1,4})(?!\S)", text or "", re.ASCII)
    heads = ((int(layer) - 1, int(head) - 1) for layer, head in found)
    return frozenset(pair for pair in heads if 0 <= pair[0] < L and 0 <= pair[1] < H)


def written(heads: Collection[Head]) -> str:
    return " ".join(f"{layer + 1}.{head + 1}" for layer, head in sorted(heads))


def words_of(found: Effects) -> str:
    """What the wall shows, and what a head that is off hands on."""
    off = MEAN.format(of=found.mean_of) if found.mean_of else ZEROS
    return f"{WALL.format(name=found.run.classes[found.target])} {off}"


def comparison(
    run: Run, all_on: np.ndarray, without: np.ndarray, heads: Collection[Head]
) -> list[Piece]:
    """The five most probable classes (C,) with all heads, and the same ones without `heads`."""
    shown, _ = top_k(all_on, min(5, len(run.classes)))
    before, now = int(all_on.argmax()), int(without.argmax())
    shown = [*shown, *([now] if now not in shown else [])]  # what it predicts now belongs to it
    rows = [(run.classes[c], float(all_on[c]), float(without[c])) for c in shown]
    heading = ("all heads", "without")
    if not heads:
        return [Text(CHOOSE, told=True), Moved("With all heads, as none is off", rows, heading)]
    verdict = (
        f"{run.name} {'still' if now == before else 'now'} predicts {run.classes[now]} "
        f"({percent(without[now])} %; with all heads {percent(all_on[now])} %)."
    )
    return [Text(verdict, told=True), Moved(f"Without {listed(heads)}", rows, heading)]


def listed(heads: Collection[Head]) -> str:
    """The first six heads in words, and how many there are beyond."""
    words = ", ".join(f"layer {layer + 1} head {head + 1}" for layer, head in sorted(heads)[:6])
    return words + (f" and {len(heads) - 6} more" if len(heads) > 6 else "")


def change_words(name: str, test: McNemar, heads: Collection[Head]) -> str:
    """The accuracy with and without, and whether the difference means anything.

    Names model and heads: others may have been chosen while the pictures were answered.
    """
    change, low, high = 100 * test.difference, *(100 * test.interval)
    if low <= 0 <= high:
        verdict = "The interval holds 0: on so many pictures no change can be told."
    else:
        verdict = f"The interval leaves out 0: a clear {'loss' if change < 0 else 'gain'}."
    span = f"{signed(low)} to {signed(high)}"
    return (
        f"{name} on {test.n:,} test pictures: **{percent(test.second_accuracy)} %** right with "
        f"all heads, **{percent(test.first_accuracy)} %** without {listed(heads)}. Change "
        f"{signed(change)} points, 95 % interval {span}. {verdict}"
    )
