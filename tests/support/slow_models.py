"""Start the page of `app.py` with a random delay before each response, as on a busy server.

A browser that sends the header `SEED_HEADER` gets the same sequence of delays for the same seed.
Other browsers get no delay.

python -m tests.support.slow_models --port 7999
"""

import asyncio
import random
import sys

import gradio as gr

import app

SEED_HEADER = "vitdemo-delays"
MAX_SECONDS = 0.6


def delay_responses() -> None:
    """Make all pages of this process wait up to `MAX_SECONDS` before they run a handler."""
    process_api = gr.Blocks.process_api
    delays: dict[str, random.Random] = {}  # random generators by seed

    async def process_later(self, block_fn, inputs, state=None, request=None, *more, **options):
        headers = getattr(request, "headers", None) or {}
        if seed := headers.get(SEED_HEADER):
            delay = delays.setdefault(seed, random.Random(seed))
            await asyncio.sleep(delay.uniform(0, MAX_SECONDS))
        return await process_api(self, block_fn, inputs, state, request, *more, **options)

    gr.Blocks.process_api = process_later


def main(argv: list[str] | None = None) -> int:
    delay_responses()
    return app.main(argv)


if __name__ == "__main__":
    sys.exit(main())
