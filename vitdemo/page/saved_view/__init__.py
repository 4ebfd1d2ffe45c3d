"""One HTML file with the attention maps of one image, which needs no server: see `html.py`."""

TEXTS = {
    "layer_of": "{layer} of {layers}",
    "no_norms": "This file has no norm-weighted attention. To include this map, show it before "
    "you save the view.",
}
