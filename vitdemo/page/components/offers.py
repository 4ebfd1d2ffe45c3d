"""Example images as thumbnails: included photos, ground truth images, and some test images.

    offers.others(handler, ...)    # the user wants other test images

The payload is {"photos": group or None, "unlike": group or None, "truth": group or None, "tests":
group or None, "sentence": str}. `unlike` are photos of classes that CIFAR-10 does not have. Each
group is {"sources": ["photo:cat", ...], "titles": [...], "sheet": file}. The sheet contains the
images of the group in one row. The group `truth` also has "models", the model of each image. If
there are no test images, the sentence is the reason.
"""

import gradio as gr
from gradio.events import EventListener

from vitdemo.page.components import View


class ExampleImages(View):
    """Example images; for the event `others`, see the module docstring."""

    EVENTS = (*gr.HTML.EVENTS, EventListener("others"))
