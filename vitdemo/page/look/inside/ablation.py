"""The part "Head ablation": what changes when heads are switched off.

Letters: L layers, H heads, C classes.
"""

from collections.abc import Collection, Sequence

import gradio as gr
import numpy as np
import scipy

from vitdemo import inside
from vitdemo.attention.ablation import Head
from vitdemo.errors import VitdemoError
from vitdemo.figures.inside import diverging
from vitdemo.inside import Effects
from vitdemo.metrics import top_k
from vitdemo.metrics.paired import McNemar
from vitdemo.page import html
from vitdemo.page.kit import LONG_QUEUE, MODEL_QUEUE, PickHTML, for_people, picked_numbers
from vitdemo.page.look.inside.pieces import caption, folded, paint, percent, signed
from vitdemo.page.look.tab import Look

KEPT_SECONDS = 6 * 3600
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
    effects = gr.State(None, time_to_live=KEPT_SECONDS)
    off = gr.Textbox(
        "", visible="hidden", label="heads that are off", elem_id="heads-off"
    )  # "3.1 4.2": layer.head
    instead = gr.Radio(
        [(words, name) for name, words in INSTEAD.items()],
        value="mean",
        label="A head that is off hands on",
        elem_id="heads-instead",
    )
    with gr.Row():
        with gr.Column(scale=3, min_width=300):
            wall = PickHTML(elem_id="head-effects")
        with gr.Column(scale=2, min_width=300):
            compared = gr.HTML(elem_id="without", apply_default_css=False)
            all_on = gr.Button("All heads on", size="sm")
            ask = gr.Button(ASK, size="sm")
            cancel = gr.Button("Cancel", size="sm", interactive=False)
            accuracy = gr.HTML(elem_id="accuracy-without", apply_default_css=False, min_height=80)

    def shown(image, name, found, heads, instead):
        run = workbench.run(name)
        without = inside.answer_without(workbench, run, image, heads, instead)
        return wall_html(found, heads), compared_html(found, without, heads), written(heads)

    def draw(image, name, text, before, instead):
        found = inside.head_effects(workbench, workbench.run(name), image, instead)
        if before is None or before.run.name == name:
            return *shown(image, name, found, read(text, found), instead), found, gr.skip()
        return *shown(image, name, found, frozenset(), instead), found, ""

    @for_people
    def pick(image, name, text, found, instead, event: gr.EventData):
        if image is None or found is None or found.run.name != name:
            return gr.skip()  # the wall of another model, about to be redrawn
        L, H = found.logit_change.shape
        layer, head = picked_numbers(event.pick, L + 1, H + 1)
        heads = read(text, found) ^ read(f"{layer}.{head}", found)
        return shown(image, name, found, heads, instead)

    @for_people
    def switch_on(image, name, found, instead):
        if image is None or found is None or found.run.name != name:
            return gr.skip()
        return shown(image, name, found, frozenset(), instead)

    def measure(name, text, found, instead, progress=gr.Progress()):  # noqa: B008, gradio's way
        if found is None or found.run.name != name or not (heads := read(text, found)):
            yield html.notice("Switch a head off first: there is nothing to compare."), no_cancel
            return
        yield "", gr.update(interactive=True)
        try:
            run = workbench.run(name)
            for step in inside.accuracy_without(workbench, run, heads, instead):
                progress((step.done, step.total), desc="Test pictures", unit="answers")
                yield gr.skip(), gr.skip()
            yield change_html(name, step.test, heads), no_cancel
        except VitdemoError as error:
            yield html.notice(str(error)), no_cancel

    def stop():
        return html.notice("Cancelled: nothing was measured."), no_cancel

    no_cancel = gr.update(interactive=False)
    latest = {"trigger_mode": "always_last", "api_visibility": "private"}
    quick = {"show_progress": "hidden", **latest, **MODEL_QUEUE}
    drawn = [wall, compared, off, effects, accuracy]
    look.add("inside/ablation", draw, [off, effects, instead], drawn, by=[instead])
    chosen = [wall, compared, off]
    wall.pick(pick, inputs=[*look.always, off, effects, instead], outputs=chosen, **quick)
    all_on.click(switch_on, inputs=[*look.always, effects, instead], outputs=chosen, **quick)
    measured = [accuracy, cancel]
    asked = ask.click(
        measure,
        inputs=[look.model, off, effects, instead],
        outputs=measured,
        api_visibility="private",
        **LONG_QUEUE,
    )
    cancel.click(stop, outputs=measured, cancels=[asked], queue=False, api_visibility="private")
    look.linked |= {"off": off, "instead": instead}


def read(text: str, found: Effects) -> frozenset[Head]:
    """Heads of "3.1 4.2" (layer.head, from 1) that the model has; anything else is left out."""
    L, H = found.logit_change.shape
    heads = set()
    for word in (text or "").split():
        layer, _, head = word.partition(".")
        if layer.isdecimal() and head.isdecimal() and 0 < int(layer) <= L and 0 < int(head) <= H:
            heads.add((int(layer) - 1, int(head) - 1))
    return frozenset(heads)


def written(heads: Collection[Head]) -> str:
    return " ".join(f"{layer + 1}.{head + 1}" for layer, head in sorted(heads))


def wall_html(found: Effects, heads: Collection[Head]) -> str:
    """A button for each head, a row for each layer, coloured by the change of the logit."""
    change, probability = found.logit_change, found.probability_change  # each (L, H)
    name = found.run.classes[found.target]
    limit = float(np.abs(change).max())
    colours = diverging(-change, limit)  # a head spoke for what is less without it
    L, H = change.shape
    columns = "".join(f'<th scope="col">{h + 1}</th>' for h in range(H))
    body = []
    for layer in range(L):
        cells = (
            _cell(
                (layer, head),
                (layer, head) in heads,
                colours[layer, head],
                f"{name}: logit {signed(change[layer, head])}, probability "
                f"{signed(100 * probability[layer, head], 1)} points",
                signed(change[layer, head]),
            )
            for head in range(H)
        )
        body.append(f'<tr><th scope="row">layer {layer + 1}</th>{"".join(cells)}</tr>')
    table = html.table(
        ["layer", *(f"head {h + 1}" for h in range(H))],
        [
            [str(layer + 1), *(f"{signed(100 * value, 2)}" for value in line)]
            for layer, line in enumerate(probability)
        ],
    )
    legend = (
        f'<div class="vd-legend">{signed(-limit)} <i class="vd-ramp" style="background: '
        f'linear-gradient(to right, {", ".join(diverging(np.linspace(1, -1, 9), 1))})"></i> '
        f"{signed(limit)} (change of the logit, white is none)</div>"
    )
    return (
        caption(f"{WALL.format(name=name)} {mean_words(found)}")
        + '<div class="vd-scroll"><table class="vd-numbered vd-effects"><caption>Change of the '
        "logit without each head; columns are heads</caption>"
        f"<thead><tr><td></td>{columns}</tr></thead>"
        f'<tbody data-columns="{H}">{"".join(body)}</tbody></table></div>{legend}'
        + folded(f"Numbers: change of the probability of {name}, in percentage points", table)
    )


def mean_words(found: Effects) -> str:
    return MEAN_OF.get(found.pictures) or MEAN.format(count=found.pictures)


def _cell(head: Head, is_off: bool, colour: str, words: str, text: str) -> str:
    layer, number = head[0] + 1, head[1] + 1
    label = f"Layer {layer}, head {number}, {'off' if is_off else 'on'}. Without it alone, {words}"
    return (
        f'<td><button data-pick="{layer}.{number}" aria-pressed="{str(is_off).lower()}" '
        f'aria-label="{html.escape(label)}" title="{html.escape(label)}" '
        f'style="{paint(colour)}">{"off" if is_off else text}</button></td>'
    )


def compared_html(found: Effects, without: np.ndarray, heads: Collection[Head]) -> str:
    """The five most probable classes with all heads, and the same ones without `heads`."""
    classes, all_on = found.run.classes, scipy.special.softmax(found.logits)
    shown, _ = top_k(all_on, min(5, len(classes)))
    first, _ = top_k(without, 1)
    shown = [*shown, *(c for c in first if c not in shown)]  # what it predicts now belongs to it
    title = f"Without {listed(heads)}" if heads else "With all heads, as none is off"
    same = "still predicts" if first[0] == found.target else "now predicts"
    verdict = (
        f"{found.run.name} {same} {classes[first[0]]} ({percent(without[first[0]])}; with all "
        f"heads {percent(all_on[first[0]])})."
        if heads
        else CHOOSE
    )
    return (
        f'<p class="vd-said" role="status">{html.escape(verdict)}</p><div class="vd-cards">'
        f'<section class="vd-card"><h3>With all heads</h3>'
        f"{_bars(classes, all_on, shown)}</section>"
        f'<section class="vd-card"><h3>{html.escape(title)}</h3>'
        f"{_bars(classes, without, shown)}</section></div>"
    )


def _bars(classes: Sequence[str], values: np.ndarray, shown: Sequence[int]) -> str:
    """The classes `shown` with their probabilities, the most probable first."""
    order = sorted(shown, key=lambda c: -values[c])
    return html.probability_bars([classes[c] for c in order], values[order])


def listed(heads: Collection[Head]) -> str:
    """The first six heads in words, and how many there are beyond."""
    words = ", ".join(f"layer {layer + 1} head {head + 1}" for layer, head in sorted(heads)[:6])
    return words + (f" and {len(heads) - 6} more" if len(heads) > 6 else "")


def change_html(name: str, test: McNemar, heads: Collection[Head]) -> str:
    """The accuracy with and without, and whether the difference means anything.

    Names model and heads: others may have been chosen while the pictures were answered.
    """
    change, low, high = 100 * test.difference, *(100 * test.interval)
    if low <= 0 <= high:
        verdict = "The interval holds 0: on so many pictures no change can be told."
    else:
        verdict = f"The interval leaves out 0: a clear {'loss' if change < 0 else 'gain'}."
    span = f"{signed(low, 1)} to {signed(high, 1)}"
    return (
        f'<p class="vd-said" role="status">{html.escape(name)} on {test.n:,} test '
        f"pictures: <strong>{percent(test.second_accuracy)}</strong> right with all heads, <strong>"
        f"{percent(test.first_accuracy)}</strong> without {listed(heads)}. Change "
        f"{signed(change, 1)} points, 95 % interval {span}. {verdict}</p>"
    )
