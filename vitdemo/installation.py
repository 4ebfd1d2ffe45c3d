"""Included files and names of the commands, in a checkout and in an installed package.

A wheel contains the folder `assets` of the checkout as `vitdemo/assets`.
"""

from pathlib import Path

PACKAGE = Path(__file__).parent
IS_INSTALLED = (PACKAGE / "assets").is_dir()
APP_NAME, TRAIN_NAME = ("vitdemo", "vitdemo-train") if IS_INSTALLED else ("app.py", "train.py")
TRAIN_COMMAND = "vitdemo-train" if IS_INSTALLED else "python train.py"
TRAIN_TARGET = ("-m", "vitdemo.cli.train") if IS_INSTALLED else ("train.py",)  # for torchrun


def included_folder(name: str) -> Path:
    """Return the included folder `name`, for example "runs"; the path may be relative."""
    return (PACKAGE if IS_INSTALLED else PACKAGE.parent) / "assets" / name


def find_included(path: str | Path) -> Path:
    """Return `path`; a missing path that begins with "assets" becomes the included file's path.

    Recipes contain such paths, for example "assets/runs/conv-baseline".
    """
    path = Path(path)
    if path.exists() or path.is_absolute() or path.parts[:1] != ("assets",):
        return path
    return included_folder(str(Path(*path.parts[1:])))
