"""Start a forked page that uses the Hub of the environment variables HF_ENDPOINT and HF_HOME.

huggingface_hub reads these variables when it is imported, which is before the fork.
"""

import os

from huggingface_hub import constants

import app
from vitdemo.runs import model_files, timm_run

PROGRAM = "tests.support.hub_page"


def main(argv: list[str] | None = None) -> int:
    home = os.environ["HF_HOME"]
    constants.HF_HUB_OFFLINE = False
    constants.HF_HUB_CACHE = os.path.join(home, "hub")
    model_files.HF_HOME = timm_run.HF_HOME = home
    return app.main(argv)
