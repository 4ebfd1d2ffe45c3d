"""Repositories of the Hugging Face Hub, written from runs.

    write_repository(run, Path("out"), "someone/my-vit")  # the same files, without a network
    push_run(run, "someone/my-vit")  # returns the address of the repository

A repository contains the weights as safetensors, `config.json` with the labels, and a model card.
The config has timm's format if timm has the architecture. Otherwise, the config has vitdemo's
format, which `open_model` reads.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import timm
import torch

from vitdemo.errors import ModelError, RunError, short_reason
from vitdemo.models import ModelSpec, get_family
from vitdemo.publishing.model_card import render_model_card
from vitdemo.runs import CONFIG_FILE, TRAINING_OPTIONS, WEIGHTS_FILE, Run, weights_path

REPOSITORY_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
COMMIT_MESSAGE = "Upload a model trained with vitdemo"


def get_timm_arguments(spec: ModelSpec) -> tuple[str, dict] | None:
    """Return timm's name and arguments of the architecture `spec`, or None if timm lacks it.

    timm has neither vitdemo's convolutional stem nor vitdemo's convolutional models.
    """
    options = {k: v for k, v in spec.options.items() if k not in TRAINING_OPTIONS}
    return get_family(spec).get_timm_arguments(replace(spec, options=options))


def make_config(run: Run) -> dict:
    found = get_timm_arguments(run.spec)
    if found is None:  # a config that vitdemo opens, without paths and commands of this computer
        recipe = {key: run.config["recipe"].get(key) for key in ("name", "summary")}
        kept = {name: run.config[name] for name in ("model", "classes", "normalisation")}
        return {"library_name": "vitdemo", "recipe": recipe} | kept
    architecture, arguments = found
    size = run.preprocessing.size
    with torch.device("meta"):
        model = timm.create_model(architecture, num_classes=len(run.classes), **arguments)
    return {
        "architecture": architecture,
        "num_classes": len(run.classes),
        "num_features": model.num_features,
        "model_args": arguments,
        "label_names": list(run.classes),
        "pretrained_cfg": {
            "tag": "vitdemo",
            "custom_load": False,
            "input_size": [3, size, size],
            "fixed_input_size": True,
            "interpolation": "bicubic",
            "crop_pct": 1.0,
            "crop_mode": "center",
            "mean": list(run.preprocessing.mean),
            "std": list(run.preprocessing.std),
            "num_classes": len(run.classes),
            "pool_size": None,
            "first_conv": model.pretrained_cfg["first_conv"],
            "classifier": model.pretrained_cfg["classifier"],
        },
    }


def write_repository(run: Run, folder: Path, repository: str, licence: str = "") -> None:
    """Write the files of a repository with the model of `run` into `folder`.

    Args:
        repository: "USER/NAME", for the examples in the model card.
        licence: identifier of the weights' licence, such as "apache-2.0", for the model card.

    Raises `RunError` for a run without weights or classes, or if `folder` has other files.
    """
    _check_run(run)
    files = (WEIGHTS_FILE, CONFIG_FILE, "README.md")
    if folder.exists() and not folder.is_dir():
        raise RunError(f"'{folder}' is a file. Choose a folder.")
    if folder.is_dir() and (other := sorted({p.name for p in folder.iterdir()} - set(files))):
        raise RunError(f"'{folder}' contains other files, such as '{other[0]}'. Choose a new one.")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(weights_path(run.path), folder / WEIGHTS_FILE)
    config = json.dumps(make_config(run), indent=2, ensure_ascii=False) + "\n"
    (folder / CONFIG_FILE).write_text(config, encoding="utf-8")
    is_timm = get_timm_arguments(run.spec) is not None
    card = render_model_card(run, repository, is_timm=is_timm, licence=licence)
    (folder / "README.md").write_text(card, encoding="utf-8")


def push_run(
    run: Run,
    repository: str,
    *,
    private: bool = False,
    licence: str = "",
    on_step: Callable[[str], None] = lambda text: None,
) -> str:
    """Upload the model of `run` to the Hub, and return the address of its repository.

    The repository is created if it does not exist; files with the same names are replaced. The
    token comes from `hf auth login` or the variable HF_TOKEN. Raises `RunError` or `ModelError`.
    """
    from huggingface_hub import HfApi, get_token

    check_repository_name(repository)
    _check_run(run)
    token = get_token()
    if not token:
        raise ModelError(
            "There is no token for the Hub. Create one with the right to write at "
            "https://huggingface.co/settings/tokens, then run `hf auth login` or set HF_TOKEN."
        )
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token, library_name="vitdemo")
    with tempfile.TemporaryDirectory() as folder:
        write_repository(run, Path(folder), repository, licence)
        try:
            on_step(f"Creating {repository} …")
            api.create_repo(repository, private=private, exist_ok=True)
            size = sum(file.stat().st_size for file in Path(folder).iterdir())
            on_step(f"Uploading {size / 1e6:.0f} MB …")
            api.upload_folder(repo_id=repository, folder_path=folder, commit_message=COMMIT_MESSAGE)
        except Exception as error:  # httpx, huggingface_hub and the disk have no common base
            raise ModelError(_describe_failure(repository, error)) from error
    return f"{api.endpoint}/{repository}"


def check_repository_name(repository: str) -> None:
    """Raise `ModelError` unless `repository` is "USER/NAME"."""
    if not REPOSITORY_NAME.fullmatch(repository):
        raise ModelError(f"'{repository}' is not the name of a repository. Write USER/NAME.")


def _check_run(run: Run) -> None:
    if not weights_path(run.path).is_file():
        raise RunError(f"'{run.name}' has no weights to export. Choose another run.")
    run.require_classes()


def _describe_failure(repository: str, error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return (
            f"The Hub does not let you write to '{repository}' (error {status}). Check the user "
            "name, and that your token has the right to write."
        )
    return (
        f"'{repository}' could not be uploaded ({short_reason(error)}). Check the network and "
        "try again."
    )
