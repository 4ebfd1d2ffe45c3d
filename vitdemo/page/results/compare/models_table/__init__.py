"""The table of all models: cost, accuracy, calibration, and the measured latency."""

from vitdemo.analyses.latency import find_latencies
from vitdemo.analyses.model_rows import list_trained_runs, model_rows
from vitdemo.context import AppContext
from vitdemo.documents import Notice
from vitdemo.installation import TRAIN_COMMAND
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import document_payload
from vitdemo.page.components.run_choice import ABLATION_PREFIX, group_runs
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs
from vitdemo.report.models import model_blocks

VIEW = "models_table"
NO_RUNS_MESSAGE = (
    f"There are no runs yet. Start one with `{TRAIN_COMMAND} vit-small-cpu`; it appears in this "
    "table."
)


@needs(keys.TEST_SET)
def payload(context: AppContext, state: ViewState) -> list:
    """Return the document of the table, with the latencies measured so far."""
    rows, latencies = model_rows(context), find_latencies(context, list_trained_runs(context))
    if not rows:
        return document_payload([Notice(NO_RUNS_MESSAGE)])
    return document_payload(model_blocks(rows, latencies, ablation_run_names(context)))


FEATURE = Feature({VIEW: payload})


def ablation_run_names(context: AppContext) -> set[str]:
    """Return the names of the runs that are listed under an ablation in the run menus."""
    groups = group_runs(context.list_runs()[0])
    return {name for label, names in groups if label.startswith(ABLATION_PREFIX) for name in names}
