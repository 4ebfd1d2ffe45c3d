"""The part "Head ablation": what changes when heads are switched off.

Letters: L layers, H heads, C classes.
"""

from collections.abc import Collection

import gradio as gr
import numpy as np
import scipy

from vitdemo.attention.ablation import Head
from vitdemo.errors import VitdemoError
from vitdemo.inside.head_ablation import Effects, accuracy_without, answer_without, head_effects
from vitdemo.metrics import top_k
from vitdemo.metrics.paired import McNemar
from vitdemo.page.components.article import Article, Moved, Piece, Text
from vitdemo.page.components.head_wall import HEADS_OFF, SET_HEADS, WITH_HEADS, Drawn, HeadWall
from vitdemo.page.kit import KEPT_SECONDS, LONG_QUEUE, MODEL_QUEUE, for_people
from vitdemo.page.look.tab import Look
from vitdemo.runs import Run

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
MEAN_OF = {
    None: "A head that is off hands on zeros: what it adds to every picture alike goes too.",
    0: "A head that is off hands on its mean over the tokens of this picture, for want of test "
    "pictures.",
}
MEAN = (
    "A head that is off hands on its mean over {count} test pictures: what is lost is what it "
    "tells of this one."
)
CHOOSE = "Choose heads to switch them off, all at the same time, and on again."


def build(look: Look) -> None:
    """Lay out and wire the part."""
    workbench = look.workbench
    owner = gr.State(None, time_to_live=KEPT_SECONDS)  # name of the run whose heads are off
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
            ask = gr.Button(ASK, size="sm")
            cancel = gr.Button("Cancel", size="sm", interactive=False)
            accuracy = Article(elem_id="accuracy-without", min_height=80)

    def draw(image, name, text, owned, instead):
        run = workbench.run(name)
        found = head_effects(workbench, run, image, instead)
        same = owned in (None, name)  # another model has all its heads on
        heads = read(text if same else "", *found.without.shape[:2])
        shown = Drawn(found, words_of(found), written(heads))
        without = answer_without(workbench, run, image, heads, instead)
        moved = comparison(run, scipy.special.softmax(found.logits), without, heads)
        if same:
            return shown, moved, gr.skip(), name, gr.skip()
        return shown, moved, "", name, None

    @for_people
    def compare(text, image, name, owned, instead):
        if image is None or owned != name:
            return gr.skip()  # the wall of another model, about to be redrawn
        look_ = look.traced(name, image)
        heads = read(text, *look_.attention.shape[:2])
        without = answer_without(workbench, look_.run, image, heads, instead)
        all_on = look_.logits.float().softmax(-1).cpu().numpy()
        return comparison(look_.run, all_on, without, heads)

    def measure(name, text, owned, instead, progress=gr.Progress()):  # noqa: B008, gradio's way
        heads = read(text, *shape_of(name)) if owned == name else ()
        if not heads:
            yield "Switch a head off first: there is nothing to compare.", no_cancel
            return
        yield None, gr.update(interactive=True)
        try:
            run = workbench.run(name)
            for step in accuracy_without(workbench, run, heads, instead):
                progress((step.done, step.total), desc="Test pictures", unit="answers")
                yield gr.skip(), gr.skip()
            yield [Text(change_words(name, step.test, heads), told=True)], no_cancel
        except VitdemoError as error:
            yield str(error), no_cancel

    def shape_of(name) -> tuple[int, int]:
        blocks = workbench.model(workbench.run(name)).blocks
        return len(blocks), blocks[0].attn.num_heads

    def stop():
        return "Cancelled: nothing was measured.", no_cancel

    no_cancel = gr.update(interactive=False)
    private = {"api_visibility": "private", "trigger_mode": "always_last"}
    quick = {"show_progress": "hidden", **private, **MODEL_QUEUE}
    drawn = [wall, compared, off, owner, accuracy]
    look.add("inside/ablation", draw, [off, owner, instead], drawn, by=[instead])
    asked = [off, *look.always, owner, instead]
    wall.toggle(None, None, off, js=HEADS_OFF, api_visibility="private")
    wall.toggle(compare, asked, compared, js=WITH_HEADS, **quick)
    all_on.click(None, None, off, js="() => ''", api_visibility="private")
    all_on.click(compare, asked, compared, js="(_, ...values) => ['', ...values]", **quick)
    off.change(None, off, None, js=SET_HEADS, api_visibility="private")
    measured = [accuracy, cancel]
    counted = ask.click(
        measure,
        inputs=[look.model, off, owner, instead],
        outputs=measured,
        api_visibility="private",
        **LONG_QUEUE,
    )
    cancel.click(stop, outputs=measured, cancels=[counted], queue=False, api_visibility="private")
    look.linked |= {"off": off, "instead": instead}


def read(text: str | None, L: int, H: int) -> frozenset[Head]:
    """Heads of "3.1 4.2" (layer.head, from 1) that the model has; anything else is left out."""
    heads = set()
    for word in (text or "").split():
        layer, _, head = word.partition(".")
        if layer.isdecimal() and head.isdecimal() and 0 < int(layer) <= L and 0 < int(head) <= H:
            heads.add((int(layer) - 1, int(head) - 1))
    return frozenset(heads)


def written(heads: Collection[Head]) -> str:
    return " ".join(f"{layer + 1}.{head + 1}" for layer, head in sorted(heads))


def words_of(found: Effects) -> str:
    """What the wall shows, and what a head that is off hands on."""
    mean = MEAN_OF.get(found.pictures) or MEAN.format(count=found.pictures)
    return f"{WALL.format(name=found.run.classes[found.target])} {mean}"


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
        f"({percent(without[now])}; with all heads {percent(all_on[now])})."
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
        f"{name} on {test.n:,} test pictures: **{percent(test.second_accuracy)}** right with all "
        f"heads, **{percent(test.first_accuracy)}** without {listed(heads)}. Change "
        f"{signed(change)} points, 95 % interval {span}. {verdict}"
    )


def signed(value: float) -> str:
    """+2.5 or −2.5, and 0.0 for what rounds to it."""
    text = f"{abs(value):.1f}"
    return text if not float(text) else ("+" if value > 0 else "\N{MINUS SIGN}") + text


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"
