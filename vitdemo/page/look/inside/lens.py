"""The part "Logit lens": the model's answer if it stopped there, and from each patch.

Letters: L layers, P patches, C classes.
"""

from collections import Counter
from collections.abc import Sequence

import gradio as gr
import numpy as np

from vitdemo import figures
from vitdemo.figures.inside import CLASS_COLOURS, sequential
from vitdemo.inside import Lens, logit_lens
from vitdemo.page import html
from vitdemo.page.kit import MODEL_QUEUE, PickHTML, for_people, nearest, picked_numbers
from vitdemo.page.look.inside.pieces import caption, folded, paint, percent
from vitdemo.page.look.tab import Look

ALL_NAMED = 12  # classes; of more, the strip names the strongest
STRONGEST = 8
OTHER = CLASS_COLOURS[-1]
APPROXIMATE = (
    "The model's last norm and classifier read every layer here, though they were trained to read "
    "only what comes out of the last one: the last column is the model's answer, the others are "
    "an approximation, the rougher the earlier. Choose a layer by its number."
)
PATCHES = (
    "The same classifier reads each patch by itself. In most models it never learnt to read "
    "patches, and after the first layers a patch has mixed with others: its word is a hint at "
    "what it holds, not a label of that spot."
)


def build(look: Look) -> None:
    """Lay out and wire the part."""
    strip = PickHTML(elem_id="lens")
    patches = gr.HTML(elem_id="lens-patches", apply_default_css=False)

    def lens_of(image, name) -> Lens:
        return logit_lens(look.workbench, look.workbench.run(name), image)

    def draw(image, name, layer):
        found = lens_of(image, name)
        layer = nearest(layer, len(found.answers) - 1) if layer else 0
        return strip_html(found, layer), patches_html(found, layer)

    @for_people
    def pick(image, name, event: gr.EventData):
        found = lens_of(image, name)
        (layer,) = picked_numbers(event.pick, len(found.answers))
        # The tab's slider has no 0; for all others it follows, so that all sections agree.
        moved = layer or gr.skip()
        return strip_html(found, layer), patches_html(found, layer), moved

    look.add("inside/lens", draw, [look.layer], [strip, patches])
    strip.pick(
        pick,
        inputs=look.always,
        outputs=[strip, patches, look.layer],
        trigger_mode="always_last",
        show_progress="hidden",
        api_visibility="private",
        **MODEL_QUEUE,
    )


def strip_html(found: Lens, layer: int) -> str:
    """A row for each class, a column before the first block (0) and after each layer 1..L."""
    classes, answers = found.run.classes, found.answers  # (L+1, C)
    shown = strongest(answers)
    head = "".join(
        f'<th scope="col"><button data-pick="{i}" aria-pressed="{str(i == layer).lower()}" '
        f'aria-label="{place(i)}: show what its patches say">{i}</button></th>'
        for i in range(len(answers))
    )
    body = "".join(
        f'<tr><th scope="row">{html.escape(classes[c])}</th>{_cells(answers[:, c], classes[c])}'
        "</tr>"
        for c in shown
    )
    left = len(classes) - len(shown)
    rest = f" Of {len(classes)} classes the {len(shown)} strongest are shown." if left else ""
    return (
        caption(APPROXIMATE + rest, "Approximate")
        + '<div class="vd-scroll"><table class="vd-numbered vd-lens"><caption>Probability of each '
        'class in percent, layer by layer</caption><thead><tr data-columns="'
        f'{len(answers)}"><th scope="col">layer</th>{head}</tr></thead><tbody>{body}</tbody>'
        "</table></div>"
    )


def _cells(values: np.ndarray, name: str) -> str:
    """One class's probabilities (L+1,) as coloured cells."""
    return "".join(
        f'<td style="{paint(colour)}" title="{place(i)}: {html.escape(name)} {percent(value)}">'
        f"{100 * value:.0f}</td>"
        for i, (value, colour) in enumerate(zip(values, sequential(values, 1.0), strict=True))
    )


def patches_html(found: Lens, layer: int) -> str:
    """The class predicted from each patch after `layer` 0..L: coloured, with a short name."""
    rows, columns = found.grid
    predicted = found.patches[layer].argmax(1)  # (P,)
    values = found.patches[layer].max(1)  # (P,)
    colours, short = class_colours(found.patches), short_names(found.run.classes)
    names = [found.run.classes[c] for c in predicted]
    cells = [
        f'<td style="{paint(colours.get(c, OTHER))}" title="Row {p // columns + 1}, column '
        f'{p % columns + 1}: {html.escape(names[p])} {percent(values[p])}">'
        f"{html.escape(short[c])}</td>"
        for p, c in enumerate(predicted)
    ]
    lines = ("".join(cells[i * columns : (i + 1) * columns]) for i in range(rows))
    grid = (
        f'<table class="vd-patches" style="--columns: {columns}"><caption>Predicted class of each '
        f"patch, {place(layer).lower()}</caption>"
        f"{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
    )
    counts = Counter(predicted.tolist()).most_common()
    legend = "".join(
        f'<li><i style="{paint(colours.get(c, OTHER))}">{html.escape(short[c])}</i> '
        f"{html.escape(found.run.classes[c])}: {count} of {rows * columns}</li>"
        for c, count in counts
    )
    seen = html.figure(
        figures.enlarge(found.seen, figures.display_side(len(found.seen), 288)),
        f"What {found.run.name} saw, with its patches",
        f"What {found.run.name} saw",
        grid=found.grid,
    )
    table = html.table(
        ["row", *map(str, range(1, columns + 1))],
        [
            [str(i + 1), *(f"{names[p]} {100 * values[p]:.1f}" for p in line)]
            for i, line in enumerate(np.arange(rows * columns).reshape(rows, columns))
        ],
    )
    return (
        caption(PATCHES, "Approximate")
        + f'<div class="vd-row vd-pair" style="--vd-width: 300px">{seen}{grid}</div>'
        + f'<ul class="vd-classes">{legend}</ul>'
        + folded("Numbers: each patch's class and its probability, in percent", table)
    )


def place(layer: int) -> str:
    return f"After layer {layer}" if layer else "Before the first layer"


def strongest(answers: np.ndarray) -> list[int]:
    """The classes to show of (L+1, C): all of a few, else those that are ever the most probable."""
    if answers.shape[1] <= ALL_NAMED:
        return list(range(answers.shape[1]))
    top = np.argsort(-answers.max(0), kind="stable")[:STRONGEST]
    return sorted(top.tolist(), key=lambda c: -answers[-1, c])


def class_colours(patches: np.ndarray) -> dict[int, str]:
    """A colour for each class: fixed where there are enough, else for those that most of the
    patches (L+1, P, C) say; the others share the last, grey one."""
    if patches.shape[2] <= len(CLASS_COLOURS):
        return dict(enumerate(CLASS_COLOURS))
    common = Counter(patches.argmax(2).ravel().tolist()).most_common(len(CLASS_COLOURS) - 1)
    return {c: colour for (c, _), colour in zip(common, CLASS_COLOURS, strict=False)}


def short_names(classes: Sequence[str]) -> list[str]:
    """The shortest beginnings of one length, two to four letters, that differ; else numbers."""
    for length in (2, 3, 4):
        short = [name[:length] for name in classes]
        if len(set(short)) == len(classes):
            return short
    return [str(i) for i in range(len(classes))]
