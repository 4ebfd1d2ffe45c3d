"""Start the web page from a checkout or in a Space: `python app.py`. See `vitdemo/cli/app.py`."""

import sys

from vitdemo.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
