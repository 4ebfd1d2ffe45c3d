"""Latency of each model: the task that measures it, and its description.

The payload of the view is

    {"document": blocks, "has_gpu": whether the page can borrow a GPU}

Latencies are cached for all users of the page, so that they remain visible. The table of models
shows them in two columns.
"""

from collections.abc import Callable, Mapping, Sequence

from torch import nn

from vitdemo.analyses.latency import (
    LATENCY_BATCH_SIZES,
    WARM_UP_PASSES,
    Latency,
    find_latencies,
    measure_run_latency,
    record_latencies,
)
from vitdemo.analyses.model_rows import list_trained_runs
from vitdemo.context import AppContext
from vitdemo.documents import DocumentBlock, Text
from vitdemo.errors import RunError, VitdemoError
from vitdemo.page import space
from vitdemo.page.bridge import document_payload
from vitdemo.page.feature import Feature, Report
from vitdemo.page.kit import NO_TRAINED_MODEL_MESSAGE
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run
from vitdemo.training.devices import is_zero_gpu

VIEW = "latency"
LATENCY_NOTE = (
    "Median of at least 5 forward passes on {device}, after {warm_up} warm-up passes. Reading and "
    "resizing the images is not included. Other programs running at the same time increase the "
    "latency."
)
LatencyMeasurement = Callable[[Run], Sequence[Latency]]
# The function is wrapped at import, since a Space must declare the functions that use its GPU.
measure_on_borrowed_gpu: Callable[[nn.Module, int], list[Latency]] | None = (
    space.gpu_function(space.measure_on_gpu, space.GPU_SECONDS) if is_zero_gpu() else None
)


@needs()
def payload(context: AppContext, state: ViewState) -> dict:
    found = find_latencies(context, list_trained_runs(context))
    return {
        "document": document_payload(latency_blocks(found) if found else []),
        "has_gpu": measure_on_borrowed_gpu is not None,
    }


def measure_here(context: AppContext, state: ViewState, report: Report) -> list[str]:
    """Measure the latency of all models on the page's device; see `measure_latencies`."""

    def measure(run: Run) -> list[Latency]:
        return [measure_run_latency(context, run, batch) for batch in LATENCY_BATCH_SIZES]

    return measure_latencies(context, measure, report)


def measure_on_gpu(context: AppContext, state: ViewState, report: Report) -> list[str]:
    """Measure the latency of all models on a borrowed GPU; see `measure_latencies`.

    Raises `VitdemoError` if the page cannot borrow a GPU.
    """
    if measure_on_borrowed_gpu is None:
        raise VitdemoError("This page cannot borrow a GPU. Measure the latency without a GPU.")

    def measure(run: Run) -> list[Latency]:
        return measure_on_borrowed_gpu(context.load_model(run), run.preprocessing.size)

    return measure_latencies(context, measure, report)


FEATURE = Feature(
    payloads={VIEW: payload},
    tasks={f"{VIEW}.here": measure_here, f"{VIEW}.gpu": measure_on_gpu},
)


def measure_latencies(
    context: AppContext, measure: LatencyMeasurement, report: Report
) -> list[str]:
    """Measure and cache the latencies of all models; return a message for each failed model.

    Raises `RunError` without a model, and `Stopped` after a cancellation.
    """
    runs, problems = list_trained_runs(context), []
    if not runs:
        raise RunError(NO_TRAINED_MODEL_MESSAGE)
    for number, run in enumerate(runs):
        report(number, len(runs), f"Timing {run.name}")
        try:
            record_latencies(context, run, measure(run))
        except VitdemoError as error:
            problems.append(str(error))
    return problems


def latency_blocks(latencies: Mapping[str, Sequence[Latency]]) -> list[DocumentBlock]:
    """Describe the measurement, and the latencies of each run: one per batch size."""
    batches = " and ".join(map(str, LATENCY_BATCH_SIZES))
    each = "; ".join(
        f"{name} " + " and ".join(f"{found.milliseconds:.1f}" for found in several)
        for name, several in latencies.items()
    )
    devices = dict.fromkeys(found.device for several in latencies.values() for found in several)
    note = LATENCY_NOTE.format(device=" and ".join(devices), warm_up=WARM_UP_PASSES)
    return [
        Text(f"Latency in milliseconds for batches of {batches} images: {each}."),
        Text(note, quiet=True),
    ]
