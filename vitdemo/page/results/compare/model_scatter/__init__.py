"""Scatter plot of all models: test accuracy against parameters, multiply-adds or training time.

    {"models": [model, ...], "failed": [model, ...]}

A model is {"name", "accuracy" (percent), "parameters", "macs", "minutes": number or None, "kind",
"details": [[label, text], ...]}. The kind is "model", "results" or "ablation". Only a "model" opens
in Explore. The accuracy of the "failed" runs is close to chance. Untested runs are left out.
"""

from vitdemo.analyses.model_rows import ModelRow, model_rows
from vitdemo.context import AppContext
from vitdemo.page import state_keys as keys
from vitdemo.page.feature import Feature
from vitdemo.page.results.compare.models_table import NO_RUNS_MESSAGE, ablation_run_names
from vitdemo.page.view_state import ViewState, needs

VIEW = "model_scatter"


@needs(keys.TEST_SET)
def payload(context: AppContext, state: ViewState) -> dict:
    """Return the tested models, best first, and the problems of other runs."""
    ablations = ablation_run_names(context)
    explainable = {run.name for run in context.explainable_runs()}
    models: dict[bool, list[dict]] = {False: [], True: []}
    rows = model_rows(context)
    for row in rows:
        if row.evaluation is not None:
            is_ablation = row.name in ablations
            kind = "model" if row.name in explainable else "ablation" if is_ablation else "results"
            models[row.is_at_chance].append(describe_model(row, kind))
    problems = [row.problem for row in rows if row.problem]
    return {
        "models": models[False],
        "failed": models[True],
        "problems": problems,
        "empty": "" if models[False] or problems else NO_RUNS_MESSAGE,
    }


FEATURE = Feature({VIEW: payload})


def describe_model(row: ModelRow, kind: str) -> dict:
    low, high = (100 * bound for bound in row.evaluation.accuracy_interval)
    minutes = row.train_seconds / 60 or None
    accuracy = 100 * row.evaluation.accuracy
    details = {
        "Test accuracy": f"{accuracy:.2f}% (95% interval {low:.2f} to {high:.2f})",
        "Parameters": row.parameters and f"{row.parameters / 1e6:.2f} million",
        "Multiply-adds": row.macs and f"{row.macs / 1e6:,.0f} million per image",
        "Training": minutes and f"{minutes:.1f} minutes{f', {row.device}' if row.device else ''}",
        "Recipe": row.recipe,
        "Dataset": row.dataset_name,
    }
    return {
        "name": row.name,
        "accuracy": round(accuracy, 2),
        "parameters": row.parameters and row.parameters / 1e6,
        "macs": row.macs and row.macs / 1e6,
        "minutes": minutes,
        "kind": kind,
        "details": [[label, text] for label, text in details.items() if text],
    }
