"""See how trained Vision Transformers learn, and what they attend to."""

__version__ = "0.1.0"
