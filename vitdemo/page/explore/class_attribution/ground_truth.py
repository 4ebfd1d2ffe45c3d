"""The maps of a ground truth image compared with the correct map."""

import functools
from collections.abc import Collection

from vitdemo.analyses.class_attribution import ClassAttribution
from vitdemo.analyses.ground_truth import MeanShare, ShareSummary, read_shares, share_on_patches
from vitdemo.data.ground_truth import TASKS
from vitdemo.documents import Text
from vitdemo.documents.payload import blocks_to_json
from vitdemo.documents.table import Cell, Column, Table
from vitdemo.installation import included_folder
from vitdemo.metrics import DASH, format_signed_range
from vitdemo.page.components import ImageFile
from vitdemo.page.image_sources import ImageRequest, find_ground_truth

ABOUT_TRUTH = {
    "one-mark": "The class of these images is the shape of the red mark. The position and the "
    "size of the mark, the background and the other shapes give no information about the class.",
    "two-marks": "The class of these images is whether both red marks have the same shape. One "
    "mark alone gives no information about the class, and neither does the rest of the image.",
}
UNMARKED = (
    "On {images} other images, the model classifies {accuracy:.1%} correctly, and {unmarked:.1%} "
    "without the tokens of the marks ({classes} classes)."
)
CHANCE = "Chance: uniform map"
ABOUT_SHARE = (
    "Fraction of the map's positive weight that is on the patches of the marks, in percent. 100 is "
    "the correct map."
)


def describe_truth(maps: ClassAttribution, image: ImageRequest) -> dict:
    """Return the correct map of a ground truth image, and a document that compares the maps.

    {"patches": rows of booleans, "shares": {name: percentage}, "blocks": document}
    """
    truth = find_ground_truth(image.source)
    shares = {each.method.name: share_on_patches(each.values, truth.patches) for each in maps.maps}
    summary = read_shares(maps.run.path)
    blocks = [
        Text(f"{ABOUT_TRUTH[truth.task.name]} {describe_model(truth.task.name, summary)}".strip()),
        make_shares_table(maps, shares, float(truth.patches.mean()), summary),
        *([Text(text)] if (text := describe_failures(maps, summary)) else []),
    ]
    return {
        "patches": truth.patches.tolist(),
        "shares": {name: round(100 * share, 1) for name, share in shares.items()},
        "blocks": blocks_to_json(blocks, ImageFile),
    }


def describe_model(task: str, summary: ShareSummary | None) -> str:
    if summary is None:
        return ""
    return UNMARKED.format(
        images=summary.images,
        accuracy=summary.accuracy,
        unmarked=summary.unmarked_accuracy,
        classes=len(TASKS[task].classes),
    )


def make_shares_table(
    maps: ClassAttribution, shares: dict[str, float], chance: float, summary: ShareSummary | None
) -> Table:
    """Return the share of each map and of a uniform map, the highest share first."""
    columns = ["map", Column("this image, %", ABOUT_SHARE)]
    if summary:
        text = f"The mean over {summary.images} images, with a 95% bootstrap interval over images."
        columns.append(Column("mean, %", text))
    titles = {each.method.name: each.title for each in maps.maps}
    ranked = sorted({**shares, CHANCE: chance}.items(), key=lambda item: -item[1])
    rows = []
    for name, share in ranked:
        row = [titles.get(name, name), Cell(f"{100 * share:.0f}", bar=share)]
        rows.append([*row, *([format_mean(name, summary)] if summary else [])])
    return Table(columns, rows)


def format_mean(name: str, summary: ShareSummary) -> str:
    if name == CHANCE:
        return f"{100 * summary.chance:.0f}"
    if (own := summary.shares.get(name)) is None:
        return DASH
    mean, low, high = (f"{100 * each:.0f}" for each in (own.mean, own.low, own.high))
    return f"{mean} ({low} to {high})"


def describe_failures(maps: ClassAttribution, summary: ShareSummary | None) -> str:
    """Return sentences about the methods whose mean share is not above the chance level."""
    known = {each.method.name: each.method.title for each in maps.maps}
    failed = list_failed(summary, known) if summary else []
    return " ".join(
        f"The mean share of {known[name]} is not significantly above chance (95% interval of the "
        f"difference: {format_signed_range(100 * own.low_gain, 100 * own.high_gain)} points)."
        for name, own in failed
    )


def list_failed(summary: ShareSummary, names: Collection[str]) -> list[tuple[str, MeanShare]]:
    """Return the methods of `names` whose mean share is not significantly above chance."""
    found = summary.shares.items()
    return [(name, own) for name, own in found if name in names and not own.is_above_chance]


@functools.cache  # the files do not change while the page runs
def describe_failed_tests(name: str) -> str:
    """Return sentences about the ground truth tasks in which the method `name` fails, or ""."""
    sentences = []
    for task in TASKS.values():
        summary = read_shares(included_folder("ground_truth") / task.name)
        for _, own in list_failed(summary, [name]) if summary else []:
            mean, low, high = (f"{100 * each:.1f}%" for each in (own.mean, own.low, own.high))
            sentences.append(
                f" On {summary.images} ground truth images ({task.title.lower()}), {mean} of the "
                f"positive weight was on the correct patches (95% interval {low} to {high}). The "
                f"chance level was {100 * summary.chance:.1f}%."
            )
    return "".join(sentences)
