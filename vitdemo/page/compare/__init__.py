"""The Compare models tab: every run in one table, timed here; what each recipe has otherwise than
another's; and the models on changed pictures."""

from collections.abc import Callable, Iterator, Mapping

import gradio as gr

from vitdemo.errors import VitdemoError
from vitdemo.explorer import compare
from vitdemo.explorer.compare import Latency, ModelRow
from vitdemo.page import html
from vitdemo.page.compare import ingredients, robustness
from vitdemo.page.compare.export import exports
from vitdemo.page.kit import LONG_QUEUE, QUIET
from vitdemo.runs import Run

INTRO = (
    "All models beside each other, from the files of their runs: what they cost, how good they "
    "are, how sure that is, and how fast they answer on this machine."
)
NOTHING = (
    "There is no run yet. Start one with `python train.py vit-small-cpu`: it appears in this table."
)


def build(
    tab: gr.Tab,
    *,
    model_rows: Callable[[], list[ModelRow]],
    trained_runs: Callable[[], list[Run]],
    latency: Callable[[Run, int], Latency],
    beside: Mapping[str, Callable],
    changed: Mapping[str, Callable],
) -> None:
    """Lay out and wire the tab, which draws when it is opened.

    `latency` times a run at a batch size; `beside` and `changed` have what the sections of
    ingredients and of changed pictures take beside.
    """
    gr.Markdown(INTRO)
    table = gr.HTML(elem_id="models", apply_default_css=False)
    timed = gr.State({}, time_to_live=3600)  # what this user has measured, by run
    with gr.Row():
        time_button = gr.Button("Measure latency here", size="sm", scale=0, min_width=200)
        stop_timing = gr.Button("Stop", size="sm", scale=0, min_width=100)
    state = gr.HTML(elem_id="latency", apply_default_css=False)
    reported = gr.HTML(elem_id="reported", apply_default_css=False)
    ingredients.build(tab, **beside)
    robustness.build(tab, trained_runs=trained_runs, **changed)

    def open_tab(measured):
        rows = model_rows()
        return models_html(rows, measured), reported_html({row.recipe for row in rows})

    def time_all(measured, progress=gr.Progress()):  # noqa: B008 - gradio reads the default
        for known, words in timings(trained_runs(), latency, measured, progress):
            yield models_html(model_rows(), known), known, words

    tab.select(open_tab, inputs=timed, outputs=[table, reported], **QUIET)
    timing = time_button.click(
        time_all,
        inputs=timed,
        outputs=[table, timed, state],
        api_visibility="private",
        show_progress_on=state,
        **LONG_QUEUE,
    )
    stop_timing.click(None, cancels=timing)


def models_html(rows: list[ModelRow], measured: dict[str, list[Latency]]) -> str:
    """The table, both exports, and what its columns say."""
    if not rows:
        return html.notice(NOTHING)
    header, texts = compare.cells(rows, measured)
    problems = html.notices(row.problem for row in rows if row.problem)
    links = exports(header, texts, "vitdemo-models")
    shown, cells, same = compare.told_once(header, texts)
    words = "; ".join(f"{title}: {text}" for title, text in same.items() if text != compare.DASH)
    note = f'<p class="vd-quiet">The same for all: {html.escape(words)}.</p>' if words else ""
    said = html.explanations(compare.HEADER)
    return f"{problems}{html.table(shown, cells)}{note}<p>{links}</p>{said}"


def reported_html(known: set[str]) -> str:
    """The figures of others, apart from ours; those for a recipe of the table first."""
    header, rows = compare.reported_cells()
    rows = sorted(rows, key=lambda row: row[0] not in known)
    return (
        "<h2>Reported elsewhere, not measured here</h2><p>What others report for CIFAR-10 with the "
        "same recipe or its like. Some chose their best epoch on the test set, which flatters; "
        "none was checked by this project.</p>"
        f'<details class="vd-numbers"><summary>{len(rows)} figures and their sources</summary>'
        f"{html.table(header, rows)}</details>"
    )


def timings(
    runs: list[Run],
    latency: Callable[[Run, int], Latency],
    measured: dict[str, list[Latency]],
    progress: gr.Progress,
) -> Iterator[tuple[dict[str, list[Latency]], str]]:
    """After each model, all that is measured by then, and in words how it was."""
    measured, problems, words = dict(measured), [], ""
    names = [run.name for run in runs]
    for number, run in enumerate(runs):
        progress((number, len(runs)), desc=f"Timing {run.name}", unit="models")
        try:
            measured[run.name] = [latency(run, batch) for batch in compare.BATCHES]
            words = latency_words({name: measured[name] for name in names if name in measured})
        except VitdemoError as error:
            problems.append(str(error))
        yield measured, html.notices(problems) + words
    if not runs:
        yield measured, html.notice("There is no trained model to time.")


def latency_words(measured: dict[str, list[Latency]]) -> str:
    """The times of each run, which stand far to the right in the table, and how they were taken."""
    batches = " and ".join(map(str, compare.BATCHES))
    each = "; ".join(
        f"{html.escape(name)} "
        + " and ".join(f"<strong>{found.milliseconds:.1f}</strong>" for found in several)
        for name, several in measured.items()
    )
    found = next(iter(measured.values()))[0]
    return (
        f"<p>Milliseconds for {batches} pictures at once: {each}.</p>"
        f'<p class="vd-quiet">Median of at least 5 forward passes after {compare.WARM_UP} to warm '
        f"up, on {html.escape(found.device)}, without reading or scaling the pictures. Other work "
        "on the machine at the same time slows it.</p>"
    )
