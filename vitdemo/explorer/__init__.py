"""Numbers of single tabs, on their way into the rooms of these tabs."""
