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

from vitdemo.analyses.head_ablation import (
    AblationEffects,
    compute_head_effects,
    measure_accuracy_without_heads,
    predict_without_heads,
)
from vitdemo.context import AppContext
from vitdemo.errors import RunError, Stopped, VitdemoError
from vitdemo.explain.head_ablation import HeadIndex
from vitdemo.metrics import format_signed, percent_text, top_k_classes
from vitdemo.metrics.paired import McNemarResult
from vitdemo.page.components.article import Document, DocumentBlock, ProbabilityChange, Text
from vitdemo.page.components.head_wall import (
    JS_HEADS_OFF,
    JS_INPUTS_WITH_HEADS,
    JS_SET_HEADS,
    HeadSwitchData,
    HeadSwitches,
)
from vitdemo.page.explore.tab import ExploreTab
from vitdemo.page.kit import (
    MODEL_EVENT,
    NO_API,
    REFRESH_EVENT,
    STATE_LIFETIME,
    Cancellation,
    show_user_errors,
)
from vitdemo.runs import Run

MEASURE_LABEL = "Measure accuracy on 1,000 test images"
EFFECTS_CAPTION = (
    "Each cell shows how much the logit of {name} changes if only this head is switched off. "
    "Orange heads support the class, purple heads oppose it. A head without an effect may still "
    "matter: other heads can compensate for it."
)
REPLACEMENT_LABELS = {
    "mean": "its mean (mean ablation)",
    "zero": "zeros (zero ablation)",
}
ZERO_ABLATION_CAPTION = (
    "The output of a head that is off is replaced by zeros. This also removes the part of its "
    "output that is the same for every image."
)
MEAN_ABLATION_CAPTION = (
    "The output of a head that is off is replaced by its mean over {of}. This removes only what "
    "the head computes from this image."
)
CANCEL_DISABLED = gr.update(interactive=False)
NO_HEAD_OFF_MESSAGE = "Click heads to switch them off; click again to switch them on."


@dataclass(frozen=True)
class AblationHandlers:
    """Event handlers of head ablation; `text` lists the heads that are off, see `parse_heads`.

    `heads_owner` is the name of the run for which these heads are off. For other runs, all heads
    are on.
    """

    context: AppContext
    stops: Cancellation = field(default_factory=Cancellation)

    def draw(self, image, name, text, heads_owner, replacement) -> tuple:
        """Return effects, predictions, the heads as text, `heads_owner`, and the accuracy.

        If the heads are of another run, this switches all heads on and clears the accuracy.
        """
        run = self.context.find_run(name)
        found = compute_head_effects(self.context, run, image, replacement)
        same = heads_owner in (None, name)
        heads = parse_heads(text if same else "", *found.ablated_logits.shape[:2])
        wall = HeadSwitchData(found, effects_caption(found), format_heads(heads))
        compared = self.compare_heads(run, found.logits, image, heads, replacement)
        return wall, compared, *((gr.skip(), name, gr.skip()) if same else ("", name, None))

    def compare(self, text, image, name, heads_owner, replacement) -> list[DocumentBlock] | dict:
        """Compare the model's predictions with all heads and without the heads in `text`."""
        if image is None or heads_owner != name:
            return gr.skip()  # the heads are of another model; another event redraws them
        run = self.context.find_run(name)
        look = self.context.trace_image(run, image)
        heads = parse_heads(text, *look.attention.shape[:2])
        return self.compare_heads(run, look.logits.float().cpu().numpy(), image, heads, replacement)

    def compare_heads(self, run, logits, image, heads, replacement) -> list[DocumentBlock]:
        without = predict_without_heads(self.context, run, image, heads, replacement)
        return comparison_blocks(run, scipy.special.softmax(logits), without, heads)

    def measure_accuracy(
        self,
        name,
        text,
        heads_owner,
        replacement,
        progress=gr.Progress(),  # noqa: B008
    ) -> Iterator[tuple]:
        """Measure the accuracy without the heads; yield it, and an update of the cancel button."""
        raise_if_stopped = self.stops.make_check()
        try:
            run = self.context.find_run(name)
            heads = (
                parse_heads(text, *layers_and_heads(self.context.load_model(run)))
                if heads_owner == name
                else ()
            )
            if not heads:
                raise RunError("No head is switched off. Switch off at least one head first.")
            yield None, gr.update(interactive=True)
            for step in measure_accuracy_without_heads(self.context, run, heads, replacement):
                raise_if_stopped()
                progress((step.done, step.total), desc="Test images", unit="predictions")
                yield gr.skip(), gr.skip()
            yield (
                [Text(describe_accuracy_change(name, step.test, heads), told=True)],
                CANCEL_DISABLED,
            )
        except VitdemoError as error:
            yield str(error), CANCEL_DISABLED
        except Stopped:
            yield "The measurement was cancelled.", CANCEL_DISABLED


def layers_and_heads(model: nn.Module) -> tuple[int, int]:
    """Return the numbers of layers and of heads per layer."""
    return len(model.blocks), model.blocks[0].attn.num_heads


def build(look: ExploreTab) -> None:
    """Lay out the part and connect its events."""
    ask = AblationHandlers(look.context)
    owner = gr.State(None, time_to_live=STATE_LIFETIME)
    off = gr.Textbox("", visible="hidden", label="heads switched off", elem_id="heads-off")
    instead = gr.Radio(
        [(words, name) for name, words in REPLACEMENT_LABELS.items()],
        value="mean",
        label="Replace head output with",
        elem_id="heads-instead",
    )
    with gr.Row():
        with gr.Column(scale=3, min_width=300):
            wall = HeadSwitches(elem_id="head-effects")
        with gr.Column(scale=2, min_width=300):
            compared = Document(elem_id="without")
            all_on = gr.Button("Switch all heads on", size="sm")
            count = gr.Button(MEASURE_LABEL, size="sm")
            cancel = gr.Button("Cancel", size="sm", interactive=False)
            accuracy = Document(elem_id="accuracy-without", min_height=80)
    look.url_params |= {"off": off, "instead": instead}
    drawn = [wall, compared, off, owner, accuracy]
    look.add("inside/ablation", ask.draw, [off, owner, instead], drawn, triggers=[instead])
    asked = [off, *look.common_inputs, owner, instead]
    for listen, text, values in (
        (wall.toggle, JS_HEADS_OFF, JS_INPUTS_WITH_HEADS),
        (all_on.click, "() => ''", "(_, ...values) => ['', ...values]"),
    ):
        listen(None, None, off, js=text, **NO_API)
        listen(show_user_errors(ask.compare), asked, compared, js=values, **MODEL_EVENT)
    off.change(None, off, None, js=JS_SET_HEADS, **NO_API)
    asked, measured = [look.model, off, owner, instead], [accuracy, cancel]
    ask.stops.start_on_click(count, ask.measure_accuracy, asked, measured)
    cancel.click(ask.stops.stop, **REFRESH_EVENT)


def parse_heads(text: str | None, L: int, H: int) -> frozenset[HeadIndex]:
    """Parse heads such as "3.1 4.2" (layer.head, from 1); ignore heads that do not exist."""
    found = re.findall(r"(?<!\S)(\d{1,4})\.(\d{1,4})(?!\S)", text or "", re.ASCII)
    heads = ((int(layer) - 1, int(head) - 1) for layer, head in found)
    return frozenset(pair for pair in heads if 0 <= pair[0] < L and 0 <= pair[1] < H)


def format_heads(heads: Collection[HeadIndex]) -> str:
    return " ".join(f"{layer + 1}.{head + 1}" for layer, head in sorted(heads))


def effects_caption(found: AblationEffects) -> str:
    """Return the caption of the grid of effects, with the replacement of a head's output."""
    off = (
        MEAN_ABLATION_CAPTION.format(of=found.mean_source)
        if found.mean_source
        else ZERO_ABLATION_CAPTION
    )
    return f"{EFFECTS_CAPTION.format(name=found.run.classes[found.target])} {off}"


def comparison_blocks(
    run: Run, all_on: np.ndarray, without: np.ndarray, heads: Collection[HeadIndex]
) -> list[DocumentBlock]:
    """Compare the five most probable classes (C,) with all heads and without `heads`."""
    shown, _ = top_k_classes(all_on, min(5, len(run.classes)))
    before, now = int(all_on.argmax()), int(without.argmax())
    shown = [*shown, *([now] if now not in shown else [])]  # include the new prediction
    rows = [(run.classes[c], float(all_on[c]), float(without[c])) for c in shown]
    heading = ("all heads", "without")
    if not heads:
        return [
            Text(NO_HEAD_OFF_MESSAGE, told=True),
            ProbabilityChange("All heads are on", rows, heading),
        ]
    verdict = (
        f"{run.name} {'still' if now == before else 'now'} predicts {run.classes[now]} "
        f"({percent_text(without[now])}%; with all heads {percent_text(all_on[now])}%)."
    )
    return [
        Text(verdict, told=True),
        ProbabilityChange(f"Without {list_heads(heads)}", rows, heading),
    ]


def list_heads(heads: Collection[HeadIndex]) -> str:
    """List the first six heads as text, and the number of further heads."""
    words = ", ".join(f"layer {layer + 1} head {head + 1}" for layer, head in sorted(heads)[:6])
    return words + (f" and {len(heads) - 6} more" if len(heads) > 6 else "")


def describe_accuracy_change(name: str, test: McNemarResult, heads: Collection[HeadIndex]) -> str:
    """Describe the accuracy with all heads and without `heads`, and the significance of the change.

    The text names model and heads, because the user may have made other choices since.
    """
    change, low, high = 100 * test.difference, *(100 * test.interval)
    if low <= 0 <= high:
        verdict = "The interval contains 0: the change is not significant."
    else:
        verdict = f"The interval excludes 0: the {'loss' if change < 0 else 'gain'} is significant."
    span = f"{format_signed(low)} to {format_signed(high)}"
    return (
        f"{name}, accuracy on {test.n:,} test images: "
        f"**{percent_text(test.second_accuracy)}%** with "
        f"all heads, **{percent_text(test.first_accuracy)}%** without {list_heads(heads)}. Change: "
        f"{format_signed(change)} percentage points, 95% confidence interval {span}. {verdict}"
    )
