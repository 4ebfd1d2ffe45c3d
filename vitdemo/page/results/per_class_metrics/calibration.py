"""Calibration: confidence compared with accuracy, as a document."""

from vitdemo.context import AppContext
from vitdemo.documents import Details, DocumentBlock, Heading, Text
from vitdemo.errors import VitdemoError
from vitdemo.metrics.calibration_report import compute_calibration_report
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import document_payload
from vitdemo.page.feature import Feature
from vitdemo.page.results.models import choose_model, has_original_evaluation
from vitdemo.page.view_state import ViewState, needs
from vitdemo.report.calibration import (
    CALIBRATION_INTRO,
    calibration_blocks,
    explain_calibration,
)
from vitdemo.test_sets.context import ORIGINAL_SUFFIX

VIEW = "calibration"


@needs(keys.TEST_SET, keys.RESULTS_MODEL)
def payload(context: AppContext, state: ViewState) -> list:
    name = choose_model(context, state)
    blocks = run_blocks(context, name)
    if has_original_evaluation(context, name):
        original = name + ORIGINAL_SUFFIX
        blocks += [Heading(original), *run_blocks(context, original)]
    return document_payload(blocks)


def run_blocks(context: AppContext, name: str) -> list[DocumentBlock]:
    """Return the calibration of the run `name`.

    Without a run (""), or with an invalid evaluation, the view of the class metrics shows a notice.
    """
    try:
        run = context.find_run(name)
        report = context.cache.call(compute_calibration_report, run)
    except VitdemoError:
        return []
    about = [Text(CALIBRATION_INTRO), *explain_calibration(report, str(run.path))]
    return [*calibration_blocks(report), Details("About", about)]


FEATURE = Feature({VIEW: payload})
