"""See how a Vision Transformer learns and looks, on really trained models."""

__version__ = "0.1.0"
