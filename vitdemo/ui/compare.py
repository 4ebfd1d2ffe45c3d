"""The Compare models tab: every run in one table, timed here, and put to changed pictures."""

from collections.abc import Callable, Iterator, Sequence

import gradio as gr

from vitdemo import figures
from vitdemo.errors import VitdemoError
from vitdemo.evaluation.intervals import share_interval
from vitdemo.explorer import compare
from vitdemo.explorer.compare import Latency, ModelRow
from vitdemo.explorer.robustness import Step
from vitdemo.explorer.sample import PICTURES
from vitdemo.figures import charts
from vitdemo.perturb import PERTURBATIONS, Perturbation
from vitdemo.runs import Run
from vitdemo.ui import html
from vitdemo.ui.components import LONG_QUEUE, QUIET
from vitdemo.ui.metrics.curves import COLOURS
from vitdemo.ui.metrics.tables import explanations

INTRO = (
    "All models beside each other, from the files of their runs: what they cost, how good they "
    "are, how sure that is, and how fast they answer on this machine."
)
ROBUSTNESS = (
    "### When pictures get worse\nAccuracy on test pictures that are changed step by step, the "
    "same pictures and the same changes for every model. Shuffled patches keep texture and lose "
    "shape; blur does the reverse."
)
NOTHING = (
    "There is no run yet. Start one with `python train.py vit-small-cpu`: it appears in this table."
)
FIRST_CHANGES = ["noise", "blur"]
Results = dict[str, dict[str, list[float]]]  # change -> run -> accuracy at each of its strengths


def build(
    tab: gr.Tab,
    *,
    model_rows: Callable[[], list[ModelRow]],
    trained_runs: Callable[[], list[Run]],
    latency: Callable[[Run, int], Latency],
    measure: Callable[[Run, Sequence[str], int], Iterator[Step]],
    sample_size: Callable[[Run, int], int],
) -> None:
    """Lay out and wire the tab, which draws when it is opened.

    `latency` times a run at a batch size; `measure` yields the points of its robustness curves on
    so many test pictures, or on all where `sample_size` says that there are fewer.
    """
    gr.Markdown(INTRO)
    table = gr.HTML(elem_id="models", apply_default_css=False)
    timed = gr.State({}, time_to_live=3600)  # what this user has measured, by run
    with gr.Row():
        time_button = gr.Button("Measure latency here", size="sm", scale=0, min_width=200)
        stop_timing = gr.Button("Stop", size="sm", scale=0, min_width=100)
    state = gr.HTML(elem_id="latency", apply_default_css=False)
    reported = gr.HTML(elem_id="reported", apply_default_css=False)
    gr.Markdown(ROBUSTNESS)
    with gr.Row():
        names = gr.CheckboxGroup([], label="Models", elem_id="robust-models", min_width=300)
        changes = gr.CheckboxGroup(
            [(change.title, name) for name, change in PERTURBATIONS.items()],
            value=FIRST_CHANGES,
            label="Changes",
            elem_id="robust-changes",
            min_width=300,
        )
        count = gr.Slider(
            100,
            PICTURES,
            PICTURES,
            step=100,
            label="Test pictures",
            info="fewer are quicker, and say less",
            elem_id="robust-count",
            min_width=220,
        )
    with gr.Row():
        start = gr.Button("Measure robustness", size="sm", scale=0, min_width=200)
        stop = gr.Button("Stop", size="sm", scale=0, min_width=100)
    robust = gr.HTML(elem_id="robustness", apply_default_css=False)

    def open_tab(measured, chosen):
        rows, trained = model_rows(), [run.name for run in trained_runs()]
        kept = [name for name in chosen if name in trained]
        value = {} if kept and kept == chosen else {"value": kept or trained}
        names = gr.update(choices=trained, **value)
        return models_html(rows, measured), reported_html({row.recipe for row in rows}), names

    def time_all(measured, progress=gr.Progress()):  # noqa: B008 - gradio reads the default
        for known, words in timings(trained_runs(), latency, measured, progress):
            yield models_html(model_rows(), known), known, words

    def measure_all(names, changes, count, progress=gr.Progress()):  # noqa: B008
        runs = [run for run in trained_runs() if run.name in names]
        if not runs or not changes:
            yield html.notice("Choose a model and a change above.")
            return
        try:
            found = min(sample_size(run, int(count)) for run in runs)
        except VitdemoError as error:
            yield html.notice(str(error))
            return
        yield from robustness(runs, changes, found, measure, progress)

    long = {"api_visibility": "private", "show_progress_on": state, **LONG_QUEUE}
    tab.select(open_tab, inputs=[timed, names], outputs=[table, reported, names], **QUIET)
    timing = time_button.click(time_all, inputs=timed, outputs=[table, timed, state], **long)
    stop_timing.click(None, cancels=timing)
    measuring = start.click(
        measure_all, [names, changes, count], robust, **long | {"show_progress_on": robust}
    )
    stop.click(None, cancels=measuring)


def models_html(rows: list[ModelRow], measured: dict[str, list[Latency]]) -> str:
    """The table, both exports, and what its columns say."""
    if not rows:
        return html.notice(NOTHING)
    header, texts = compare.cells(rows, measured)
    problems = html.notices(row.problem for row in rows if row.problem)
    return (
        problems
        + html.table(header, texts)
        + f"<p>{exports(header, texts)}</p>"
        + explanations(compare.HEADER)
    )


def exports(header: list[str], texts: list[list[str]]) -> str:
    markdown = compare.markdown(header, texts)
    return (
        html.csv_link(header, texts, "vitdemo-models.csv")
        + " "
        + html.download_link(markdown, "text/markdown", "vitdemo-models.md", "Download Markdown")
    )


def reported_html(known: set[str]) -> str:
    """The figures of others, apart from ours; those for a recipe of the table first."""
    header, rows = compare.reported_cells()
    rows = sorted(rows, key=lambda row: row[0] not in known)
    return (
        "<h3>Reported elsewhere, not measured here</h3><p>What others report for CIFAR-10 with the "
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
    for number, run in enumerate(runs):
        progress((number, len(runs)), desc=f"Timing {run.name}", unit="models")
        try:
            measured[run.name] = [latency(run, batch) for batch in compare.BATCHES]
            words = latency_words(measured[run.name][0])
        except VitdemoError as error:
            problems.append(str(error))
        yield measured, html.notices(problems) + words
    if not runs:
        yield measured, html.notice("There is no trained model to time.")


def latency_words(found: Latency) -> str:
    return (
        f'<p class="vd-quiet">Median of at least 5 forward passes after {compare.WARM_UP} to warm '
        f"up, on {html.escape(found.device)}, without reading or scaling the pictures. Other work "
        "on the machine at the same time slows it.</p>"
    )


def robustness(
    runs: list[Run],
    changes: list[str],
    count: int,
    measure: Callable[[Run, Sequence[str], int], Iterator[Step]],
    progress: gr.Progress,
) -> Iterator[str]:
    """The curves so far, each time that one is whole."""
    results: Results = {change: {} for change in changes}
    problems: list[str] = []
    for number, run in enumerate(runs):
        try:
            for step in measure(run, changes, count):
                points = results[step.change].setdefault(run.name, [])
                points.append(step.accuracy)
                done = number * step.total + step.done
                about = f"{run.name}: {PERTURBATIONS[step.change].title}"
                progress((done, len(runs) * step.total), desc=about, unit="points")
                if len(points) == len(PERTURBATIONS[step.change].strengths):
                    yield robustness_html(results, runs, count, problems)
        except VitdemoError as error:
            problems.append(str(error))
            yield robustness_html(results, runs, count, problems)


def robustness_html(results: Results, runs: list[Run], count: int, problems: list[str]) -> str:
    """A figure and a table for each change of which something is known."""
    style = {
        run.name: (COLOURS[i % len(COLOURS)], charts.MARKERS[i % len(charts.MARKERS)])
        for i, run in enumerate(runs)
    }
    whole = {
        change: {run: points for run, points in found.items() if len(points) == strengths(change)}
        for change, found in results.items()
    }
    parts = [part(change, found, style, count) for change, found in whole.items() if found]
    key = "".join(
        f'<span><i style="color: {colour}"></i>{html.escape(name)}</span>'
        for name, (colour, _) in style.items()
    )
    legend = f'<div class="vd-curves">{key}</div>' if parts else ""
    link = f"<p>{robustness_csv(whole)}</p>" if parts else ""
    return html.notices(problems) + legend + f'<div class="vd-plots">{"".join(parts)}</div>' + link


def strengths(change: str) -> int:
    return len(PERTURBATIONS[change].strengths)


def part(
    change: str, found: dict[str, list[float]], style: dict[str, tuple[str, str]], count: int
) -> str:
    """One change: its sentence, its curves, its numbers with how far chance could move them."""
    about = PERTURBATIONS[change]
    series = [charts.Series(points, *style[run]) for run, points in found.items()]
    figure = charts.strength_plot(about.strengths, series, axis_title(about))
    label = f"Accuracy under {about.title.lower()} of {', '.join(found)}; its numbers are below"
    header = [axis_title(about), *(f"{strength:g}" for strength in about.strengths)]
    rows = [(run, *(f"{100 * share:.1f}" for share in points)) for run, points in found.items()]
    return (
        f'<figure role="img" aria-label="{html.escape(label)}"><figcaption>{about.title}'
        f"</figcaption><p>{html.escape(about.sentence)}</p>{figures.svg(figure)}"
        f"{html.table(header, rows)}<p class='vd-quiet'>{doubt(found, count)}</p></figure>"
    )


def axis_title(about: Perturbation) -> str:
    return f"{about.title}, {about.unit}"


def doubt(found: dict[str, list[float]], count: int) -> str:
    """How far the least certain of the points is known."""
    share = min(
        (share for points in found.values() for share in points), key=lambda s: abs(s - 0.5)
    )
    low, high = share_interval(round(share * count), count)
    return (
        f"Right answers in percent, of {count:,} test pictures: the points are known to "
        f"±{50 * (high - low):.1f} or better (95 %)."
    )


def robustness_csv(results: Results) -> str:
    rows = [
        (change, strength, run, f"{share:.6f}")
        for change, found in results.items()
        for run, points in found.items()
        for strength, share in zip(PERTURBATIONS[change].strengths, points, strict=True)
    ]
    return html.csv_link(
        ("change", "strength", "model", "accuracy"), rows, "vitdemo-robustness.csv"
    )
