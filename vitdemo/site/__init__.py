"""Views of the page in an HTML document without gradio: see `document.py`."""
