"""Similar pictures: test pictures as points, near where a model finds them alike; neighbours."""

import base64
import io
import math
import threading
import time
from collections.abc import Callable

import gradio as gr
import numpy as np
from PIL import Image

from vitdemo import figures
from vitdemo.errors import ImageError
from vitdemo.features import MOST, PIXELS, Sample, Space
from vitdemo.figures.dataset import sheet
from vitdemo.page import html
from vitdemo.page.components.run_choice import RunChoice, grouped, renewed_runs
from vitdemo.page.kit import LONG_QUEUE, QUIET, PickHTML, for_people, picked_numbers
from vitdemo.page.look.tab import Look
from vitdemo.page.sections import Sections
from vitdemo.runs import Run

WORDS = (
    "Test pictures as points: by their **raw pixels**, and by the **features** from which the "
    "chosen model answers: if it has learned the classes, they part. The places are t-SNE's, which "
    "keeps near what is near; distances and sizes of groups mean little in it, so judge by the "
    "figures below, which are computed on the features themselves. Point at a dot (or move with "
    "the arrow keys) to see its picture; click it to open it in *Look*."
)
# Colours that the colour-blind tell apart (Okabe & Ito 2008), and a shape for each: 8 x 5 pairs,
# none of which comes twice among forty classes; then they begin again.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b08800", "#56b4e9", "#e69f00", "#7a7a7a")
SHAPES = (
    "circle(46%)",
    "inset(10%)",
    "polygon(50% 0, 100% 100%, 0 100%)",
    "polygon(50% 0, 100% 50%, 50% 100%, 0 50%)",
    "polygon(0 0, 100% 0, 50% 100%)",
)
EMPTY = "Nothing is laid out yet: it takes some seconds, and the next time it is there at once."
STOPPED = "Stopped: nothing was laid out."
LARGEST = 10**7  # number of a test picture
SHEET = 50  # small pictures in a row of the sheet behind the dots
LOOKS = len(COLOURS) * len(SHAPES)
SHOWN = 96  # pixels of the picture at a dot
Plane = tuple[Space, np.ndarray]


class Stopped(Exception):
    """A person has pressed Stop."""


def build(
    sections: Sections,
    look: Look,
    *,
    trained_runs: Callable[[], list[Run]],
    planes: Callable[[str, int, Callable], list[Plane]],
    neighbours: Callable[[str, Image.Image], tuple[Sample, np.ndarray, np.ndarray]],
) -> None:
    """Lay out the section; what is picked opens in Look through `look`.

    `planes(name, number, report)` gives the planes to draw, of raw pixels and of the run's
    features.
    """
    gr.Markdown(WORDS)
    model = RunChoice(grouped(trained_runs()), elem_id="similar-model")
    with gr.Row():
        count = gr.Slider(
            200, MOST, MOST, step=100, label="Pictures", elem_id="similar-count", min_width=260
        )
        with gr.Column(min_width=260):
            begin = gr.Button("Lay out the pictures", variant="primary", elem_id="lay-out")
            stop = gr.Button("Stop", size="sm", elem_id="lay-out-stop")
    map_view = PickHTML(html.notice(EMPTY), elem_id="tsne")
    near = gr.Button("Neighbours of the picture in Look", elem_id="find-near")
    near_view = PickHTML(elem_id="near")

    stops: dict[str | None, threading.Event] = {}  # of whom something is laid out, by session

    @for_people
    def lay_out(name, number, request: gr.Request, progress=gr.Progress()):  # noqa: B008
        started, own = time.monotonic(), threading.get_ident()
        stopped = stops.setdefault(request.session_hash, threading.Event())

        def report(share, words):
            if stopped.is_set():
                raise Stopped
            if threading.get_ident() == own:  # gradio knows no other thread
                # Without a share the bar counts seconds.
                so_far = (round(time.monotonic() - started), None) if share is None else share
                progress(so_far, desc=words, unit="s")

        try:
            return planes_html(planes(name, int(number), report))
        except Stopped:
            return html.notice(STOPPED)
        finally:
            stops.pop(request.session_hash, None)

    def arm(request: gr.Request):
        stops[request.session_hash] = threading.Event()  # so that who waits can stop, too

    def stop_it(request: gr.Request):
        if found := stops.get(request.session_hash):
            found.set()

    @for_people
    def find(image, name):
        if image is None:
            raise ImageError("Choose a picture in Look first: none is kept.")
        return neighbours_html(name or PIXELS, *neighbours(name, image))

    armed = begin.click(arm, **QUIET)
    armed.then(lay_out, [model, count], map_view, api_visibility="private", **LONG_QUEUE)
    stop.click(stop_it, **QUIET)
    near.click(find, [look.picture, model], near_view, api_visibility="private", **LONG_QUEUE)

    def picked(name, event: gr.EventData):
        (number,) = picked_numbers(event.pick, LARGEST)
        return number, name

    for view in (map_view, near_view):
        look.connect(view.pick, picked, [model])

    def refresh(name):
        return renewed_runs(trained_runs(), name)[0]

    # Opened, it refreshes its models alone: what was laid out stays.
    sections.add("data-similar", refresh, [model], [model], by=[])


def planes_html(found: list[Plane]) -> str:
    """The planes beside each other over one sheet of pictures and one legend, then the figures."""
    space = found[0][0]
    classes, labels = space.sample.source.classes, space.sample.labels
    plots = "".join(plane_html(space, places) for space, places in found)
    return (
        f"<style>{sheet_css(space.sample)}{class_css(len(classes))}</style>"
        f'<div class="vd-tsne">{legend_html(classes, labels)}'
        f'<div class="vd-planes">{plots}</div></div>{ratios_html(found)}'
    )


def plane_html(space: Space, places: np.ndarray) -> str:
    """One plane: a button a picture, in rows from the top, so that arrow keys find their way."""
    sample, columns = space.sample, max(1, math.isqrt(len(places)))
    top_down = np.argsort(places[:, 1], kind="stable")
    rows = [top_down[start : start + columns] for start in range(0, len(places), columns)]
    order = [i for row in rows for i in row[np.argsort(places[row, 0], kind="stable")]]
    dots = "".join(dot_html(sample, int(i), places[i]) for i in order)
    name = html.escape(space.name)
    return (
        f"<section><h2>{name}</h2>"
        f'<div class="vd-plane" role="group" aria-label="{len(places):,} test pictures by {name}" '
        f'data-columns="{columns}">{dots}</div></section>'
    )


def dot_html(sample: Sample, i: int, place: np.ndarray) -> str:
    x, y, label = 100 * float(place[0]), 100 * float(place[1]), int(sample.labels[i])
    number = int(sample.indices[i])
    words = html.escape(f"{sample.source.classes[label]}, test picture {number}")
    sides = f"{' vd-west' if x > 50 else ''}{' vd-north' if y > 50 else ''}"
    return (
        f'<button type="button" class="vd-dot k{label}{sides}" data-pick="{number}" '
        f'aria-label="{words}" style="left:{x:.1f}%;top:{y:.1f}%;'
        f'--x:{i % SHEET};--y:{i // SHEET}"></button>'
    )


def sheet_css(sample: Sample) -> str:
    """All small pictures as one JPEG, of which a dot shows its part while it is pointed at."""
    buffer = io.BytesIO()
    Image.fromarray(sheet(sample.small, SHEET)).save(buffer, format="JPEG", quality=88)
    data = base64.b64encode(buffer.getvalue()).decode()
    rows = math.ceil(len(sample) / SHEET)
    return (
        ".vd-dot:hover::after, .vd-dot:focus::after { background-image: linear-gradient("
        f"transparent {SHOWN}px, var(--background-fill-primary) {SHOWN}px), "  # under the words
        f"url(data:image/jpeg;base64,{data}); "
        f"background-size: auto, {SHEET * SHOWN}px {rows * SHOWN}px; }}"
    )


def class_css(classes: int) -> str:
    """Colour and shape of each class, and its dots alone while it is chosen in the legend."""
    rules = []
    for k in range(classes):
        rules.append(
            f".k{k}::before {{ background: {COLOURS[k % len(COLOURS)]}; "
            f"clip-path: {SHAPES[k % len(SHAPES)]}; }}"
            f".vd-tsne:has(#pick-k{k}:checked) .vd-dot:not(.k{k}) {{ opacity: 0.12; }}"
        )
    return "".join(rules)


def legend_html(classes: tuple[str, ...], labels: np.ndarray) -> str:
    """The classes as radio buttons: the chosen one stands out in every plane."""
    items = [
        '<label><input type="radio" name="vd-class" id="pick-all" checked> all classes</label>'
    ]
    for k, name in enumerate(classes):
        items.append(
            f'<label><input type="radio" name="vd-class" id="pick-k{k}">'
            f'<i class="vd-key k{k}"></i>{html.escape(name)} '
            f"<small>{int((labels == k).sum()):,}</small></label>"
        )
    if len(classes) > LOOKS:
        items.append(f"<small>Colours and shapes come again after {LOOKS} classes.</small>")
    return (
        '<fieldset class="vd-legend-classes"><legend>Class to bring out</legend>'
        f"{''.join(items)}</fieldset>"
    )


def ratios_html(found: list[Plane]) -> str:
    """How far classes part in each space, computed on the features."""
    rows = [
        (
            space.name,
            f"{space.features.shape[1]:,}",
            "–" if math.isnan(space.ratio) else f"{space.ratio:.3f}",
            "–" if math.isnan(space.purity) else f"{100 * space.purity:.1f} %",
        )
        for space, _ in found
    ]
    header = ("Space", "Width", "Between / within", "Nearest is of the same class")
    return (
        "<h2>How far the classes part</h2>"
        + html.table(header, rows)
        + "<p>Between / within: the mean distance of two pictures of different classes over that "
        "of two of one class; near 1 the mean distance does not tell classes apart, though other "
        "things may: classes that are perfectly separable can have 1.02. The second column is "
        "nearer to that question. Both are computed on the features, not on the places above.</p>"
    )


def neighbours_html(name: str, sample: Sample, places: np.ndarray, cosines: np.ndarray) -> str:
    """The nearest pictures as buttons that open them in Look."""
    side = sample.small.shape[1]
    items = []
    for i, cosine in zip(places.tolist(), cosines, strict=True):
        label, number = sample.source.classes[int(sample.labels[i])], int(sample.indices[i])
        words = f"{label}, test picture {number}, cosine {cosine:.3f}"
        uri = html.image_uri(figures.enlarge(sample.small[i], side * -(-96 // side)))
        items.append(
            f'<button type="button" class="vd-near" data-pick="{number}" '
            f'aria-label="{html.escape(words)}"><img src="{uri}" alt="">'
            f"<span>{html.escape(label)}<small>cosine {cosine:.3f}</small></span></button>"
        )
    return (
        f"<h2>Nearest to the picture in Look, by the features of {html.escape(name)}</h2>"
        f"<p>Of {len(sample):,} test pictures, the nearest first.</p>"
        f'<div class="vd-nears" data-columns="{len(items)}">{"".join(items)}</div>'
    )
