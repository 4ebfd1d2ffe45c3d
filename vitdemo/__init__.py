"""See how trained Vision Transformers learn, and what they attend to."""

__version__ = "0.1.0"

_NOTEBOOK_FUNCTIONS = (
    *("attribute", "best_order", "explore", "faithfulness", "fewest_patches"),
    *("ground_truth", "map_checks", "patch_colours", "patching", "rollout", "sinks", "trace"),
)


def __getattr__(name: str):
    """Return a function of `vitdemo.notebook`, which imports torch at its first use."""
    if name not in _NOTEBOOK_FUNCTIONS:
        raise AttributeError(f"module 'vitdemo' has no attribute '{name}'")
    from vitdemo import notebook

    return getattr(notebook, name)
