"""Model cards for the Hugging Face Hub, written from runs: recipe, data, results, limits, use."""

import re
from pathlib import Path

from huggingface_hub import EvalResult, ModelCardData

from vitdemo.errors import RunError
from vitdemo.metrics import compute_accuracy, compute_class_metrics, percent_text
from vitdemo.metrics.calibration import compute_reliability
from vitdemo.metrics.intervals import wilson_interval
from vitdemo.runs import Evaluation, Run

MAX_LISTED_CLASSES = 100
DATASETS = {"cifar10": "uoft-cs/cifar10"}  # names of datasets on the Hub
HIDDEN_FIELDS = ("name", "summary", "note", "model", "keep")  # recipe fields outside the table


def render_model_card(run: Run, repository: str, *, is_timm: bool, licence: str = "") -> str:
    """Return the model card of `run` as Markdown with YAML front matter.

    `is_timm` means that timm loads the model. `licence` is the identifier of the weights' licence.
    """
    evaluation = _read_evaluation(run)
    parts = [
        f"---\n{_make_metadata(run, evaluation, is_timm=is_timm, licence=licence)}\n---",
        f"# {repository.partition('/')[2]}",
        _describe_model(run),
        "## How to use",
        _explain_use(repository, is_timm=is_timm),
        "## Training data",
        _describe_data(run),
        "## Training",
        _describe_training(run),
        "## Results",
        _describe_results(run, evaluation),
        "## Limits",
        _list_limits(run, evaluation, licence),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _read_evaluation(run: Run) -> Evaluation | None:
    try:
        return run.evaluation if run.has_evaluation else None
    except RunError:  # a damaged file
        return None


def _make_metadata(run: Run, evaluation: Evaluation | None, *, is_timm: bool, licence: str) -> str:
    name = run.dataset_name
    dataset = DATASETS.get(name or "", name)
    fields = {
        "library_name": "timm" if is_timm else "vitdemo",
        "pipeline_tag": "image-classification",
        "tags": ["image-classification", "vitdemo", *(["timm"] if is_timm else [])],
        "license": licence or None,
        "datasets": [dataset] if dataset in DATASETS.values() else None,
    }
    if evaluation is not None and not run.is_cross_validated:
        accuracy = compute_accuracy(evaluation.probabilities, evaluation.labels)
        fields |= {
            "model_name": run.path.name,
            "eval_results": [
                EvalResult(
                    task_type="image-classification",
                    dataset_type=dataset or "unknown",
                    dataset_name=name or "unknown",
                    dataset_split="test",
                    metric_type="accuracy",
                    metric_value=round(accuracy, 4),
                    metric_name="Test accuracy",
                )
            ],
        }
    return ModelCardData(**fields).to_yaml(line_break="\n")


def _describe_model(run: Run) -> str:
    size, count = run.preprocessing.size, len(run.classes)
    parameters = run.config.get("parameters")
    millions = f"{parameters / 1e6:.2f} million parameters, " if parameters else ""
    macs = run.config.get("macs")
    cost = f", {macs / 1e6:,.0f} million multiply-adds per image" if macs else ""
    listed = [escape_markdown(name) for name in run.classes[:MAX_LISTED_CLASSES]]
    more = f" and {count - len(listed)} more" if count > len(listed) else ""
    summary = escape_markdown(str(run.config["recipe"].get("summary") or run.spec.family))
    return (
        f"{summary[:1].upper()}{summary[1:]}. The model has {millions}an input of {size} x {size} "
        f"pixels{cost} and {count} classes.\n\nClasses: {', '.join(listed)}{more}."
    )


def _explain_use(repository: str, *, is_timm: bool) -> str:
    if is_timm:
        code = (
            "import timm\n\n"
            f'model = timm.create_model("hf-hub:{repository}", pretrained=True).eval()\n'
            "transform = timm.data.create_transform("
            "**timm.data.resolve_model_data_config(model))\n"
        )
    else:
        code = (
            "from vitdemo.runs.opened_model import open_model\n\n"
            f'run = open_model("hf-hub:{repository}")  # labels: run.classes\n'
            "model = run.build().eval()\n"
        )
    return (
        f"```python\n{code}```\n\nTo explore its predictions and attention in a browser, start "
        f"vitdemo:\n\n```sh\npython app.py --model hf-hub:{repository}\n```"
    )


def _describe_data(run: Run) -> str:
    split = run.config.get("split") or {}
    train, validation = (split.get(f"{part}_pictures") for part in ("train", "validation"))
    words = f"Dataset: {escape_markdown(run.dataset_name or 'not recorded')}."
    if train is not None and validation is not None:
        words += f" {train:,} training images and {validation:,} validation images"
        words += f" (stratified split, seed {split.get('seed', 0)})."
    if run.origin.get("run"):
        words += f" Training started from the weights of the run {format_code(run.origin['run'])}."
    elif run.config["recipe"].get("pretrained") and run.spec.name:
        words += f" Training started from timm's pretrained weights `{run.spec.name}`."
    return words


def _describe_training(run: Run) -> str:
    used = run.weights_record
    words = [f"Recipe: {format_code(str(run.config['recipe'].get('name', 'unknown')))}."]
    if used:
        epochs = used["epoch"]
        minutes = run.train_seconds / 60
        words.append(f"{epochs} epochs in {minutes:.1f} minutes, including validation.")
    if run.device:
        words.append(f"Hardware: {escape_markdown(run.device)}.")
    packages = run.config.get("packages") or {}
    if packages:
        words.append(f"Software: {', '.join(f'{n} {v}' for n, v in packages.items())}.")
    rows = [
        (name, value)
        for name, value in run.config["recipe"].items()
        if name not in HIDDEN_FIELDS and value not in ("", None, False, 0, 0.0)
    ]
    teacher = str(run.config["recipe"].get("teacher") or "")
    if teacher:
        rows = [(n, Path(teacher).name if n == "teacher" else v) for n, v in rows]
    else:
        rows = [(n, v) for n, v in rows if n != "teacher_share"]
    table = "\n".join(f"| {name} | {_format(value)} |" for name, value in rows)
    return " ".join(words) + f"\n\n| setting | value |\n|---|---|\n{table}"


def _format(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_format, value))
    return escape_markdown(f"{value:g}" if isinstance(value, float) else str(value))


def escape_markdown(text: str) -> str:
    """Escape `text` so that a line or a table cell of Markdown shows it unchanged."""
    line = " ".join(text.split())
    # "_" and "-" inside a word have no meaning.
    escaped = re.sub(r"([\\`*\[\]<>#|~]|(?<!\w)_|_(?!\w))", r"\\\1", line)
    return escaped.replace("&", "&amp;")


def format_code(text: str) -> str:
    """Return `text` as code of Markdown; the fence is longer than any backticks in `text`."""
    line = " ".join(text.split())
    longest = max((len(each) for each in re.findall("`+", line)), default=0)
    fence, space = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{space}{line}{space}{fence}"


def _describe_results(run: Run, evaluation: Evaluation | None) -> str:
    if evaluation is None:
        return "This model was not evaluated on a test set."
    probabilities, labels = evaluation.probabilities, evaluation.labels
    n = len(labels)
    accuracy = compute_accuracy(probabilities, labels)
    found = compute_class_metrics(probabilities, labels)
    error = compute_reliability(probabilities, labels).calibration_error
    name = "accuracy" if run.is_cross_validated else "test accuracy"
    lines = [
        "| metric | value in percent | 95% confidence interval |",
        "|---|---|---|",
        f"| {name} | {percent_text(accuracy)} | {_interval(accuracy, n)} |",
        f"| expected calibration error | {percent_text(error)} | |",
    ]
    rows = [
        f"| {escape_markdown(name)} | {percent_text(recall)} | {_interval(recall, int(support))} "
        f"| {int(support)} |"
        for name, recall, support in zip(run.classes, found.recall, found.support, strict=True)
        if support
    ]
    if len(rows) <= MAX_LISTED_CLASSES:
        lines += ["", "| class | recall in percent | 95% confidence interval | images |"]
        lines += ["|---|---|---|---|", *rows]
    if run.is_cross_validated:
        source = f"The results are from cross-validation on the {n:,} images of the dataset. "
    else:
        source = (
            f"The test set has {n:,} images. This model was evaluated on these images after "
            "training. Earlier models and recipes may have been evaluated on the same images. "
        )
    note = (
        "The intervals (Wilson) cover the variation between samples of images, but not between "
        "random seeds."
    )
    return "\n".join(lines) + f"\n\n{source}{note}"


def _interval(fraction: float, n: int) -> str:
    low, high = wilson_interval(fraction * n, n)
    return f"{percent_text(low)} to {percent_text(high)}"


def _list_limits(run: Run, evaluation: Evaluation | None, licence: str) -> str:
    size = run.preprocessing.size
    limits = [
        f"The model assigns every image to one of its {len(run.classes)} classes, including images "
        "that show none of them.",
        f"The model input is the centre crop of the image, resized to {size} x {size} pixels. "
        "Other preprocessing lowers the accuracy.",
        "The results are valid only for images that are similar to the dataset. Images from other "
        "sources and corrupted images were not tested.",
        "The results are from one training run with one random seed.",
        "Attention maps do not prove which pixels caused a prediction.",
    ]
    if run.has_custom_classes:
        limits.insert(0, "The model was trained on few images of a user's own classes.")
    if evaluation is None:
        limits.insert(0, "The accuracy of the model is unknown.")
    if not licence:
        limits.append(
            "The licence of the weights is not stated. Ask the author before you use the model."
        )
    return "\n".join(f"- {limit}" for limit in limits)
