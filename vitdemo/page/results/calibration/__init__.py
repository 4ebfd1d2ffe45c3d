"""The section Calibration: confidence compared with accuracy."""

from vitdemo.context import AppContext
from vitdemo.documents import Details, DocumentBlock, Heading, Notice, Text
from vitdemo.errors import VitdemoError
from vitdemo.metrics.calibration_report import compute_calibration_report
from vitdemo.page.bridge import add_view, document_payload
from vitdemo.page.feature import Feature, PageSetup, ViewData
from vitdemo.page.kit import NO_EVALUATION_MESSAGE
from vitdemo.page.results.models import (
    MODELS,
    choose_models,
    describe_menus,
    has_original_evaluation,
)
from vitdemo.page.view_state import ViewState, needs
from vitdemo.report.calibration import (
    CALIBRATION_INTRO,
    calibration_blocks,
    explain_calibration,
)
from vitdemo.test_sets.context import ORIGINAL_SUFFIX

VIEW = "calibration"


def build(setup: PageSetup) -> None:
    add_view(VIEW, elem_id="calibration")


@needs(*MODELS)
def payload(context: AppContext, state: ViewState) -> ViewData:
    name, _ = choose_models(context, state)
    blocks = run_blocks(context, name)
    if has_original_evaluation(context, name):
        original = name + ORIGINAL_SUFFIX
        blocks += [Heading(original), *run_blocks(context, original)]
    return ViewData(document_payload(blocks), describe_menus(context, state))


def run_blocks(context: AppContext, name: str) -> list[DocumentBlock]:
    """Return the calibration of the run `name`, or only a notice; "" means that there is no run."""
    if not name:
        return [Notice(NO_EVALUATION_MESSAGE)]
    try:
        run = context.find_run(name)
        report = context.cache.call(compute_calibration_report, run)
    except VitdemoError as error:
        return [Notice(str(error))]
    about = [Text(CALIBRATION_INTRO), *explain_calibration(report, str(run.path))]
    return [*calibration_blocks(report), Details("About", about)]


FEATURE = Feature({VIEW: payload})
