"""Shared fixtures: tiny recipes, finished runs, image folders and CIFAR-10."""

import functools
import gc
import math
import os
import random
import shutil
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from tests.support.factories import (
    RESNET,
    TEST_COUNTS,
    TIMM,
    TINY_RECIPE,
    TRUTH_FOLDER,
    VIT,
    make_context,
    make_run,
    make_tested_runs,
    run_train_py,
    write_noise_images,
)
from tests.support.sites import export_small_site
from vitdemo import data, notebook
from vitdemo.analyses import class_attribution
from vitdemo.context import AppContext
from vitdemo.explain import faithfulness
from vitdemo.explain.attributions import integrated_gradients
from vitdemo.training.recipes import RECIPES

torch.set_num_threads(1)  # tiny models do not gain from threads, and two processes run tests

SLOW_TEST_FILES = (
    "cli/test_train.py",
    "data/test_cifar10.py",
    "training/test_trainer.py",
    "jobs/test_jobs.py",
)


def pytest_addoption(parser):
    group = parser.getgroup("vitdemo")
    group.addoption("--full", action="store_true", help="run the tests marked `full` too")
    group.addoption("--slow-page", action="store_true", help="slow down the browser's pages")
    group.addoption("--seed", default="0", help="seed of --tenth and of the delays of --slow-page")
    group.addoption("--tenth", action="store_true", help="run a random tenth of the tests")


def pytest_collection_modifyitems(config, items):
    """Choose the tests to run, and sort them.

    Browser tests come first, then slow files, so that no process ends with a long file.
    """
    if not config.getoption("full"):
        deselect(config, items, [each for each in items if each.get_closest_marker("full")])
    if config.getoption("tenth"):
        chosen = random.Random(config.getoption("seed")).sample(items, math.ceil(len(items) / 10))
        deselect(config, items, [each for each in items if each not in set(chosen)])
    items.sort(
        key=lambda item: (
            item.path.parent.name != "browser"
            and 2 - item.path.as_posix().endswith(SLOW_TEST_FILES)
        )
    )


def deselect(config, items, unwanted):
    """Remove tests from `items`, and report their number."""
    config.hook.pytest_deselected(items=unwanted)
    removed = set(unwanted)
    items[:] = [each for each in items if each not in removed]


def pytest_collection_finish():
    gc.freeze()  # each training run collects garbage: half a second if it searches all imports


@pytest.fixture(scope="session", autouse=True)
def _no_download():
    """Addresses that refuse connections, so that no test downloads anything."""
    unreachable = "http://127.0.0.1:9"  # the discard port refuses connections at once
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data.cifar10, "ARCHIVE_URL", f"{unreachable}/archive")
        patch.setenv("HF_ENDPOINT", unreachable)
        yield


@pytest.fixture(scope="module", autouse=True)
def _collect_garbage():
    """Collect the garbage of each file: a resource that it left open fails its own last test."""
    yield
    gc.collect()


@pytest.fixture
def tiny_recipe(monkeypatch):
    """Recipe "tiny", registered for the command line during the test."""
    monkeypatch.setitem(RECIPES, "tiny", TINY_RECIPE)
    return TINY_RECIPE


@pytest.fixture
def few_steps(monkeypatch):
    """Few steps of slow maps, faithfulness test and search; the notebook's cache is empty."""
    monkeypatch.setattr(integrated_gradients, "INTEGRATION_STEPS", (4,))
    monkeypatch.setattr(faithfulness, "CURVE_STEPS", 2)
    monkeypatch.setattr(class_attribution, "MAX_PASSES", 100)
    own_context = functools.cache(notebook.get_context.__wrapped__)
    monkeypatch.setattr(notebook, "get_context", own_context)


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory) -> Path:
    """Run folder of a tiny ViT on synthetic images, by train.py; tests must not change it."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RECIPES, "tiny", TINY_RECIPE)
        options = ("--smoke", "--epochs", 3, "--device", "cpu", "--out", folder)
        assert run_train_py("tiny", *options) == 0
    return folder


@pytest.fixture
def run_copy(tiny_run, tmp_path) -> Path:
    """Copy of `tiny_run` that a test may damage."""
    return Path(shutil.copytree(tiny_run, tmp_path / "runs" / "tiny"))


@pytest.fixture
def put_pictures(tmp_path):
    """Writer of noise images, which takes {"train/cat": 3, ...} and returns the folder."""
    return lambda counts, name="pictures": write_noise_images(tmp_path / name, counts)


@pytest.fixture(scope="session")
def tested_runs(tmp_path_factory) -> tuple[Path, Path]:
    """Folders (runs, data): two runs, "first" and "second", and the dataset of their test."""
    root = tmp_path_factory.mktemp("tested")
    counts = {f"test/{name}": count for name, count in TEST_COUNTS.items()}
    counts |= {f"train/{name}": 1 for name in TEST_COUNTS}
    source = data.open_dataset(write_noise_images(root / "data", counts))
    make_tested_runs(root / "runs", source)
    return root / "runs", root / "data"


@pytest.fixture(scope="session")
def tested(tested_runs) -> AppContext:
    """AppContext of `tested_runs`; tests must not change it."""
    return make_context(tested_runs[0], data_root=tested_runs[1])


@pytest.fixture(scope="session")
def cifar10() -> data.ImageDataset:
    """Real CIFAR-10; its tests are skipped if it is not on this machine."""
    root = Path(os.environ.get("VITDEMO_DATA") or Path(__file__).parents[1] / "data")
    if data.cifar10.find_folder(root) is None:
        pytest.skip(f"CIFAR-10 is not in '{root}': run `python train.py download` to test with it")
    return data.open_dataset(root, download=False)


@pytest.fixture(scope="session")
def shown_runs(tmp_path_factory) -> Path:
    """Three finished runs for the page: a ViT, a timm model and a ResNet; and a damaged folder."""
    root = tmp_path_factory.mktemp("shown")
    for seed, (name, spec) in enumerate({"vit": VIT, "timm": TIMM, "resnet": RESNET}.items()):
        make_run(root / name, spec, seed=seed)
    (root / "damaged").mkdir()
    (root / "damaged" / "config.json").write_text('{"recipe": ')
    return root


@pytest.fixture(scope="session")
def exported_site(shown_runs, tmp_path_factory) -> Path:
    """Export a static site of `shown_runs`, once for all test processes."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "exported-site"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():  # the folder appears when the site is complete
            export_small_site(folder, shown_runs)
    return folder


@pytest.fixture(scope="session")
def shown(shown_runs) -> AppContext:
    """AppContext of `shown_runs`; tests must not change it."""
    return make_context(shown_runs)


@pytest.fixture(scope="session")
def shipped() -> AppContext:
    """AppContext of the included models; tests must not change it."""
    runs = Path(__file__).parents[1] / "assets" / "runs"
    return make_context(runs, truth_root=TRUTH_FOLDER)
