"""One HTML file with the attention maps of one image, which needs no server: see `html.py`."""
