"""Run folder: the interface between training and the page.

A run folder contains `config.json`, `history.jsonl`, `model.safetensors`, `evaluation.npz`,
`reference_features.npz` (see `reference`), `checkpoint.pt` and `steps.jsonl` (see `steps`). The
weights of single epochs, if the recipe saves some, are in `epochs/NNNN.safetensors`.

The module `files` writes and reads these files, `writer` writes them during training, and `resume`
continues a run. `folders` reads whole runs (`run`), `weights` their models, and `lineage` and
`origin` the runs that they started from. `evaluate` evaluates a run.
"""

from vitdemo.runs.files import (
    CHECKPOINT_FILE,
    CONFIG_FILE,
    EVALUATION_FILE,
    FAITHFULNESS_FILE,
    HISTORY_FILE,
    JOB_FILE,
    PROBES_FILE,
    RECORD_FIELDS,
    REFERENCE,
    WEIGHTS_FILE,
    Evaluation,
    append_record,
    read_checkpoint,
    read_config,
    read_evaluation,
    read_history,
    rewrite_history,
    weights_path,
    write_atomically,
    write_config,
    write_evaluation,
    write_text,
    write_weights,
)
from vitdemo.runs.folders import (
    disambiguate_names,
    find_runs,
    get_run_stamp,
    number_runs,
    read_run,
)
from vitdemo.runs.lineage import TRAINING_OPTIONS, find_pretraining, get_lineage
from vitdemo.runs.measurements import (
    DAMAGED_VALUES,
    hash_weights,
    read_measurements,
    write_measurements,
)
from vitdemo.runs.run import CUSTOM_CLASSES_RECIPE, Run
from vitdemo.runs.weights import SavedWeights, list_saved_epochs, list_saved_weights, load_model

__all__ = [
    "CHECKPOINT_FILE", "CONFIG_FILE", "CUSTOM_CLASSES_RECIPE", "DAMAGED_VALUES", "EVALUATION_FILE",
    "FAITHFULNESS_FILE", "HISTORY_FILE", "JOB_FILE", "PROBES_FILE", "RECORD_FIELDS", "REFERENCE",
    "TRAINING_OPTIONS", "WEIGHTS_FILE", "Evaluation", "Run", "SavedWeights", "append_record",
    "disambiguate_names", "find_pretraining", "find_runs", "get_lineage", "get_run_stamp",
    "hash_weights", "list_saved_epochs", "list_saved_weights", "load_model", "number_runs",
    "read_checkpoint", "read_config", "read_evaluation", "read_history", "read_measurements",
    "read_run", "rewrite_history", "weights_path", "write_atomically", "write_config",
    "write_evaluation", "write_measurements", "write_text", "write_weights",
]  # fmt: skip
