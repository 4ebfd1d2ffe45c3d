"""The page: `build_page` composes the tabs, one file each, and nothing else."""

from functools import partial
from pathlib import Path

import gradio as gr

from vitdemo.explorer import Explorer, augmented, dataset, features, hands, inside, why
from vitdemo.explorer import errors as choices
from vitdemo.explorer import metrics as explorer_metrics
from vitdemo.explorer.calibration import calibration as calibration_by_name
from vitdemo.explorer.compare import latency, model_rows, sample_size, trained_rows
from vitdemo.explorer.export import save_maps
from vitdemo.explorer.ingredients import ablation, bases
from vitdemo.explorer.patches import embed
from vitdemo.explorer.robustness import measure
from vitdemo.explorer.side import side_by_side
from vitdemo.page import (
    api,
    calibration,
    compare,
    confusion,
    data,
    errors,
    header,
    look,
    metrics,
    progress,
    tabs,
)
from vitdemo.page.components import FOLDER as COMPONENTS
from vitdemo.page.components import head_script

# System fonts: the page is whole without a network.
THEME = gr.themes.Soft(
    primary_hue="blue",
    neutral_hue="slate",
    font=["system-ui", "sans-serif"],
    font_mono=["ui-monospace", "monospace"],
)
# Each tab may bring its own, beside its code.
CSS = sorted({*Path(__file__).parent.rglob("*.css")} - {*COMPONENTS.glob("*.css")})
JS = (Path(__file__).parent / "page.js").read_text(encoding="utf-8")
PAGE_WIDE = [Path(__file__).parent / name for name in ("stream.js", "readout.js", "names.js")]
SCRIPTS = [*(file.read_text(encoding="utf-8") for file in PAGE_WIDE), head_script()]
HEAD = "".join(f"<script>{script}</script>" for script in SCRIPTS)


def build_page(explorer: Explorer) -> gr.Blocks:
    """The whole page over `explorer`; `launch` takes THEME, CSS (paths), JS and HEAD."""
    with gr.Blocks(title="vitdemo", delete_cache=(3600, 3600), fill_width=True) as page:
        header.build(page, runs=explorer.everything, roots=explorer.roots, device=explorer.device)
        with gr.Tabs(elem_id="tabs", overflow_behavior="wrap") as page_tabs:
            with gr.Tab("Look", id="look"):
                opener = look.build(
                    page,
                    page_tabs,
                    explained_runs=explorer.explained_runs,
                    answers=explorer.answers,
                    look=lambda name, image: explorer.look(explorer.run(name), image),
                    layers=lambda name: explorer.layers(explorer.run(name)),
                    first_source=lambda name: why.first_source(explorer, explorer.run(name)),
                    save_maps=partial(save_maps, explorer),
                    side_by_side=partial(side_by_side, explorer),
                    test_picture=explorer.test_picture,
                    test_size=explorer.test_size,
                    hands_on={
                        "canvas": partial(hands.canvas, explorer),
                        "shifts": partial(hands.shifts, explorer),
                        "grid_of": lambda name: hands.grid_of(explorer, explorer.run(name)),
                    },
                    inside_of=inside.by_name(explorer),
                    why_this={
                        "maps": lambda name, *asked, **options: why.maps(
                            explorer, explorer.run(name), *asked, **options
                        ),
                        "truth": partial(why.truth, explorer),
                    },
                )
            with gr.Tab("Training progress", id="training") as tab:
                progress.build(tab, runs=explorer.runs)
            with gr.Tab("Per-class metrics", id="metrics") as tab:
                metrics.build(
                    tab,
                    evaluated_runs=explorer.evaluated_runs,
                    class_table=partial(explorer_metrics.class_table, explorer),
                    paired_test=partial(explorer_metrics.paired_test, explorer),
                    ranking=partial(explorer_metrics.ranking, explorer),
                )
            with gr.Tab("Confusion matrix", id="confusion") as tab:
                confusion.build(
                    tab,
                    evaluated_runs=explorer.evaluated_runs,
                    predictions=partial(choices.predictions, explorer),
                    find=partial(choices.find, explorer),
                    pictures=partial(choices.pictures, explorer),
                    opener=opener,
                )
            with gr.Tab("Errors", id="errors") as tab:
                errors.build(
                    tab,
                    evaluated_runs=explorer.evaluated_runs,
                    predictions=partial(choices.panel, explorer),
                    counts=partial(choices.counts, explorer),
                    find=partial(choices.find, explorer),
                    pictures=partial(choices.pictures, explorer),
                    opener=opener,
                )
            with gr.Tab("Calibration", id="calibration") as tab:
                calibration.build(
                    tab,
                    evaluated_runs=explorer.evaluated_runs,
                    calibration=partial(calibration_by_name, explorer),
                )
            with gr.Tab("Compare models", id="compare") as tab:
                compare.build(
                    tab,
                    model_rows=partial(model_rows, explorer),
                    trained_runs=partial(trained_rows, explorer),
                    latency=partial(latency, explorer),
                    beside={
                        "tested": partial(bases, explorer),
                        "ablation": partial(ablation, explorer),
                    },
                    changed={
                        "measure": partial(measure, explorer),
                        "sample_size": partial(sample_size, explorer),
                    },
                )
            with gr.Tab("Data", id="data") as tab:
                data.build(
                    tab,
                    absence=partial(dataset.absence, explorer),
                    downloadable=partial(dataset.downloadable, explorer),
                    download=partial(dataset.download, explorer),
                    sections=lambda: [
                        data.classes.build(
                            absence=partial(dataset.absence, explorer),
                            overview=partial(dataset.overview, explorer),
                            statistics=partial(dataset.statistics, explorer),
                        ),
                        data.patches.build(
                            opener.picture,
                            explained_runs=explorer.explained_runs,
                            embed=lambda name, image: embed(explorer, explorer.run(name), image),
                        ),
                        data.augmentation.build(
                            opener.picture,
                            trained_runs=explorer.trained_runs,
                            augment=partial(augmented.live, explorer),
                        ),
                        data.similar.build(
                            opener,
                            trained_runs=explorer.trained_runs,
                            planes=partial(features.planes, explorer),
                            neighbours=partial(features.neighbours, explorer),
                        ),
                    ],
                )
        tabs.remember(page, page_tabs)
        api.build(explorer)
    return page
