"""Classes: how many pictures each has, which colours, and the mean picture of each."""

from collections.abc import Callable

import gradio as gr
import numpy as np

from vitdemo import figures
from vitdemo.explorer.dataset import Overview, Statistics
from vitdemo.figures.dataset import channel_plot
from vitdemo.page import html
from vitdemo.page.sections import Sections

SHOWN = 200  # classes with a mean picture; more would be a page of grey


def build(
    sections: Sections,
    *,
    absence: Callable[[], str],
    overview: Callable[[], Overview],
    statistics: Callable[[], Statistics],
) -> None:
    """Lay out the section, empty where `absence` says why there is no data set: the tab says it."""
    view = gr.HTML(elem_id="classes", apply_default_css=False)

    def draw():
        return "" if absence() else classes_html(overview(), statistics())

    sections.add("data-classes", draw, [], [view])


def classes_html(found: Overview, pixels: Statistics) -> str:
    return counts_html(found) + colours_html(pixels) + means_html(found, pixels)


def counts_html(found: Overview) -> str:
    """A bar a class for training and test pictures, on one scale each."""
    parts = {"Training": found.train, "Test": found.test}
    head = "".join(f'<th scope="col">{name} pictures</th>' for name in parts)
    rows = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th>'
        + "".join(f"<td>{bar(counts[i], counts)}</td>" for counts in parts.values())
        + "</tr>"
        for i, name in enumerate(found.classes)
    )
    sums = "".join(f"<td>{counts.sum():,}</td>" for counts in parts.values())
    link = html.csv_link(
        ("class", "train", "test"),
        list(zip(found.classes, found.train.tolist(), found.test.tolist(), strict=True)),
        "vitdemo-classes.csv",
    )
    return (
        f"<h2>{html.escape(found.name)}: {len(found.classes)} classes</h2>"
        f"<p>{html.escape(balance_words(found))}</p>"
        '<div class="vd-scroll"><table class="vd-table"><thead><tr><th scope="col">Class</th>'
        f'{head}</tr></thead><tbody>{rows}</tbody><tfoot><tr><th scope="row">All</th>{sums}'
        f"</tr></tfoot></table></div><p>{link}</p>"
    )


def bar(count: int, counts: np.ndarray) -> str:
    width = 100 * count / max(int(counts.max()), 1)
    share = 100 * count / max(int(counts.sum()), 1)
    return (
        f'<div class="vd-bar"><span class="vd-track"><i style="width: {width:.1f}%"></i></span>'
        f"<b>{count:,} ({share:.1f} %)</b></div>"
    )


def balance_words(found: Overview) -> str:
    """Whether a class has more to learn from than another."""
    fewest, most = int(found.train.min()), int(found.train.max())
    if fewest == most:
        return f"Every class has {most:,} training pictures: accuracy counts all classes alike."
    large, small = (found.classes[int(i)] for i in (found.train.argmax(), found.train.argmin()))
    return (
        f"Classes are unequal: '{large}' has {most:,} training pictures, '{small}' {fewest:,}. "
        "Accuracy is dominated by the large ones: look at the macro means too."
    )


def colours_html(pixels: Statistics) -> str:
    """The histograms of the channels, with their mean and standard deviation as a table."""
    of = f"{pixels.read:,} of {pixels.total:,}" if pixels.read < pixels.total else "all"
    rows = [
        (name, f"{mean:.4f}", f"{std:.4f}")
        for name, mean, std in zip(("red", "green", "blue"), pixels.mean, pixels.std, strict=True)
    ]
    levels = [(level, *map(int, counts)) for level, counts in enumerate(pixels.histograms.T)]
    link = html.csv_link(("level", "red", "green", "blue"), levels, "vitdemo-colours.csv")
    return (
        f"<h2>Colours of {of} training pictures</h2><div class='vd-plots'>"
        '<figure aria-label="Histogram of the red, green and blue levels">'
        f"<figcaption>How often each level occurs</figcaption>"
        f"{figures.svg(channel_plot(pixels.histograms))}</figure>"
        f"<div>{html.table(('Channel', 'Mean', 'Standard deviation'), rows)}"
        "<p>Levels from 0 (black) to 1. A model sees each level less its channel's mean, divided "
        f"by the standard deviation.</p><p>{link}</p></div></div>"
    )


def means_html(found: Overview, pixels: Statistics) -> str:
    """The mean picture of each class."""
    side = shown_side(pixels.means.shape[1])
    items = (
        html.figure(
            figures.enlarge(mean, side),
            f"Mean of the training pictures of {name}",
            name,
        )
        for name, mean in zip(found.classes[:SHOWN], pixels.means, strict=False)
    )
    return (
        "<h2>Mean picture of each class</h2><p>What is left when all pictures of a class are laid "
        "over each other: the usual background and place. A model that only compared with these "
        "would know little.</p>" + html.row(items, 110)
    )


def shown_side(side: int) -> int:
    """A whole multiple of `side` of 96 or more pixels."""
    return side * -(-96 // side)
