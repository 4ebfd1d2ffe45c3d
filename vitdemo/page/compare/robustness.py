"""How the models bear pictures that get worse: accuracy by the strength of a change."""

from collections.abc import Callable, Iterator, Sequence

import gradio as gr

from vitdemo import figures
from vitdemo.errors import VitdemoError
from vitdemo.figures import charts
from vitdemo.metrics.intervals import share_doubt
from vitdemo.page import html
from vitdemo.page.components.run_choice import grouped
from vitdemo.page.components.run_list import RunList
from vitdemo.page.kit import LONG_QUEUE, QUIET
from vitdemo.page.metrics.curves import COLOURS
from vitdemo.perturb import PERTURBATIONS, Perturbation
from vitdemo.robustness import PICTURES, Step
from vitdemo.runs import Run

INTRO = (
    "## Robustness: when pictures get worse\nAccuracy on test pictures that are changed step by "
    "step, the same pictures and the same changes for every model. Shuffled patches keep texture "
    "and lose shape; blur does the reverse."
)
FIRST_CHANGES = ["noise", "blur"]
Results = dict[str, dict[str, list[float]]]  # change -> run -> accuracy at each of its strengths


def build(
    tab: gr.Tab,
    *,
    trained_runs: Callable[[], list[Run]],
    measure: Callable[[Run, Sequence[str], int], Iterator[Step]],
    sample_size: Callable[[Run, int], int],
) -> None:
    """Lay out and wire the section of `tab`.

    `measure` yields the points of a run's curves on so many test pictures, or on all where
    `sample_size` says that there are fewer.
    """
    gr.Markdown(INTRO)
    with gr.Row():
        with gr.Column(min_width=300):
            names = RunList(label="Models", elem_id="robust-models")
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

    def offer(chosen):
        """The models that can be tried now; those that were chosen stay so."""
        found = trained_runs()
        trained = [run.name for run in found]
        kept = [name for name in chosen if name in trained]
        value = {} if kept and kept == chosen else {"value": kept or trained}
        return gr.update(groups=grouped(found), **value)

    def measure_all(names, changes, count, progress=gr.Progress()):  # noqa: B008
        runs = [run for run in trained_runs() if run.name in names]
        if not runs or not changes:
            yield html.notice("Choose a model and a change above.")
            return
        found, problems = least(runs, lambda run: sample_size(run, int(count)))
        if found:
            yield from curves(runs, changes, found, measure, progress)
        else:
            yield html.notices(dict.fromkeys(problems))

    tab.select(offer, inputs=names, outputs=names, **QUIET)
    measuring = start.click(
        measure_all,
        [names, changes, count],
        robust,
        api_visibility="private",
        show_progress_on=robust,
        **LONG_QUEUE,
    )
    stop.click(None, cancels=measuring)


def least(runs: list[Run], size: Callable[[Run], int]) -> tuple[int, list[str]]:
    """The smallest size of those that have one, or 0, and a sentence for each that has none."""
    sizes, problems = [], []
    for run in runs:
        try:
            sizes.append(size(run))
        except VitdemoError as error:
            problems.append(str(error))
    return min(sizes, default=0), problems


def curves(
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
                    yield curves_html(results, runs, count, problems)
        except VitdemoError as error:
            problems.append(str(error))
            yield curves_html(results, runs, count, problems)


def curves_html(results: Results, runs: list[Run], count: int, problems: list[str]) -> str:
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
        f'<figure aria-label="{html.escape(label)}"><figcaption>{about.title}'
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
    width = 100 * share_doubt(round(share * count), count)
    return (
        f"Right answers in percent, of {count:,} test pictures: the points are known to "
        f"±{width:.1f} or better (95 %)."
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
