"""A user's own test sets: images, evaluation of models, and comparison with the original."""
