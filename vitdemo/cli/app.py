"""Start the web page: run `python app.py` or `vitdemo`, then open the printed address.

Without arguments, the page shows the included models and all runs in `runs/`. The models run on
CUDA, MPS or the CPU. Gradio's environment variables (such as GRADIO_SERVER_PORT) also work.
`python app.py export-site DIR` writes a static site instead.
"""

import argparse
import importlib.util
import os
import sys
import threading
from pathlib import Path

from vitdemo.cli import environment
from vitdemo.cli.options import FLAG, FOLDER, REPEATABLE, add_options
from vitdemo.installation import APP_NAME, included_folder

if notices := environment.prepare_environment(APP_NAME):  # must come before the import of gradio
    print(*(f"{APP_NAME}: {notice}" for notice in notices), sep="\n", file=sys.stderr)
if os.environ.get("SPACES_ZERO_GPU"):
    import spaces  # noqa: F401 - installed only in a Space; must be imported before torch

from vitdemo import console
from vitdemo.context import AppContext
from vitdemo.data import DEFAULT_ROOT, default_root
from vitdemo.errors import VitdemoError
from vitdemo.jobs import JobQueue
from vitdemo.lessons import DEFAULT_LANGUAGE, LESSONS_FOLDER
from vitdemo.page import CSS, HEAD, THEME, build_page
from vitdemo.page.gradio_patches import session_id
from vitdemo.page.modules import build_app_options
from vitdemo.paths import expand_patterns
from vitdemo.runs.opened_model import add_timm_prefix, create_model_run, list_notices
from vitdemo.runs.timm_run import MODELS_VARIABLE
from vitdemo.training import choose_device
from vitdemo.training.devices import release_freed_memory

EXPORT_SITE = "export-site"  # command that writes a static site
MAX_QUEUED_REQUESTS = 500  # maximum number of waiting requests
# Libraries that are needed at the first visit of a tab, but not at the start of the page.
LATE_LIBRARIES = ("scipy.stats", "sklearn.metrics", "captum.attr")
MCP_MISSING_MESSAGE = (
    "--mcp needs the package mcp: install it with `pip install 'gradio[mcp]'`, or omit --mcp."
)
OPTIONS = {  # see `add_options`
    "--runs": (
        "folder that contains run folders; repeatable (default: the included runs, and the folder "
        "runs in the current folder)",
        {"action": "append", "metavar": "DIR"},
    ),
    "--model": (
        "also show a Vision Transformer: timm:NAME[=FILE], hf-hub:USER/NAME or local:PATH (see "
        "docs/models-and-api.md); repeatable (or list names, separated by commas, in the variable "
        "VITDEMO_MODELS)",
        REPEATABLE | {"metavar": "MODEL"},
    ),
    "--lessons": (
        "folder that contains your own lessons (see docs/teaching.md); repeatable",
        REPEATABLE | FOLDER,
    ),
    "--data": ("folder of the dataset (default: data in the current folder)", FOLDER),
    "--download": (
        "download a missing CIFAR-10 (170 MB) in the background (default: only in a Hugging Face "
        "Space; the page has a button)",
        {"action": argparse.BooleanOptionalAction},
    ),
    "--device": ("auto, cuda, mps or cpu (default: auto)", {"default": "auto"}),
    "--port": (
        "port to listen on (default: GRADIO_SERVER_PORT, or the first free port from 7860 on)",
        {"type": environment.parse_port},
    ),
    "--host": (
        "address to listen on (default: 127.0.0.1, only this computer; 0.0.0.0: all computers on "
        "the network)",
        {},
    ),
    "--root-path": (
        "path of the page behind a reverse proxy that removes this path, for example /vitdemo "
        "(default: GRADIO_ROOT_PATH)",
        {"metavar": "PATH"},
    ),
    "--allow-training": (
        "let all users start training runs on the page (default: only users of this computer)",
        FLAG,
    ),
    "--share": ("create a public link through gradio.live", FLAG),
    "--mcp": (
        "also offer the API to agents, as tools of an MCP server (see docs/models-and-api.md); "
        "needs the package mcp",
        FLAG,
    ),
}
PRELOAD_SECONDS = 5  # delay in seconds, so that the first page is not slowed down


def main(argv: list[str] | None = None) -> int:
    console.escape_unprintable()
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == [EXPORT_SITE]:
        from vitdemo.site.command import run  # the page does not need the files of a site

        return run(arguments[1:])
    args = build_parser().parse_args(argv)
    if args.mcp and importlib.util.find_spec("mcp") is None:
        print(f"{APP_NAME}: {MCP_MISSING_MESSAGE}", file=sys.stderr)
        return 2
    try:
        device = choose_device(args.device)
        named = [name.strip() for name in os.environ.get(MODELS_VARIABLE, "").split(",")]
        preset = [*map(add_timm_prefix, filter(None, named)), *args.model]
        timm_models = [create_model_run(text) for text in preset]
        for notice in list_notices(timm_models):
            print(f"{APP_NAME}: {notice}", file=sys.stderr)
    except VitdemoError as error:
        print(f"{APP_NAME}: {error}", file=sys.stderr)
        return 2
    roots = expand_patterns(args.runs or []) or [included_folder("runs"), Path("runs")]
    jobs = None
    alone = is_local_only(args)
    if args.allow_training or alone:
        jobs = JobQueue(roots[-1], args.data, device.type, for_all=args.allow_training)
        jobs.start_watching()
    release_freed_memory()
    truth = included_folder("ground_truth")
    context = AppContext(roots, args.data, device, timm_models, session_id, truth)
    lessons = [LESSONS_FOLDER / DEFAULT_LANGUAGE, *args.lessons]
    downloads = may_download(args)
    page = build_page(context, jobs, lessons, local_only=alone, downloads_dataset=downloads)
    page.queue(max_size=MAX_QUEUED_REQUESTS, api_open=False)  # requests cannot bypass the queue
    start_preloading()
    if args.host:
        environment.exclude_local_addresses(args.host)
    try:
        page.launch(
            theme=THEME,
            css_paths=CSS,
            head=HEAD,
            app_kwargs=build_app_options(),
            server_name=args.host,
            server_port=args.port,
            root_path=args.root_path,
            share=args.share or None,
            mcp_server=args.mcp or None,
            max_file_size="60mb",
            footer_links=[],  # the documentation of the API is at /?view=api
            run_history=False,
            ssr_mode=False,
            _frontend=False,  # otherwise, gradio stops if a busy machine needs over 3 s to respond
        )
    except OSError as error:  # for example, the port is already in use
        print(f"{APP_NAME}: {error}", file=sys.stderr)
        return 2
    return 0


def start_preloading() -> None:
    """Import `LATE_LIBRARIES` in the background, `PRELOAD_SECONDS` from now."""
    timer = threading.Timer(
        PRELOAD_SECONDS, lambda: [*map(importlib.import_module, LATE_LIBRARIES)]
    )
    timer.daemon = True
    timer.start()


def is_local_only(args: argparse.Namespace) -> bool:
    """Return whether arguments and environment bind the page to localhost."""
    host = args.host or os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1"
    shared = args.share or os.environ.get("GRADIO_SHARE", "").lower() in ("true", "1")
    root_path = args.root_path or os.environ.get("GRADIO_ROOT_PATH")
    passed_on = root_path or "SPACE_ID" in os.environ
    return host in ("127.0.0.1", "localhost", "::1") and not shared and not passed_on


def may_download(args: argparse.Namespace) -> bool:
    """Return whether the start of the page downloads a missing CIFAR-10.

    Without `--download` or `--no-download`, only a Space downloads it. A folder that the user names
    must exist, so that a typing error does not create a folder.
    """
    wanted = "SPACE_ID" in os.environ if args.download is None else args.download
    root = args.data or default_root()
    return wanted and (root == Path(DEFAULT_ROOT) or root.is_dir())


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=APP_NAME, description="Start the vitdemo web page.")
    add_options(parser, OPTIONS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
