"""Texts that the browser composes: `TEXTS` of each feature, which scripts import from texts.js.

A feature defines `TEXTS` in its module, or in a module `texts` of its folder. A text contains
placeholders, such as "Layer {layer}"; texts.js fills them in.
"""

from types import ModuleType

from vitdemo.page import gallery, header, saved_view
from vitdemo.page.components import offers, run_list
from vitdemo.page.components import texts as components
from vitdemo.page.custom_classes import texts as custom_classes
from vitdemo.page.data import download, similar_images
from vitdemo.page.data.classes import examples
from vitdemo.page.explore import class_attribution, image_input, perturbation, predictions
from vitdemo.page.explore.attention_maps import texts as attention_maps
from vitdemo.page.explore.inside import (
    architecture,
    head_ablation,
    logit_lens,
    one_head,
    positions,
    residual_stream,
)
from vitdemo.page.lessons import catalog, cost, handouts
from vitdemo.page.lessons.panel import texts as panel
from vitdemo.page.results import confusion_matrix, errors, per_class_metrics, test_set
from vitdemo.page.results.compare import latency, model_scatter, robustness
from vitdemo.page.training import curves, image_across_epochs, results, train_model

LANGUAGE = "en"  # language of all texts, whose plural rules select forms such as "images_one"
PAGE_TEXTS = {
    "png": "PNG",
    "save_figure": "Save this figure as PNG",
    "save_as_png": "Save as PNG: {name}",
    "stream_ended": "The response stream ended with HTTP status {status}. Reload the page.",
    "waits": "Waiting for the server …",
    "connection_lost": "Connection lost, trying again.",
    "interrupted": "The connection to the server was lost. Try again.",
    "busy_one": "The server is busy: {count} request is ahead of yours{wait}.",
    "busy_other": "The server is busy: {count} requests are ahead of yours{wait}.",
    "busy_next": "The server is busy: your request is next{wait}.",
    "busy_wait": " (about {seconds} s)",
}
MODULES: tuple[ModuleType, ...] = (
    *(architecture, attention_maps, catalog, class_attribution, confusion_matrix, cost, curves),
    *(custom_classes, download, errors, examples, gallery, handouts, head_ablation, header),
    *(image_across_epochs, image_input, latency, logit_lens, offers, one_head, panel),
    *(model_scatter, per_class_metrics, perturbation, positions, predictions),
    *(residual_stream, results, robustness, run_list, saved_view, similar_images, test_set),
    train_model,
)


# A feature is named after its module, or after the folder of its module `texts`.
TEXTS: dict[str, dict[str, str]] = {
    "page": PAGE_TEXTS,
    **components.TEXTS,
    **{m.__name__.removesuffix(".texts").rpartition(".")[2]: m.TEXTS for m in MODULES},
}
