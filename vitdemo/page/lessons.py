"""The tab "Lessons", and the lesson panel next to all tabs.

The numbers in a lesson are read when it is shown, so that they match the available models.
"""

from collections.abc import Sequence
from pathlib import Path

import gradio as gr

from vitdemo.errors import LessonError, VitdemoError
from vitdemo.lessons import Lesson, read_lessons, with_facts
from vitdemo.lessons.facts import MissingFact, Tell, looked_up, unread
from vitdemo.lessons.handout import handout
from vitdemo.models import ModelSpec, build_model
from vitdemo.models.cost import CLASSES, VitCost, vit_cost
from vitdemo.page.compare.models import timed
from vitdemo.page.components.article import Article, Text
from vitdemo.page.components.lesson_list import LessonList, Shelf
from vitdemo.page.components.lesson_panel import LessonPanel
from vitdemo.page.components.table import Table
from vitdemo.page.kit import (
    HIDDEN,
    KEPT_SECONDS,
    LIGHT_QUEUE,
    LONG_QUEUE,
    PRIVATE,
    QUIET,
    FreeDropdown,
    for_people,
    offer_download,
    renewed,
)
from vitdemo.page.look import permalink
from vitdemo.page.look.tab import Look
from vitdemo.workbench import Workbench

INTRO = (
    "Each lesson opens the views it explains and stays next to them. A step has a short text and "
    "a task or a question. Your progress is saved in this browser. For teachers: add `?teach=1` "
    "to the address for larger text, and use the arrow keys to change steps."
)
# Sliders of the cost calculator: label, minimum, maximum, step and start (those of vit-small-cpu).
SIZES = {
    "image": ("Image side, pixels", 16, 384, 16, 32),
    "patch": ("Patch side, pixels", 2, 32, 2, 4),
    "width": ("Embedding dimension", 32, 1024, 32, 128),
    "depth": ("Layers", 1, 24, 1, 6),
    "heads": ("Heads", 1, 16, 1, 4),
}
START = {name: start for name, (*_, start) in SIZES.items()}
MOST_MACS = 20e9  # per image; larger models are not timed
MOST_TOKENS = 2_500
TIMED_SECONDS = 1.0


def build(
    page: gr.Blocks, tab: gr.Tab, panel: LessonPanel, look: Look, folders: Sequence[Path]
) -> None:
    """Lay out and wire the tab and the lesson `panel`; `folders` contain the lessons."""
    workbench = look.workbench
    gr.Markdown(INTRO)
    shelf = LessonList(elem_id="lessons")
    lay_out_cost(workbench)
    with gr.Accordion("Handouts (worksheets)", open=False, elem_id="hand-outs") as printed:
        gr.Markdown(
            "A printable page per lesson, with figures of the available models, the questions and "
            "space for answers. Open the file in a browser and print it."
        )
        choice = FreeDropdown([], label="Lesson", elem_id="hand-out-of")

        def save(folder, name, answers: bool = False) -> str:
            lesson = with_facts(named(read_lessons(*folders)[0], name), workbench)
            path = folder / f"vitdemo-{lesson.name}{'-answers' if answers else ''}.html"
            path.write_text(handout(lesson, workbench, answers=answers), encoding="utf-8")
            return str(path)

        def save_answers(folder, name) -> str:
            return save(folder, name, answers=True)

        with gr.Row():
            offer_download("Save handout (HTML)", "hand-out", save, [choice], LONG_QUEUE)
            offer_download(
                "Save with answers (HTML)", "answers-out", save_answers, [choice], LONG_QUEUE
            )

    def offer(chosen) -> dict:
        lessons = shelf_of(workbench, folders).lessons
        return renewed([(lesson.title, lesson.name) for lesson in lessons], chosen)[0]

    def show():
        yield shelf_of(workbench, folders, unread)  # at once; the numbers may take seconds
        yield shelf_of(workbench, folders)

    tab.select(show, None, shelf, **QUIET)
    # Not on tab.select: a gradio component updated in a closed panel loses its initial values.
    printed.expand(offer, choice, choice, **QUIET)

    def send() -> list[Lesson]:
        return shelf_of(workbench, folders).lessons

    def send_if_named(search: str):
        return send() if "lesson=" in (search or "") else gr.skip()

    panel.want(send, None, panel, **HIDDEN, **LIGHT_QUEUE)
    page.load(send_if_named, look.section, panel, js=permalink.READ, **HIDDEN, **LIGHT_QUEUE)
    look.visit_on(panel.visit)


def shelf_of(workbench: Workbench, folders: Sequence[Path], tell: Tell = looked_up) -> Shelf:
    """Return the lessons, those with missing requirements, and the problems of invalid files.

    `tell` is `looked_up` or, if only the titles are needed, `unread`.
    """
    read, problems = read_lessons(*folders)
    found, missing = [], []
    for lesson in read:
        try:
            found.append(with_facts(lesson, workbench, tell))
        except MissingFact as error:
            missing.append((lesson, str(error)))
    return Shelf(found, missing, problems)


def named(lessons: Sequence[Lesson], name: object) -> Lesson:
    """Return the lesson called `name`. Raises `LessonError` if there is none."""
    for lesson in lessons:
        if lesson.name == name:
            return lesson
    raise LessonError("Choose a lesson first.")


# --- cost calculator -----------------------------------------------------------------------------


def lay_out_cost(workbench: Workbench) -> None:
    with gr.Accordion("Cost of a Vision Transformer", open=False, elem_id="cost-of") as top:
        with gr.Row():
            sliders = [
                gr.Slider(
                    low, high, start, step=step, label=label, elem_id=f"cost-{name}", min_width=160
                )
                for name, (label, low, high, step, start) in SIZES.items()
            ]
        with gr.Row():
            measure = gr.Button("Measure latency", size="sm", elem_id="cost-measure")
            keep = gr.Button("Use as baseline", size="sm", elem_id="cost-keep")
        before = gr.State(list(START.values()), time_to_live=KEPT_SECONDS)
        table = Article(elem_id="cost-table", min_height=120)

    def tell(before, *sizes) -> list | str:
        try:
            return cost_table(vit_cost(*before), vit_cost(*checked(sizes)))
        except VitdemoError as error:
            return str(error)

    @for_people
    def time_it(before, *sizes) -> list:
        return [
            *cost_table(vit_cost(*before), vit_cost(*checked(sizes))),
            latency(workbench, sizes),
        ]

    changes = [top.expand, *(slider.change for slider in sliders)]
    gr.on(changes, tell, [before, *sliders], table, **QUIET)
    kept = keep.click(
        for_people(lambda *sizes: checked(sizes)), sliders, before, **HIDDEN, **LIGHT_QUEUE
    )
    kept.success(tell, [before, *sliders], table, **HIDDEN, **LIGHT_QUEUE)
    measure.click(time_it, [before, *sliders], table, **PRIVATE, **LONG_QUEUE)


def checked(sizes: Sequence) -> list[int]:
    """Return the sizes as integers. Raises `LessonError` for an impossible combination."""
    sizes = [int(size) for size in sizes]
    image, patch = sizes[:2]
    if image % patch:
        raise LessonError(
            f"The image side ({image}) is not a multiple of the patch side ({patch}). Change one."
        )
    if (image // patch) ** 2 > MOST_TOKENS:
        raise LessonError(
            f"{(image // patch) ** 2:,} patches are more than the limit of {MOST_TOKENS:,}. Choose "
            "larger patches or a smaller image."
        )
    return sizes


def cost_table(before: VitCost, now: VitCost) -> list:
    rows = [
        ["Tokens", f"{before.tokens:,}", f"{now.tokens:,}", times(before.tokens, now.tokens)],
        ["Parameters, M", *(f"{c.parameters / 1e6:.2f}" for c in (before, now)),
         times(before.parameters, now.parameters)],
        ["Multiply-adds, M", *(f"{c.macs / 1e6:,.0f}" for c in (before, now)),
         times(before.macs, now.macs)],
        ["Attention matrix products, M", *(f"{c.pair_macs / 1e6:,.1f}" for c in (before, now)),
         times(before.pair_macs, now.pair_macs)],
        ["Attention matrix products, %", *(f"{100 * c.pair_share:.1f}" for c in (before, now)), ""],
    ]  # fmt: skip
    words = (
        "For ten classes. Attention matrix products: queries with keys, and attention weights with "
        "values; %: of all multiply-adds."
    )
    return [
        Table(["Cost per image", "Baseline", "Current", "Factor"], rows, file="cost"),
        Text(words, quiet=True),
    ]


def times(before: float, now: float) -> str:
    return f"× {now / before:.2f}"


def latency(workbench: Workbench, sizes: Sequence) -> Text:
    """Measure the latency of one image here. Raises `LessonError` if the model is too large."""
    image, patch, width, depth, heads = checked(sizes)
    cost = vit_cost(image, patch, width, depth, heads)
    if cost.macs > MOST_MACS:
        raise LessonError(
            f"The model needs {cost.macs / 1e9:.0f} G multiply-adds, more than the limit of "
            f"{MOST_MACS / 1e9:.0f} G for a measurement. Choose smaller sizes."
        )
    options = {"patch_size": patch, "embed_dim": width, "depth": depth, "num_heads": heads}
    model = build_model(ModelSpec("vit", image, options=options), CLASSES)
    found = timed(model.to(workbench.device).eval(), image, 1, workbench.device, TIMED_SECONDS)
    return Text(
        f"Latency for one image: **{found.milliseconds:.1f} ms** (median of {found.passes} passes; "
        f"quartiles {found.low:.1f} and {found.high:.1f} ms; {found.device}).",
        told=True,
    )
