"""Train a recipe, go on with one, evaluate a run, or fetch the data.

    python train.py --list
    python train.py vit-small-cpu
    python train.py vit-small-cpu --resume
    python train.py vit-small-cpu --resume --epochs 8   # with another end than it was begun with
    python train.py vit-best --minutes 8.5          # stops between epochs, to be resumed
    python train.py vit-best-masked                 # without labels; then start from it:
    python train.py vit-best-pretrained --weights runs/vit-best-masked/model.safetensors
    torchrun --nproc_per_node=4 train.py vit-best   # four GPUs share each batch
    python train.py evaluate runs/vit-small-cpu
    python train.py report runs/vit-small-cpu --out report.html
    python train.py download

A training writes a run folder (see `vitdemo/runs.py`), which the page shows while it grows.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch

from vitdemo import data, runs
from vitdemo.bookkeeping import (
    Saver,
    command_line,
    continue_folder,
    describe,
    prepare_folder,
    resumable,
    started_from,
)
from vitdemo.errors import PretrainingError, RunError, VitdemoError
from vitdemo.metrics import accuracy
from vitdemo.models import ModelSpec, build_model
from vitdemo.recipes import RECIPES, Recipe, get_recipe
from vitdemo.training import (
    Teacher,
    Trainer,
    choose_compile,
    join_processes,
    pick_device,
    predict,
)
from vitdemo.training.bar import progress_bar, sentence
from vitdemo.training.devices import keep_memory
from vitdemo.training.pictures import preprocessing_of, split
from vitdemo.training.pretraining import make_trainer

STOPS = (signal.SIGINT, signal.SIGTERM)
SYNTHETIC = "synthetic"  # name of the data of --smoke
TUNABLE = tuple(f for f in fields(Recipe) if f.type in (int, float, str) and f.name not in
                ("name", "summary", "note"))  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Exit codes: 0 done, 2 a mistake that a sentence explains, 130 stopped and resumable."""
    argv = sys.argv[1:] if argv is None else argv
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run_command(build_parser().parse_args(argv), argv)
    except VitdemoError as error:
        print(f"train.py: {error}", file=sys.stderr)
    except OSError as error:  # a full disk, a folder that may not be written
        where = f" '{error.filename}'" if error.filename else ""
        print(f"train.py: {error.strerror or error}{where}: nothing finished is lost; make room "
              "or choose another --out, and go on with --resume.", file=sys.stderr)  # fmt: skip
    except KeyboardInterrupt:  # before the first step, or while evaluating
        print("train.py: stopped.", file=sys.stderr)
        return 130
    return 2


def run_command(args: argparse.Namespace, argv: list[str]) -> int:
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.list or args.recipe is None:
        return list_recipes()
    if args.recipe == "download":
        return download(args)
    if args.recipe == "evaluate":
        return evaluate(args)
    if args.recipe == "report":
        return write_report(args)
    return train(args, argv)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="train.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = "`evaluate`, `report` or `download`"
    parser.add_argument("recipe", nargs="?", help=f"a recipe's name, {commands}")
    parser.add_argument(
        "runs", nargs="*", type=Path, help="the run folder to `evaluate`, or those to `report` on"
    )
    parser.add_argument("--list", action="store_true", help="print the recipes and leave")
    parser.add_argument("--data", type=Path, help="CIFAR-10's folder, or one with train/ and test/")
    parser.add_argument(
        "--out",
        type=Path,
        help="the run folder (default: runs/RECIPE); the file of a report (default: report.html)",
    )
    parser.add_argument("--device", default="auto", help="auto, cuda, mps or cpu")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (default: all cores)")
    parser.add_argument("--weights", type=Path, help="file of the weights to start from")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out")
    parser.add_argument(
        "--minutes", type=float, help="stop, to be resumed, before an epoch that would end later"
    )
    parser.add_argument(
        "--compile", default="auto", help="auto (on CUDA), off, default, reduce-overhead, ..."
    )
    parser.add_argument("--no-compile", dest="compile", action="store_const", const="off")
    parser.add_argument("--smoke", action="store_true", help="seconds, on synthetic pictures")
    parser.add_argument("--image-size", type=int, help="side of the model's input in pixels")
    group = parser.add_argument_group("fields of the recipe, in place of its own values")
    for field in TUNABLE:
        option = "--" + field.name.replace("_", "-")
        group.add_argument(option, dest=f"set_{field.name}", type=field.type, metavar="VALUE")
    return parser


def list_recipes() -> int:
    width = max(map(len, RECIPES))
    for recipe in RECIPES.values():
        print(f"{recipe.name:<{width}}  {recipe.summary}")
    return 0


def download(args: argparse.Namespace) -> int:
    source = data.open_source(args.data)
    print(f"The data set '{source.name}' with {len(source.classes)} classes is in '{source.root}'.")
    return 0


def evaluate(args: argparse.Namespace) -> int:
    if len(args.runs) != 1:
        raise RunError("evaluate needs a run folder: python train.py evaluate runs/NAME.")
    run = runs.read_run(args.runs[0])
    source = data.open_source(args.data)
    if source.classes != run.classes:
        raise RunError(
            f"'{run.path}' was trained on other classes ({', '.join(run.classes[:4])}, ...): pass "
            "--data the data set that it was trained on."
        )
    write_evaluation(run, source, validation_of(run, source), args)
    return 0


def write_report(args: argparse.Namespace) -> int:
    """One HTML file of finished or growing runs, for a class to hand in."""
    if not args.runs:
        raise RunError("report needs run folders: python train.py report runs/NAME runs/OTHER.")
    # Here, not above: it draws, and no training should wait for matplotlib or fail without it.
    from vitdemo.report import report

    path = args.out or Path("report.html")
    page = report(runs.told_apart(labelled_runs(args.runs)))
    runs.write_atomically(path, lambda file: file.write(page.encode()))
    print(f"The report is in '{path}': open it in a browser.")
    return 0


def labelled_runs(folders: list[Path]) -> Iterator[runs.Run]:
    """Runs to report on; of those without labels, which a `runs/*` names too, a sentence."""
    for folder in folders:
        try:
            yield runs.read_run(folder)
        except PretrainingError as error:
            print(f"train.py: left out: {error}", file=sys.stderr)


def train(args: argparse.Namespace, argv: list[str]) -> int:
    started = time.monotonic()
    recipe, folder = choose_recipe(args), run_folder(args)
    device = pick_device(args.device)
    keep_memory()
    compile = choose_compile(device, args.compile)
    source, pictures, classes = training_pictures(args, recipe)
    kept, held = split(pictures, recipe)
    fingerprint = data.fingerprint(pictures, classes)
    saved = resumable(folder, fingerprint, recipe) if args.resume else None
    processes, device = join_processes(device)
    torch.manual_seed(recipe.seed)
    model = build_model(
        recipe.model,
        len(classes),
        pretrained=recipe.pretrained and saved is None and not args.smoke,
        weights=args.weights,
    ).to(device)
    trainer = make_trainer(
        model,
        recipe,
        pictures.subset(kept),
        pictures.subset(held),
        num_classes=len(classes),
        preprocessing=preprocessing_of(recipe, source, pictures),
        on_note=lambda note: print(f"train.py: {note}", file=sys.stderr),
        compile=compile,
        processes=processes,
        teacher=teacher_of(recipe, classes, fingerprint, device),
    )
    if saved:
        trainer.load_state_dict(saved)
    if processes.is_first:
        name = source.name if source else SYNTHETIC
        if saved:
            continue_folder(folder, trainer, argv)
        else:
            config = describe(trainer, model, classes, name, fingerprint, argv)
            prepare_folder(folder, trainer, config | started_from(args.weights))
    deadline = started + 60 * args.minutes if args.minutes else None
    finished = train_to_the_end(trainer, folder, deadline)
    if not processes.is_first:
        return 0  # the first one's exit code counts: torchrun stops all others after a failed one
    if not finished:
        saved_epochs = runs.read_checkpoint(folder)["epoch"]  # it may have ended one more
        print(f"Stopped. {saved_epochs} of {recipe.total_epochs} epochs are saved in '{folder}'; "
              f"go on with: {resume_command(args, folder)}")  # fmt: skip
        return 130
    runs.write_weights(folder, trainer.final_weights())
    if recipe.mask_ratio:
        print(f"The encoder is trained: start a recipe of the same model from it with --weights "
              f"{folder / runs.WEIGHTS}")  # fmt: skip
        return 0
    write_evaluation(runs.read_run(folder), source, trainer.validation, args)
    return 0


def resume_command(args: argparse.Namespace, folder: Path) -> str:
    """The command that goes on with the run in `folder`, on the same pictures."""
    where = ["--data", str(args.data)] if args.data else []
    smoke = ["--smoke"] if args.smoke else []
    return command_line([args.recipe, *smoke, *where, "--out", str(folder), "--resume"])


def choose_recipe(args: argparse.Namespace) -> Recipe:
    """The named recipe with the command line's values; with --resume, as the run was begun.

    Only its `epochs` may be others then: the schedule ends where they do.
    """
    given = {f.name: getattr(args, f"set_{f.name}") for f in TUNABLE}
    given = {name: value for name, value in given.items() if value is not None}
    if not args.resume:
        if args.smoke:
            whole, rest = get_recipe(args.recipe), given.get("epochs", 2) - 1
            few = {"epochs": 2, "head_epochs": min(whole.head_epochs, 1)}
            few |= {f: min(getattr(whole, f), rest, 1) for f in ("unmixed_epochs", "whole_epochs")}
            few |= {"batch_size": 16, "warmup_epochs": 0.0, "train_pictures": 0, "teacher": ""}
            given = few | given
        recipe = get_recipe(args.recipe, **given)
        size = args.image_size or recipe.model.image_size
        return replace(recipe, model=replace(recipe.model, image_size=size))
    folder = run_folder(args)
    saved = recipe_from(runs.read_config(folder)["recipe"])
    if saved.name != get_recipe(args.recipe).name:
        raise RunError(
            f"'{folder}' was trained with the recipe '{saved.name}', not '{args.recipe}': resume "
            f"that one, or choose another --out."
        )
    begun = asdict(saved) | {"image_size": saved.model.image_size}
    for name, value in given.items() | {("image_size", args.image_size or begun["image_size"])}:
        if begun[name] != value and name != "epochs":
            raise RunError(
                f"'{folder}' was begun with {name} {begun[name]}, not {value}: leave the option "
                "out to resume, or choose another --out."
            )
    return replace(saved, epochs=given.get("epochs", saved.epochs))


def recipe_from(saved: dict) -> Recipe:
    """A `Recipe` from its JSON form. Raises `RunError` where a field is strange to this version."""
    known = {f.name for f in fields(Recipe)}
    strange = sorted(set(saved) - known)
    if strange:
        raise RunError(f"The run's recipe has a field '{strange[0]}' that this version lacks.")
    try:
        own = {"model": ModelSpec(**saved["model"]), "betas": tuple(saved["betas"])}
        return Recipe(**saved | own)
    except (KeyError, TypeError) as error:
        raise RunError(f"The run's recipe lacks a field or has a strange one: {error}.") from error


def run_folder(args: argparse.Namespace) -> Path:
    """`--out`, or runs/RECIPE. Raises `RunError` where a run is there that is not a `--smoke`."""
    folder = args.out or Path("runs") / (args.recipe + ("-smoke" if args.smoke else ""))
    if (folder / runs.CONFIG).exists() and not args.resume and not replaceable(args, folder):
        raise RunError(
            f"'{folder}' already holds a run: go on with --resume, or choose another --out."
        )
    return folder


def replaceable(args: argparse.Namespace, folder: Path) -> bool:
    """A smoke test may replace the run of another one, and nothing else may replace any."""
    return args.smoke and runs.read_config(folder).get("data", {}).get("name") == SYNTHETIC


def training_pictures(
    args: argparse.Namespace, recipe: Recipe
) -> tuple[data.Source | None, data.Pictures, tuple[str, ...]]:
    """(source, training pictures, classes); the source is None for `--smoke`'s synthetic ones."""
    if args.smoke and args.data is None:
        return None, data.synthetic(), ("one", "two", "three", "four")
    source = data.open_source(args.data)
    return source, source.load("train", recipe.model.image_size), source.classes


def teacher_of(
    recipe: Recipe, classes: tuple[str, ...], fingerprint: str, device: torch.device
) -> Teacher | None:
    """The recipe's teacher. Raises `RunError` where there is none, where it knows other classes, or
    where it was trained on pictures that this run validates on."""
    if not recipe.teacher:
        return None
    if not (Path(recipe.teacher) / runs.WEIGHTS).is_file():
        raise RunError(
            f"There is no teacher in '{recipe.teacher}': train it first, or begin with --teacher "
            "and the run folder of another."
        )
    run = runs.read_run(recipe.teacher)
    if run.classes != classes:
        raise RunError(
            f"The teacher '{run.path}' knows other classes ({', '.join(run.classes[:4])}, ...) "
            "than the training pictures have."
        )
    begun = run.config["recipe"] | run.config.get("data", {})
    same = {"seed": recipe.seed, "validation_share": recipe.validation_share}
    if run.spec.image_size == recipe.model.image_size:  # else a folder's pictures differ in size
        same["fingerprint"] = fingerprint
    for field, ours in same.items():
        if begun.get(field) != ours:
            raise RunError(
                f"The teacher '{run.path}' was trained with {field} {begun.get(field)}, not {ours},"
                " so it has seen pictures that this run validates on: choose the same."
            )
    return Teacher(runs.load_model(run, device), run.preprocessing, recipe.teacher_share)


def train_to_the_end(trainer: Trainer, folder: Path, deadline: float | None = None) -> bool:
    """Write each epoch as it ends; False where Ctrl-C, SIGTERM or the deadline stopped it."""
    first, saver = trainer.processes.is_first, Saver(folder, trainer)
    with progress_bar(trainer) as bar:
        try:
            for record in trainer.fit():
                if first:
                    saver.save(record)
                    bar.write(sentence(record))
                if deadline and not trainer.finished and too_late(trainer, record, deadline):
                    return False
        except KeyboardInterrupt:
            return False
        finally:
            with uninterrupted():
                saver.flush()
    trainer.processes.leave()
    return True


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM do nothing meanwhile: torchrun sends a second one to who is stopping."""
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in STOPS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def too_late(trainer: Trainer, record: dict, deadline: float) -> bool:
    """Whether another epoch like this one would end after the deadline."""
    seconds = record["epoch_seconds"] - trainer.compile_seconds
    late = time.monotonic() + seconds > deadline
    return trainer.processes.agree(late, trainer.device)


def validation_of(run: runs.Run, source: data.Source) -> data.Pictures | None:
    """The pictures that the run held out; None where its training pictures are not at hand."""
    pictures = source.load("train", run.spec.image_size)
    begun = run.config.get("data", {}).get("fingerprint")
    if data.fingerprint(pictures, source.classes) != begun:
        print(
            f"train.py: the training pictures in '{source.root}' are not those of '{run.path}', "
            "so its validation pictures are left out.",
            file=sys.stderr,
        )
        return None
    recipe = run.config["recipe"]
    _, held = data.stratified_split(pictures.labels, recipe["validation_share"], recipe["seed"])
    return pictures.subset(held)


def write_evaluation(
    run: runs.Run,
    source: data.Source | None,
    validation: data.Pictures | None,
    args: argparse.Namespace,
) -> None:
    """Read the test set, with the weights as they ship (float16), and write `evaluation.npz`."""
    test = source.load("test", run.spec.image_size) if source else data.synthetic(seed=1)
    model = runs.load_model(run, pick_device(args.device))

    def probabilities(pictures: data.Pictures) -> np.ndarray:  # (N, C)
        return predict(model, pictures.images, run.preprocessing).softmax(1).numpy()

    predict(model, test.images[:1000], run.preprocessing)  # the first pass is slower
    started = time.perf_counter()
    found, labels = probabilities(test), test.labels.numpy()
    seconds = (time.perf_counter() - started) / len(test)
    held = (probabilities(validation), validation.labels.cpu().numpy()) if validation else ()
    fingerprint = data.fingerprint(test, run.classes)
    runs.write_evaluation(run.path, runs.Evaluation(found, labels, fingerprint, seconds, *held))
    result = {"test_accuracy": accuracy(found, labels), "test_pictures": len(test)}
    print(json.dumps({"run": str(run.path)} | result))


def leave(code: int) -> NoReturn:
    """End this program with an exit code.

    One of several processes ends without Python's own clearing up: a thread of gloo's may still
    hold the tensors of its last sum, and where it lets go of them meanwhile the process aborts
    (pytorch/pytorch#179291). `torchrun` would then stop the first one, which writes.
    """
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    leave(main())
