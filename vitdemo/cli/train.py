"""Train a recipe, resume, evaluate or export a run, write a report, or download CIFAR-10.

    python train.py --list
    python train.py vit-small-cpu
    python train.py vit-small-cpu --resume
    python train.py vit-small-cpu --resume --epochs 8   # resume, but train 8 epochs in total
    python train.py --config runs/mine/config.json --seed 1 --out runs/mine-1
    python train.py vit-plain --minutes 8.5         # stop between epochs; continue with --resume
    python train.py first-steps --keep-after 3      # stop after 3 minutes and evaluate the model
    python train.py vit-plain --log tensorboard     # also write TensorBoard event files
    python train.py vit-scratch-masked                 # self-supervised pretraining, then:
    python train.py vit-scratch --weights runs/vit-scratch-masked/model.safetensors
    torchrun --nproc_per_node=4 train.py vit-plain  # split each batch over four GPUs
    python train.py evaluate runs/vit-small-cpu
    python train.py report runs/vit-small-cpu --out report.html
    python train.py push runs/vit-small-cpu USER/NAME  # upload the model to the Hugging Face Hub
    python train.py export runs/vit-small-cpu --onnx model.onnx
    python train.py download

A training run writes a run folder (see `vitdemo/runs`). The page shows the run during training.
"""

import argparse
import json
import math
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import NoReturn

import torch

from vitdemo import console, data, runs
from vitdemo.cli.options import FILE, FLAG, FOLDER, REPEATABLE, add_options
from vitdemo.errors import DataError, PretrainingError, RecipeError, RunError, VitdemoError
from vitdemo.installation import TRAIN_COMMAND, TRAIN_NAME, TRAIN_TARGET
from vitdemo.metrics import compute_accuracy
from vitdemo.models import build_model, get_family
from vitdemo.paths import expand_path, expand_patterns
from vitdemo.runs import CHECKPOINT_FILE
from vitdemo.runs.evaluate import check_same_classes, evaluate_run, split_of
from vitdemo.runs.origin import (
    check_origin_split,
    check_same_heads,
    has_same_classes,
    load_teacher,
    origin_entry,
    read_origin,
)
from vitdemo.runs.reference import compute_reference, write_reference
from vitdemo.runs.resume import (
    get_resume_recipe,
    prepare_resumed_folder,
    read_recipe_file,
    read_resume_checkpoint,
)
from vitdemo.runs.steps import StepLog
from vitdemo.runs.tracking import WRITERS, ProgressLog, check_installed, open_progress_log
from vitdemo.runs.writer import (
    EpochSaver,
    build_config,
    check_folder_unused,
    create_run_folder,
    format_command,
    lock_run_folder,
    record_stop,
)
from vitdemo.training import Trainer, choose_compile_mode, choose_device
from vitdemo.training.devices import retain_freed_memory
from vitdemo.training.pretraining import make_trainer
from vitdemo.training.processes import is_first_process, join_processes
from vitdemo.training.progress_bar import create_progress_bar, format_epoch_line
from vitdemo.training.recipes import (
    RECIPES,
    Recipe,
    get_option,
    get_option_names,
    get_recipe,
    make_smoke_recipe,
)
from vitdemo.training.splits import get_preprocessing, split_training_set
from vitdemo.training.stopping import FINISH_SIGNALS, STOP_SIGNALS, Stopper, handle_signals

RECIPE_OPTIONS = tuple(
    field
    for field in fields(Recipe)
    if field.type in (int, float, str, bool) and field.name not in ("name", "summary", "note")
)
# Options of models whose family lists them in `option_defaults`.
MODEL_OPTIONS = {  # type and help text
    "patch_size": (int, "side of a patch in pixels"),
    "embed_dim": (int, "width: dimension of a token, a multiple of --num-heads"),
    "depth": (int, "number of layers"),
    "num_heads": (int, "attention heads per layer"),
    "pos_embed": (str, "position embedding: learn or none"),
    "global_pool": (
        str,
        "input of the classifier head: token (class token) or avg (mean of the patches)",
    ),
    "init": (str, "initialisation: trunc_normal (std 0.02) or mimetic"),
}
COMMANDS = "`evaluate`, `report`, `push`, `export` or `download`"
ARGUMENTS = {  # see `add_options`
    "recipe": (f"name of a recipe, or {COMMANDS}", {"nargs": "?"}),
    "runs": (
        "run folder to `evaluate` or `export`, run folders to `report` on, or a run folder and "
        "USER/NAME to `push`",
        {"nargs": "*"},
    ),
}
OPTIONS = {
    "--config": (
        "file with a recipe instead of its name, for example the config.json of a run",
        FILE,
    ),
    "--list": ("list the recipes and exit", FLAG),
    "--data": (
        "folder of CIFAR-10, or of your own images in train/ and test/ (default: data in the "
        "current folder)",
        FOLDER,
    ),
    "--out": (
        "run folder (default: runs/RECIPE in the current folder); for a report, its file (default: "
        "report.html)",
        {"type": expand_path},
    ),
    "--device": ("auto, cuda, mps or cpu (default: auto)", {"default": "auto"}),
    "--threads": ("number of CPU threads (default: one per core)", {"type": int, "default": 0}),
    "--weights": ("file with the weights to start from", FILE),
    "--resume": ("continue the run in --out", FLAG),
    "--minutes": (
        "stop after the last epoch that fits into this time; continue with --resume",
        {"type": float},
    ),
    "--keep-after": (
        "stop after this time, save the model and evaluate it; the signal SIGUSR1 does the same "
        "immediately",
        {"type": float, "default": 0.0, "metavar": "MINUTES"},
    ),
    # `--track`, because torchrun rejects `--log` as a prefix of several of its options
    "--log --track": (
        "also log the training for tensorboard (event files in the run folder) or trackio; "
        "repeatable, and each needs the package with this name",
        REPEATABLE | {"choices": list(WRITERS)},
    ),
    "--compile": (
        "mode of torch.compile: auto (only on CUDA), off, default, reduce-overhead or "
        "max-autotune (default: auto)",
        {"default": "auto", "metavar": "MODE"},
    ),
    "--no-compile": (
        "the same as --compile off",
        {"dest": "compile", "action": "store_const", "const": "off"},
    ),
    "--smoke": ("run a quick check on synthetic images", FLAG),
    "--dry-run": (
        "for `push`: only write the files of the repository into this folder",
        FOLDER,
    ),
    "--private": ("for `push`: create a private repository", FLAG),
    "--license": (
        "for `push`: licence of the weights in the model card, for example apache-2.0",
        {"default": "", "metavar": "ID"},
    ),
    "--onnx": ("for `export`: the ONNX file to write", FILE),
    "--image-size": ("side of the model input in pixels", {"type": int}),
}
RESUME_REMEDY = (
    ". The last checkpoint is saved: free some disk space and continue with --resume, or choose "
    "another --out."
)
START_REMEDY = ". No epoch is saved: free some disk space and start again, or choose another --out."


def main(argv: list[str] | None = None) -> int:
    """Run a command; exit codes: 0 done, 2 error with a message, 130 stopped and resumable."""
    argv = sys.argv[1:] if argv is None else argv
    console.escape_unprintable()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    args = build_parser().parse_args(argv)
    args.runs = expand_patterns(args.runs)
    try:
        return run_command(args, argv)
    except VitdemoError as error:
        print(f"{TRAIN_NAME}: {error}", file=sys.stderr)
    except OSError as error:  # for example, a full disk or a missing permission
        location = f" '{error.filename}'" if error.filename else ""
        hint = describe_remedy(args)
        print(f"{TRAIN_NAME}: {error.strerror or error}{location}{hint}", file=sys.stderr)
    except KeyboardInterrupt:  # raised by Ctrl-C before the first step or during evaluation
        print(f"{TRAIN_NAME}: stopped.", file=sys.stderr)
        return 130
    return 2


def describe_remedy(args: argparse.Namespace) -> str:
    """Return the end of the sentence about an `OSError`, which depends on the saved epochs."""
    if args.recipe in OTHER_COMMANDS or not (args.recipe or args.config or args.resume):
        return "."
    try:
        is_resumable = (get_run_folder(args) / CHECKPOINT_FILE).is_file()
    except (OSError, VitdemoError):
        is_resumable = False
    return RESUME_REMEDY if is_resumable else START_REMEDY


def run_command(args: argparse.Namespace, argv: list[str]) -> int:
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.list or (args.recipe is None and not args.config and not args.resume):
        return list_recipes()
    if args.recipe in OTHER_COMMANDS:
        return OTHER_COMMANDS[args.recipe](args)
    stopper = Stopper(args.keep_after)
    folder = get_run_folder(args)
    lock = lock_run_folder(folder) if is_first_process() else nullcontext()
    with lock, handle_signals(FINISH_SIGNALS, stopper.request_stop):
        return train(args, argv, folder, stopper)


def describe_commands() -> str:
    """Return the examples of this module with the commands of this installation."""
    torchrun = f"torchrun --nproc_per_node=4 {' '.join(TRAIN_TARGET)}"
    return __doc__.replace("python train.py", TRAIN_COMMAND).replace(
        "torchrun --nproc_per_node=4 train.py", torchrun
    )


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=TRAIN_NAME,
        description=describe_commands(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser, ARGUMENTS | OPTIONS)
    group = parser.add_argument_group("settings of the recipe (default: the recipe's own value)")
    for field in RECIPE_OPTIONS:
        kind = {"type": field.type, "metavar": "VALUE"}
        if field.type is bool:
            kind = {"action": argparse.BooleanOptionalAction, "default": None}
        option, *former = get_option_names(field.name)
        group.add_argument(option, dest=f"set_{field.name}", help=field.metadata["help"], **kind)
        for name in former:
            group.add_argument(name, dest=f"set_{field.name}", help=argparse.SUPPRESS, **kind)
    group = parser.add_argument_group("settings of a ViT from scratch (default: as in the recipe)")
    for name, (kind, text) in MODEL_OPTIONS.items():
        option = {"dest": f"set_{name}", "type": kind, "metavar": "VALUE", "help": text}
        group.add_argument(get_option(name), **option)
    return parser


def list_recipes() -> int:
    width = max(map(len, RECIPES))
    for recipe in RECIPES.values():
        print(f"{recipe.name:<{width}}  {recipe.summary}")
    return 0


def download(args: argparse.Namespace) -> int:
    source = data.open_dataset(args.data, download=True)
    print(f"The dataset '{source.name}' with {len(source.classes)} classes is in '{source.root}'.")
    return 0


def evaluate(args: argparse.Namespace) -> int:
    if len(args.runs) != 1:
        raise RunError(f"evaluate needs one run folder: {TRAIN_COMMAND} evaluate runs/NAME.")
    run = runs.read_run(args.runs[0])
    source = data.find_dataset(args.data)
    check_same_classes(run, source)
    print_notes(source)
    parts = split_of(run, source)
    if parts is None:
        print(f"{TRAIN_NAME}: '{run.path}' was trained with another training set than the images "
              f"in '{source.root}', or with another split. So the validation set is not evaluated.",
              file=sys.stderr)  # fmt: skip
    write_evaluation(run, source, parts and parts[1], args.device)
    if parts:
        add_reference(run, *parts, args.device)
    return 0


def add_reference(
    run: runs.Run, train: data.LabelledImages, validation: data.LabelledImages, device: str
) -> None:
    """Write `reference_features.npz`, which the page needs to detect unusual images."""
    reference = compute_reference(run, train, validation, choose_device(device))
    if reference:
        write_reference(run.path, reference, run.config["data"]["fingerprint"])


def write_evaluation(
    run: runs.Run, source: data.ImageDataset, validation: data.LabelledImages | None, device: str
) -> runs.Evaluation:
    """Evaluate the run on the test set, write `evaluation.npz` and print the accuracy."""
    test = source.load("test", run.spec.image_size)
    evaluation = evaluate_run(run, test, validation, choose_device(device))
    runs.write_evaluation(run.path, evaluation)
    result = {"test_accuracy": compute_accuracy(evaluation.probabilities, evaluation.labels)}
    print(json.dumps({"run": str(run.path)} | result | {"test_pictures": len(test)}))
    return evaluation


def write_report(args: argparse.Namespace) -> int:
    if not args.runs:
        raise RunError(f"report needs run folders: {TRAIN_COMMAND} report runs/NAME runs/OTHER.")
    # Imported here, so that training neither waits for matplotlib nor needs it.
    from vitdemo.report import render_report

    path = args.out or Path("report.html")
    html = render_report(runs.disambiguate_names(read_supervised_runs(args.runs)))
    runs.write_atomically(path, lambda file: file.write(html.encode(errors="replace")))
    print(f"The report is in '{path}': open it in a browser.")
    return 0


def read_supervised_runs(folders: list[Path]) -> Iterator[runs.Run]:
    """Yield the runs to report on; print a message for each pretraining run in `folders`."""
    for folder in folders:
        try:
            yield runs.read_run(folder)
        except PretrainingError as error:
            print(f"{TRAIN_NAME}: not in the report: {error}", file=sys.stderr)


def push(args: argparse.Namespace) -> int:
    """Upload a run to the Hugging Face Hub, or write the files of its repository into a folder."""
    # Imported here, because training does not need them.
    from vitdemo.publishing.repository import push_run, write_repository

    if len(args.runs) != 2 and not (args.dry_run and len(args.runs) == 1):
        raise RunError(
            f"push needs a run folder and a name: {TRAIN_COMMAND} push runs/RUN USER/NAME."
        )
    run = runs.read_run(args.runs[0])
    repository = args.runs[1].as_posix() if len(args.runs) == 2 else f"USER/{run.path.name}"
    if args.dry_run:
        write_repository(run, args.dry_run, repository, args.license)
        print(f"The files of the repository are in '{args.dry_run}'.")
        return 0
    options = {"private": args.private, "licence": args.license}
    address = push_run(run, repository, **options, on_step=lambda text: print(text, flush=True))
    print(f"The model is at {address}")
    print(f"To open it: python app.py --model hf-hub:{repository}")
    return 0


def export(args: argparse.Namespace) -> int:
    from vitdemo.publishing.onnx_file import export_onnx

    if len(args.runs) != 1 or not args.onnx:
        raise RunError(
            f"export needs a run folder and a file: {TRAIN_COMMAND} export runs/RUN --onnx FILE."
        )
    names = export_onnx(runs.read_run(args.runs[0]), args.onnx)
    attention = f" and the attention of {len(names) - 1} layers" if names[1:] else ""
    print(f"'{args.onnx}' computes the logits{attention}.")
    return 0


OTHER_COMMANDS = {
    "download": download,
    "evaluate": evaluate,
    "report": write_report,
    "push": push,
    "export": export,
}


def train(args: argparse.Namespace, argv: list[str], folder: Path, stopper: Stopper) -> int:
    started = time.monotonic()
    recipe = choose_recipe(args, folder)
    if is_first_process():
        check_installed(args.log)
    if not args.resume:
        check_folder_unused(folder, smoke=args.smoke)
    device = choose_device(args.device)
    retain_freed_memory()
    compile = choose_compile_mode(device, args.compile)
    is_synthetic = args.smoke and args.data is None
    source = data.SYNTHETIC_DATASET if is_synthetic else data.find_dataset(args.data)
    samples, own_validation = source.load_training_images(recipe.model.image_size)
    train_idx, val_idx = split_training_set(samples, recipe, source.classes, own_validation)
    fingerprint = data.compute_fingerprint(samples, source.classes)
    state = (
        read_resume_checkpoint(folder, fingerprint, len(val_idx), recipe) if args.resume else None
    )
    if is_first_process():
        source.check_images("test")  # fail now instead of after the last epoch
        print_notes(source)
        if not own_validation:
            print_note_on_split(recipe, len(val_idx), len(samples))
    processes, device = join_processes(device)
    origin = read_origin(args.weights)
    check_same_heads(origin, recipe.model)
    check_origin_split(origin, recipe, source.classes, fingerprint)
    model = build_initial_model(args, recipe, source.classes, origin, state).to(device)
    trainer = make_trainer(
        model,
        recipe,
        samples.subset(train_idx),
        samples.subset(val_idx),
        num_classes=len(source.classes),
        preprocessing=get_preprocessing(recipe, source, samples),
        on_note=lambda note: print(f"{TRAIN_NAME}: {note}", file=sys.stderr),
        stop=stopper.should_stop,
        pause=stopper.should_pause,
        compile=compile,
        processes=processes,
        teacher=load_teacher(recipe, source.classes, fingerprint, device),
    )
    if state:
        trainer.load_state_dict(state)
    if processes.is_first and state:
        prepare_resumed_folder(folder, trainer, argv)
    elif processes.is_first:
        config = build_config(trainer, model, source.classes, source.name, fingerprint, argv)
        create_run_folder(folder, trainer, config | origin_entry(origin))
    deadline = started + 60 * args.minutes if args.minutes else math.inf
    log = open_progress_log(args.log if processes.is_first else [], folder, trainer)
    try:
        return train_and_evaluate(args, folder, source, trainer, stopper, deadline, log)
    finally:
        with handle_signals(STOP_SIGNALS, signal.SIG_IGN):  # torchrun sends stop signals twice
            log.close()


def build_initial_model(
    args: argparse.Namespace,
    recipe: Recipe,
    classes: tuple[str, ...],
    origin: runs.Run | None,
    state: dict | None,
) -> torch.nn.Module:
    """Build the model with the weights to start from; the checkpoint `state` is loaded later."""
    torch.manual_seed(recipe.seed)
    return build_model(
        recipe.model,
        len(classes),
        pretrained=recipe.pretrained and state is None and not args.smoke,
        weights=None if state else args.weights,
        keep_head=has_same_classes(origin, classes),
    )


def train_and_evaluate(
    args: argparse.Namespace,
    folder: Path,
    source: data.ImageDataset,
    trainer: Trainer,
    stopper: Stopper,
    deadline: float | None,
    log: ProgressLog,
) -> int:
    """Train the run in `folder` and evaluate it after its last epoch; return the exit code."""
    recipe, processes = trainer.recipe, trainer.processes
    stopper.start_timer()
    with handle_signals(STOP_SIGNALS if processes.count == 1 else (), stopper.request_pause):
        finished = train_and_save(trainer, folder, deadline, log)
    if not processes.is_first:
        return 0  # with another exit code, torchrun would stop the first process
    if not finished:
        print(f"Stopped. {describe_checkpoint(folder, recipe)} are saved in '{folder}'; "
              f"continue with: {resume_command(args, folder)}")  # fmt: skip
        return 130
    if trainer.stopped_step is not None:
        record_stop(folder, trainer)
    runs.write_weights(folder, trainer.final_weights())
    if recipe.mask_ratio:
        print("The encoder is trained. To start a recipe of the same model from these weights, "
              f"use --weights {folder / runs.WEIGHTS_FILE}")  # fmt: skip
        return 0
    evaluation = evaluate_trained(args, folder, source, trainer)
    if log.writers:
        # Imported here, so that training neither waits for scipy nor needs it.
        from vitdemo.metrics.intervals import wilson_interval

        n = len(evaluation.labels)
        accuracy = compute_accuracy(evaluation.probabilities, evaluation.labels)
        log.add_test(accuracy, *map(float, wilson_interval(round(accuracy * n), n)))
    return 0


def print_notes(source: data.ImageDataset) -> None:
    for note in source.list_notes():
        print(note, file=sys.stderr)


def print_note_on_split(recipe: Recipe, validation_count: int, count: int) -> None:
    """Print a note if more images are held out than the recipe specifies."""
    if validation_count > math.ceil(recipe.validation_share * count):
        print(f"{validation_count} of {count} images are held out for validation, because "
              f"{get_option('validation_share')} {recipe.validation_share:g} is too small for one "
              "image per class.", file=sys.stderr)  # fmt: skip


def evaluate_trained(
    args: argparse.Namespace, folder: Path, source: data.ImageDataset, trainer: Trainer
) -> runs.Evaluation:
    """Evaluate the run in `folder` at the end of its training and return the evaluation.

    Raises `DataError` with the command for a later evaluation if the test set has changed during
    training and cannot be read.
    """
    try:
        run = runs.read_run(folder)
        evaluation = write_evaluation(run, source, trainer.validation, args.device)
        add_reference(run, trainer.train, trainer.validation, args.device)
    except (VitdemoError, KeyboardInterrupt) as error:
        command = [*TRAIN_COMMAND.split(), "evaluate", str(folder), "--data", str(source.root)]
        message = (
            f"The training is finished and its weights are saved in '{folder}'. Evaluate the run "
            f"with: {shlex.join(command)}"
        )
        if isinstance(error, KeyboardInterrupt):
            print(message, file=sys.stderr)
            raise
        raise DataError(f"{error} {message}") from error
    return evaluation


def describe_checkpoint(folder: Path, recipe: Recipe) -> str:
    """Describe the saved epochs and steps; after a hard stop, the last epochs may be missing."""
    state = runs.read_checkpoint(folder)
    progress = state.get("progress")
    steps = f" and {progress['step']} steps of the next epoch" if progress else ""
    return f"{state['epoch']} of {recipe.total_epochs} epochs{steps}"


def resume_command(args: argparse.Namespace, folder: Path) -> str:
    dataset = ["--data", str(args.data)] if args.data else []
    smoke = ["--smoke"] if args.smoke else []
    recipe = [args.recipe] if args.recipe else []
    option = "--log" if os.environ.get("LOCAL_WORLD_SIZE", "1") == "1" else "--track"
    log = [word for name in args.log for word in (option, name)]
    return format_command([*recipe, *smoke, *dataset, *log, "--out", str(folder), "--resume"])


def choose_recipe(args: argparse.Namespace, folder: Path) -> Recipe:
    """Return the recipe with the command line's options; with --resume, the run's own recipe."""
    settings = {field.name: getattr(args, f"set_{field.name}") for field in RECIPE_OPTIONS}
    settings = {name: value for name, value in settings.items() if value is not None}
    if settings.get("teacher"):
        settings["teacher"] = str(expand_path(settings["teacher"]))
    size = {"image_size": args.image_size} if args.image_size else {}
    options = {name: getattr(args, f"set_{name}") for name in MODEL_OPTIONS}
    options = {name: value for name, value in options.items() if value is not None}
    if args.resume:
        return get_resume_recipe(folder, args.recipe, **settings, **size, **options)
    if args.config and args.recipe:
        raise RecipeError(f"Give the recipe '{args.recipe}' or --config, but not both.")
    recipe = read_recipe_file(args.config) if args.config else get_recipe(args.recipe)
    recipe = make_smoke_recipe(recipe, **settings) if args.smoke else replace(recipe, **settings)
    unknown = options.keys() - get_family(recipe.model).option_defaults.keys()
    if unknown:
        option = get_option(next(name for name in options if name in unknown))
        raise RecipeError(f"{recipe.name} is not a ViT from scratch: omit {option}.")
    model = replace(recipe.model, options={**recipe.model.options, **options})
    return replace(recipe, model=replace(model, **size))


def get_run_folder(args: argparse.Namespace) -> Path:
    """Return `--out`, or runs/RECIPE by default. Raises `RecipeError` if both are missing."""
    if args.out:
        return args.out
    if not args.recipe:
        raise RecipeError("Choose a run folder with --out, for example --out runs/mine.")
    return Path("runs") / (args.recipe + ("-smoke" if args.smoke else ""))


def train_and_save(
    trainer: Trainer, folder: Path, deadline: float | None, log: ProgressLog
) -> bool:
    """Train and save all epochs; return False if a pause, a signal or the deadline ended them."""
    is_first, saver = trainer.processes.is_first, EpochSaver(folder, trainer)
    with create_progress_bar(trainer) as bar:
        if is_first:
            steps, update_bar = StepLog(folder, trainer, log.add_line), trainer.on_step
            trainer.on_step = lambda progress: (update_bar(progress), steps.add(progress))
        try:
            for record in trainer.fit():
                if is_first:
                    saver.save(record)
                    log.add_record(record)
                    bar.write(format_epoch_line(record))
                if not trainer.is_finished and would_exceed_deadline(trainer, record, deadline):
                    return False
            if trainer.epoch_progress:
                saver.save_checkpoint()
                return False
        except KeyboardInterrupt:
            return False
        finally:
            with handle_signals(STOP_SIGNALS, signal.SIG_IGN):
                saver.flush()
    trainer.processes.destroy_group()
    return True


def would_exceed_deadline(trainer: Trainer, record: dict, deadline: float) -> bool:
    """Return whether an epoch as long as the epoch of `record` would end after the deadline."""
    seconds = record["epoch_seconds"] - trainer.compile_seconds
    is_late = time.monotonic() + seconds > deadline
    return trainer.processes.broadcast_flag(is_late, trainer.device)


def run() -> NoReturn:
    """Run the command line and end this program.

    With several processes, Python's normal shutdown is skipped. A thread of gloo may still hold
    tensors of the last all-reduce, and releasing them during shutdown aborts the process
    (pytorch/pytorch#179291). `torchrun` would then stop the first process while it writes.
    """
    code = main()
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    run()
