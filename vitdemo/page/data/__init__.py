"""The Data tab: sections about the dataset, one folder per section."""

from collections.abc import Mapping

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.page.data import augmentation, classes, patches, similar_images
from vitdemo.page.data.classes import examples
from vitdemo.page.feature import Payload, Task
from vitdemo.page.kit import Controls

SECTIONS = {  # section id -> title and module
    "data-classes": ("Classes", classes),
    "data-patches": ("Patches", patches),
    "data-augmentation": ("Augmentation", augmentation),
    "data-similar": ("Similar images", similar_images),
}
PAYLOADS: Mapping[str, Payload] = {
    part.VIEW: part.payload for part in (examples, classes, patches, augmentation)
} | similar_images.PAYLOADS
TASKS: Mapping[str, Task] = similar_images.TASKS


def build(context: AppContext, controls: Controls) -> None:
    """Lay out the tab, and add its controls to `controls`. The browser draws the views."""
    with gr.Tabs(elem_id="data-sections", overflow_behavior="wrap"):
        for name, (title, section) in SECTIONS.items():
            with gr.Tab(title, id=name):
                section.build(context, controls)
