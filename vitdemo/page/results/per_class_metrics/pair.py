"""Paired test of two models, class by class, as a document."""

from vitdemo.context import AppContext
from vitdemo.errors import VitdemoError
from vitdemo.metrics.classification_report import compare_runs, compute_classification_report
from vitdemo.page.bridge import document_payload
from vitdemo.page.feature import Feature
from vitdemo.page.results.models import MODELS, choose_models
from vitdemo.page.view_state import ViewState, needs
from vitdemo.report.comparison import independent_test_blocks, paired_test_blocks
from vitdemo.test_sets.context import ORIGINAL_SUFFIX
from vitdemo.test_sets.evaluation import compare_run

VIEW = "paired_test"


@needs(*MODELS)
def payload(context: AppContext, state: ViewState) -> list:
    """Return the document of the paired test; empty without a second model.

    Raises `VitdemoError` if the two models cannot be compared.
    """
    name, other = choose_models(context, state)
    if not other:
        return []
    run = context.find_run(name)
    try:
        report = context.cache.call(compute_classification_report, run)
    except VitdemoError:  # the view of the class metrics reports the error
        return []
    if other.endswith(ORIGINAL_SUFFIX):
        original = context.cache.call(compute_classification_report, context.find_run(other))
        compared = compare_run(run.original, run.evaluation, run.tests.groups)
        return document_payload(independent_test_blocks(report, original, compared, run.tests.name))
    test = context.cache.call(compare_runs, run, context.find_run(other))
    return document_payload(paired_test_blocks(test))


FEATURE = Feature({VIEW: payload})
