"""The Data tab: sections about the dataset, one folder per section."""

import gradio as gr

from vitdemo.page.bridge import add_view
from vitdemo.page.data import augmentation, classes, similar_images
from vitdemo.page.data.classes import examples
from vitdemo.page.feature import Feature, PageSetup, merge_features

TAB_ID, TITLE = "data", "Data"
SECTIONS = {  # section id -> title and module
    "data-classes": ("Classes", classes),
    "data-augmentation": ("Augmentation", augmentation),
    "data-similar": ("Similar images", similar_images),
}
FEATURE = merge_features(part.FEATURE for part in (examples, classes, augmentation, similar_images))


def build(setup: PageSetup) -> Feature:
    """Lay out the tab, and add its controls to `setup.controls`. The browser draws the views."""
    add_view("export_menu", elem_id="data-export")
    with gr.Tabs(elem_id="data-sections", overflow_behavior="wrap"):
        for name, (title, section) in SECTIONS.items():
            with gr.Tab(title, id=name):
                section.build(setup)
    return FEATURE
