"""Write a static site of recorded results: `python app.py export-site DIR`."""

import argparse
import sys

from vitdemo.cli.options import FLAG, FOLDER, REPEATABLE, add_options
from vitdemo.errors import VitdemoError
from vitdemo.installation import APP_NAME
from vitdemo.paths import expand_patterns
from vitdemo.site.export import export_site

OPTIONS = {  # see `add_options`
    "folder": ("new or empty folder", FOLDER),
    "--runs": (
        "folder that contains run folders; repeatable (default: the included runs)",
        REPEATABLE | {"metavar": "DIR"},
    ),
    "--force": ("replace DIR and all its content", FLAG),
}


def run(argv: list[str]) -> int:
    """Run the command with its arguments `argv`, and return the exit status."""
    args = build_parser().parse_args(argv)
    try:
        sizes = export_site(
            args.folder, expand_patterns(args.runs), force=args.force, report=show_progress
        )
    except (VitdemoError, OSError) as error:
        print(f"{APP_NAME}: {error}", file=sys.stderr)
        return 2
    finally:
        print(file=sys.stderr)
    size = sum(sizes.values()) / 1e6
    print(f"{args.folder}: {len(sizes):,} files, {size:.1f} MB. Open it from any file server, for")
    print(f"example `python -m http.server --directory {args.folder}`.")
    return 0


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{APP_NAME} export-site",
        description="Write a static site of recorded results, which needs no server program.",
    )
    add_options(parser, OPTIONS)
    return parser


def show_progress(view: str, done: int, total: int) -> None:
    print(f"\rRecording {view}: {done:,} of {total:,}".ljust(70), end="", file=sys.stderr)
