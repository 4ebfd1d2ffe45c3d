"""Train, resume, evaluate or report from a checkout. See `vitdemo/cli/train.py`."""

from vitdemo.cli.train import exit_process, main

if __name__ == "__main__":
    exit_process(main())
