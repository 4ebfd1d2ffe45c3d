"""Views and controls of the page in an HTML document without gradio: see `document.py`."""
