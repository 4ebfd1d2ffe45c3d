"""Write a static site of recorded results: `python app.py export-site DIR`.

With `--single-file FILE.html`, the site of one model is one HTML file.
"""

import argparse
import sys

from vitdemo.cli.options import FILE, FLAG, FOLDER, REPEATABLE, add_options
from vitdemo.errors import VitdemoError
from vitdemo.installation import APP_NAME
from vitdemo.paths import expand_patterns
from vitdemo.site.export import export_single_file, export_site

DEFAULT_MODEL = "vit-scratch"
OPTIONS = {  # see `add_options`
    "folder": ("new or empty folder of the site", FOLDER | {"nargs": "?"}),
    "--single-file": ("write the site of one model as one HTML file, without DIR", FILE),
    "--model": (
        f"model of the single file (default: {DEFAULT_MODEL})",
        {"metavar": "NAME", "default": DEFAULT_MODEL},
    ),
    "--runs": (
        "folder that contains run folders; repeatable (default: the included runs)",
        REPEATABLE | {"metavar": "DIR"},
    ),
    "--force": ("replace DIR and all its content, or FILE", FLAG),
}


def run(argv: list[str]) -> int:
    """Run the command with its arguments `argv`, and return the exit status."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if (args.folder is None) == (args.single_file is None):
        parser.error("give either DIR or --single-file FILE")
    try:
        sentence = export_file(args) if args.single_file else export_folder(args)
    except (VitdemoError, OSError) as error:
        print(f"\n{APP_NAME}: {error}", file=sys.stderr)
        return 2
    print(file=sys.stderr)
    print(sentence)
    return 0


def export_folder(args: argparse.Namespace) -> str:
    """Write the folder of a site, and return a description of the result."""
    roots = expand_patterns(args.runs)
    sizes = export_site(args.folder, roots, force=args.force, report=show_progress)
    size = sum(sizes.values()) / 1e6
    return (
        f"{args.folder}: {len(sizes):,} files, {size:.1f} MB. Open it from any file server, for\n"
        f"example `python -m http.server --directory {args.folder}`."
    )


def export_file(args: argparse.Namespace) -> str:
    """Write a site as one file, and return a description of the result."""
    roots = expand_patterns(args.runs)
    size = export_single_file(
        args.single_file, args.model, roots, force=args.force, report=show_progress
    )
    return f"{args.single_file}: {size / 1e6:.1f} MB. Open it in a browser; it needs no server."


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{APP_NAME} export-site",
        description="Write a static site of recorded results, which needs no server program.",
    )
    add_options(parser, OPTIONS)
    return parser


def show_progress(view: str, done: int, total: int) -> None:
    print(f"\rRecording {view}: {done:,} of {total:,}".ljust(70), end="", file=sys.stderr)
