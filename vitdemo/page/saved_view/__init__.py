"""One HTML file with the attention maps of one image, which needs no server: see `html.py`."""

TEXTS = {
    "title": "{run}: attention maps",
    "about": "Saved with vitdemo. Point at a patch, or click a head. This file needs no network.",
    "layer": "Layer",
    "layer_of": "{layer} of {layers}",
    "no_norms": "This file has no norm-weighted attention. Show it before you save the view.",
    "progress": "Writing the file",
    "file": "vitdemo-{run}-attention",
}
