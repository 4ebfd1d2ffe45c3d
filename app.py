"""Start the web page: run `python app.py`, then open the printed address.

Without arguments, the page shows the included models and all runs in `runs/`. It uses CUDA, MPS or
the CPU. Gradio's environment variables (GRADIO_SERVER_PORT, GRADIO_SERVER_NAME, ...) also work.
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # before gradio is imported
if os.environ.get("SPACES_ZERO_GPU"):
    import spaces  # noqa: F401 - installed only in a Space; must be imported before torch

from vitdemo import console
from vitdemo.errors import VitdemoError
from vitdemo.jobs import Jobs
from vitdemo.lessons import FOLDER, LANGUAGE
from vitdemo.page import CSS, HEAD, JS, THEME, build_page
from vitdemo.page.kit import visitor
from vitdemo.timm_models import PREFIX, VARIABLE, timm_run
from vitdemo.training import pick_device
from vitdemo.training.devices import give_back_memory
from vitdemo.workbench import Workbench

MOST_WAITING = 500  # requests in the queue
SHIPPED = Path(__file__).parent / "assets" / "runs"


def main(argv: list[str] | None = None) -> int:
    console.escape_unprintable()
    args = build_parser().parse_args(argv)
    try:
        device = pick_device(args.device)
        named = [name for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]
        preset = [*(f"{PREFIX}{name.strip().removeprefix(PREFIX)}" for name in named), *args.model]
        timm_models = [timm_run(text) for text in preset]
    except VitdemoError as error:
        print(f"app.py: {error}", file=sys.stderr)
        return 2
    roots = args.runs or [SHIPPED, Path("runs")]
    jobs = None
    alone = serves_this_machine_alone(args)
    if args.allow_training or alone:
        jobs = Jobs(roots[-1], args.data, device.type, for_all=args.allow_training)
        jobs.watch()
    give_back_memory()
    workbench = Workbench(roots, args.data, device, timm_models, visitor=visitor)
    page = build_page(workbench, jobs, [FOLDER / LANGUAGE, *args.lessons], alone=alone)
    page.queue(max_size=MOST_WAITING, api_open=False)  # no request can bypass the queue
    try:
        page.launch(
            theme=THEME,
            css_paths=CSS,
            js=JS,
            head=HEAD,
            server_name=args.host,
            server_port=args.port,
            share=args.share or None,
            max_file_size="60mb",
            footer_links=["api", "settings"],
            run_history=False,
            ssr_mode=False,
            _frontend=False,  # otherwise gradio stops if a busy machine needs over 3 s to respond
        )
    except OSError as error:  # the port is already in use
        print(f"app.py: {error}", file=sys.stderr)
        return 2
    return 0


def serves_this_machine_alone(args: argparse.Namespace) -> bool:
    """Return whether arguments and environment bind the page to this computer only."""
    host = args.host or os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1"
    shared = args.share or os.environ.get("GRADIO_SHARE", "").lower() in ("true", "1")
    passed_on = os.environ.get("GRADIO_ROOT_PATH") or "SPACE_ID" in os.environ
    return host in ("127.0.0.1", "localhost", "::1") and not shared and not passed_on


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="app.py", description="Start the vitdemo web page.")
    parser.add_argument(
        "--runs",
        type=Path,
        action="append",
        metavar="DIR",
        help="folder that contains run folders; repeatable (default: assets/runs and runs)",
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="timm:NAME[=FILE]",
        help="also show this pretrained Vision Transformer of timm, with downloaded weights or "
        "those in FILE; repeatable (the variable VITDEMO_MODELS takes names separated by commas)",
    )
    parser.add_argument(
        "--lessons",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="folder that contains your own lessons (see docs/teaching.md); repeatable",
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="folder of the dataset (default: data)"
    )
    parser.add_argument("--device", default="auto", help="auto, cuda, mps or cpu (default: auto)")
    parser.add_argument(
        "--port",
        type=int,
        help="port to listen on (default: GRADIO_SERVER_PORT, or the first free port from 7860 on)",
    )
    parser.add_argument(
        "--host",
        help="address to listen on (default: 127.0.0.1, this computer only; 0.0.0.0: all computers "
        "on the network)",
    )
    parser.add_argument(
        "--allow-training",
        action="store_true",
        help="let all users start training runs in the page (default: only users of this computer)",
    )
    parser.add_argument(
        "--share", action="store_true", help="create a public link through gradio.live"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
