"""The tab "Lessons", and the lesson panel next to all tabs.

A lesson reads its numbers when it is shown, so that they match the available models.
"""

from collections.abc import Sequence
from pathlib import Path

import gradio as gr

from vitdemo.analyses.latency import time_forward_passes
from vitdemo.context import AppContext
from vitdemo.errors import LessonError, VitdemoError
from vitdemo.lessons import Lesson, fill_facts, read_lessons
from vitdemo.lessons.facts import MissingFact, ReadFact, fact_placeholder, lookup_fact
from vitdemo.lessons.handout import render_handout
from vitdemo.models import ModelSpec, build_model
from vitdemo.models.cost import NUM_CLASSES, VitCost, compute_vit_cost
from vitdemo.page.components.article import Document, Text
from vitdemo.page.components.lesson_list import LessonCatalog, LessonList
from vitdemo.page.components.lesson_panel import LessonPanel
from vitdemo.page.components.table import Table
from vitdemo.page.kit import (
    LIGHT_QUEUE,
    LONG_QUEUE,
    NO_API,
    NO_PROGRESS,
    REFRESH_EVENT,
    STATE_LIFETIME,
    UncheckedDropdown,
    add_download_button,
    show_user_errors,
    update_choices,
)

LESSONS_INTRO = (
    "Each lesson opens the views it explains and stays next to them. A step has a short text and "
    "a task or a question. Your progress is saved in this browser. For teachers: add `?teach=1` "
    "to the address for larger text, and use the arrow keys to change steps."
)
# Sliders of the cost calculator: label, minimum, maximum, step and initial value (vit-small-cpu).
SIZE_SLIDERS = {
    "image": ("Image side, pixels", 16, 384, 16, 32),
    "patch": ("Patch side, pixels", 2, 32, 2, 4),
    "width": ("Embedding dimension", 32, 1024, 32, 128),
    "depth": ("Layers", 1, 24, 1, 6),
    "heads": ("Heads", 1, 16, 1, 4),
}
DEFAULT_SIZES = {name: start for name, (*_, start) in SIZE_SLIDERS.items()}
MAX_TIMED_MACS = 20e9  # multiply-adds per image; the latency of larger models is not measured
MAX_TOKENS = 2_500
TIMED_SECONDS = 1.0


def build(tab: gr.Tab, panel: LessonPanel, context: AppContext, folders: Sequence[Path]) -> None:
    """Lay out the tab, and connect its events and the lesson `panel`; `folders` contain lessons."""
    gr.Markdown(LESSONS_INTRO)
    shelf = LessonList(elem_id="lessons")
    build_cost_calculator(context)
    with gr.Accordion("Handouts (worksheets)", open=False, elem_id="hand-outs") as printed:
        gr.Markdown(
            "A printable page per lesson, with figures of the available models, the questions and "
            "space for answers. Open the file in a browser and print it."
        )
        choice = UncheckedDropdown([], label="Lesson", elem_id="hand-out-of")

        def save(folder, name, answers: bool = False) -> str:
            lesson = fill_facts(find_lesson(read_lessons(*folders)[0], name), context)
            path = folder / f"vitdemo-{lesson.name}{'-answers' if answers else ''}.html"
            path.write_text(render_handout(lesson, context, answers=answers), encoding="utf-8")
            return str(path)

        def save_answers(folder, name) -> str:
            return save(folder, name, answers=True)

        with gr.Row():
            add_download_button("Save handout (HTML)", "hand-out", save, [choice], LONG_QUEUE)
            add_download_button(
                "Save with answers (HTML)", "answers-out", save_answers, [choice], LONG_QUEUE
            )

    def offer(chosen) -> dict:
        lessons = read_catalog(context, folders).lessons
        return update_choices([(lesson.title, lesson.name) for lesson in lessons], chosen)[0]

    def show():
        yield read_catalog(
            context, folders, fact_placeholder
        )  # open the panel immediately; the numbers may take seconds
        yield read_catalog(context, folders)

    tab.select(show, None, shelf, **REFRESH_EVENT)
    # Not `tab.select`: a component that gradio updates in a closed panel loses its initial values.
    printed.expand(offer, choice, choice, **REFRESH_EVENT)

    def send() -> list[Lesson]:
        return read_catalog(context, folders).lessons

    panel.want(send, None, panel, **NO_PROGRESS, **LIGHT_QUEUE)


def read_catalog(
    context: AppContext, folders: Sequence[Path], tell: ReadFact = lookup_fact
) -> LessonCatalog:
    """Return the available lessons, lessons with missing requirements, and errors in lesson files.

    `tell` fills in facts: `lookup_fact`, or `fact_placeholder` if only the titles are needed.
    """
    read, problems = read_lessons(*folders)
    found, missing = [], []
    for lesson in read:
        try:
            found.append(fill_facts(lesson, context, tell))
        except MissingFact as error:
            missing.append((lesson, str(error)))
    return LessonCatalog(found, missing, problems)


def find_lesson(lessons: Sequence[Lesson], name: object) -> Lesson:
    """Return the lesson called `name`. Raises `LessonError` if there is none."""
    for lesson in lessons:
        if lesson.name == name:
            return lesson
    raise LessonError("Choose a lesson first.")


# --- cost calculator -----------------------------------------------------------------------------


def build_cost_calculator(context: AppContext) -> None:
    with gr.Accordion("Cost of a Vision Transformer", open=False, elem_id="cost-of") as top:
        with gr.Row():
            sliders = [
                gr.Slider(
                    low, high, start, step=step, label=label, elem_id=f"cost-{name}", min_width=160
                )
                for name, (label, low, high, step, start) in SIZE_SLIDERS.items()
            ]
        with gr.Row():
            measure = gr.Button("Measure latency", size="sm", elem_id="cost-measure")
            keep = gr.Button("Use as baseline", size="sm", elem_id="cost-keep")
        before = gr.State(list(DEFAULT_SIZES.values()), time_to_live=STATE_LIFETIME)
        table = Document(elem_id="cost-table", min_height=120)

    def tell(before, *sizes) -> list | str:
        try:
            return cost_table(compute_vit_cost(*before), compute_vit_cost(*validate_sizes(sizes)))
        except VitdemoError as error:
            return str(error)

    @show_user_errors
    def time_it(before, *sizes) -> list:
        return [
            *cost_table(compute_vit_cost(*before), compute_vit_cost(*validate_sizes(sizes))),
            measure_model_latency(context, sizes),
        ]

    changes = [top.expand, *(slider.change for slider in sliders)]
    gr.on(changes, tell, [before, *sliders], table, **REFRESH_EVENT)
    kept = keep.click(
        show_user_errors(lambda *sizes: validate_sizes(sizes)),
        sliders,
        before,
        **NO_PROGRESS,
        **LIGHT_QUEUE,
    )
    kept.success(tell, [before, *sliders], table, **NO_PROGRESS, **LIGHT_QUEUE)
    measure.click(time_it, [before, *sliders], table, **NO_API, **LONG_QUEUE)


def validate_sizes(sizes: Sequence) -> list[int]:
    """Convert the sizes of a model to integers. Raises `LessonError` for invalid combinations."""
    sizes = [int(size) for size in sizes]
    image, patch = sizes[:2]
    if image % patch:
        words = f"The image side ({image}) is not a multiple of the patch side ({patch})."
        raise LessonError(f"{words} Change one of the two.")
    if (image // patch) ** 2 > MAX_TOKENS:
        raise LessonError(
            f"{(image // patch) ** 2:,} patches are more than the limit of {MAX_TOKENS:,}. Choose "
            "larger patches or a smaller image."
        )
    return sizes


def cost_table(before: VitCost, now: VitCost) -> list:
    rows = [
        ["Tokens", f"{before.tokens:,}", f"{now.tokens:,}", format_factor(before.tokens,
        now.tokens)], ["Parameters, M", *(f"{c.parameters / 1e6:.2f}" for c in (before, now)),
         format_factor(before.parameters, now.parameters)],
        ["Multiply-adds, M", *(f"{c.macs / 1e6:,.0f}" for c in (before, now)),
         format_factor(before.macs, now.macs)],
        ["Attention matrix products, M", *(f"{c.attention_matrix_macs / 1e6:,.1f}" for c in (before,
        now)),
         format_factor(before.attention_matrix_macs, now.attention_matrix_macs)],
        ["Attention matrix products, %", *(f"{100 * c.attention_matrix_fraction:.1f}" for c in
        (before, now)), ""],
    ]  # fmt: skip
    words = (
        "Cost of a model with ten classes. Attention matrix products: queries times keys, and "
        "attention weights times values; %: fraction of all multiply-adds."
    )
    return [
        Table(["Cost per image", "Baseline", "Current", "Factor"], rows, file="cost"),
        Text(words, quiet=True),
    ]


def format_factor(before: float, now: float) -> str:
    return f"× {now / before:.2f}"


def measure_model_latency(context: AppContext, sizes: Sequence) -> Text:
    """Measure the latency of a model for one image. Raises `LessonError` if it is too large."""
    image, patch, width, depth, heads = validate_sizes(sizes)
    cost = compute_vit_cost(image, patch, width, depth, heads)
    if cost.macs > MAX_TIMED_MACS:
        raise LessonError(
            f"The model needs {cost.macs / 1e9:.0f} G multiply-adds, more than the limit of "
            f"{MAX_TIMED_MACS / 1e9:.0f} G for a measurement. Choose smaller sizes."
        )
    options = {"patch_size": patch, "embed_dim": width, "depth": depth, "num_heads": heads}
    model = build_model(ModelSpec("vit", image, options=options), NUM_CLASSES)
    found = time_forward_passes(
        model.to(context.device).eval(), image, 1, context.device, TIMED_SECONDS
    )
    return Text(
        f"Latency for one image: **{found.milliseconds:.1f} ms** (median of {found.passes} passes; "
        f"quartiles {found.low:.1f} and {found.high:.1f} ms; {found.device}).",
        told=True,
    )
