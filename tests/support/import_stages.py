"""Record imports, then start `app.py`: `python -m tests.support.import_stages FILE ...`.

FILE gets the names of the modules that are imported after `train.py`, after `app.py`, and after
the background import of `app.py`. The other arguments are those of `app.py`.
"""

import json
import runpy
import sys
import threading
from pathlib import Path

from tests.support.serving import ROOT


def main() -> None:
    file = Path(sys.argv.pop(1))
    import train  # noqa: F401

    stages = {"train": [*sys.modules]}
    from vitdemo.cli import app

    stages["page"] = [*sys.modules]
    app.PRELOAD_SECONDS = 0
    app.start_preloading()
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()
    stages["late"] = [*sys.modules]
    file.write_text(json.dumps(stages))
    runpy.run_path(str(ROOT / "app.py"), run_name="__main__")


if __name__ == "__main__":
    main()
