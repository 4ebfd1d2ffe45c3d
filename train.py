"""Train, resume, evaluate or report from a checkout. See `vitdemo/cli/train.py`."""

from vitdemo.cli.train import run

if __name__ == "__main__":
    run()
