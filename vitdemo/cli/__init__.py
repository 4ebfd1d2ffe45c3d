"""Programs of the command line: `app` (the command `vitdemo`) and `train` (`vitdemo-train`)."""
