"""Start the page: `python app.py`, then open the address that it prints.

Without arguments it shows the models that ship and those in `runs/`, on CUDA, MPS or CPU, and
honours gradio's own environment variables (GRADIO_SERVER_PORT, GRADIO_SERVER_NAME, ...).
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # before gradio is imported
if os.environ.get("SPACES_ZERO_GPU"):
    import spaces  # noqa: F401 - of a Space alone; it must come before torch

from vitdemo.errors import VitdemoError
from vitdemo.jobs import Jobs
from vitdemo.lessons import FOLDER, LANGUAGE
from vitdemo.page import CSS, HEAD, JS, THEME, build_page
from vitdemo.page.kit import visitor
from vitdemo.timm_models import PREFIX, VARIABLE, timm_run
from vitdemo.training import pick_device
from vitdemo.training.devices import give_back_memory
from vitdemo.workbench import Workbench

MOST_WAITING = 500  # questions; a Space on ZeroGPU would take one at a time
SHIPPED = Path(__file__).parent / "assets" / "runs"


def main(argv: list[str] | None = None) -> int:
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
    page.queue(max_size=MOST_WAITING, api_open=False)  # nothing passes the queue by
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
            _frontend=False,  # gradio else ends a page that a busy machine serves after 3 s
        )
    except OSError as error:  # the port is taken
        print(f"app.py: {error}", file=sys.stderr)
        return 2
    return 0


def serves_this_machine_alone(args: argparse.Namespace) -> bool:
    """Whether nobody else can open the page, as far as its arguments and variables tell."""
    host = args.host or os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1"
    shared = args.share or os.environ.get("GRADIO_SHARE", "").lower() in ("true", "1")
    passed_on = os.environ.get("GRADIO_ROOT_PATH") or "SPACE_ID" in os.environ
    return host in ("127.0.0.1", "localhost", "::1") and not shared and not passed_on


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="app.py", description="See how a ViT learns and looks.")
    parser.add_argument(
        "--runs",
        type=Path,
        action="append",
        metavar="DIR",
        help="a folder of run folders; may be given more than once (default: assets/runs and runs)",
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="timm:NAME[=FILE]",
        help="a Vision Transformer of timm's to show as well, with its pretrained weights "
        "(downloaded, or from a local FILE); may be given more than once (VITDEMO_MODELS: names "
        "with commas between them)",
    )
    parser.add_argument(
        "--lessons",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a folder of lessons of your own (see docs/teaching.md); may be given more than once",
    )
    parser.add_argument("--data", type=Path, help="the data set's folder (default: data)")
    parser.add_argument("--device", default="auto", help="auto, cuda, mps or cpu")
    parser.add_argument("--port", type=int, help="default: GRADIO_SERVER_PORT, or 7860 and up")
    parser.add_argument("--host", help="0.0.0.0 serves the whole network (default: this machine)")
    parser.add_argument(
        "--allow-training",
        action="store_true",
        help="let everyone who opens the page train in it (default: this machine's own page alone)",
    )
    parser.add_argument("--share", action="store_true", help="a public link through gradio.live")
    return parser


if __name__ == "__main__":
    sys.exit(main())
