"""Run code in an event loop of its own.

Playwright's loop may already run in the thread of the tests, so the loop runs in another thread.
gradio opens two loops for each `gr.Blocks` that is built where no loop runs, and leaves them open.
"""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor


def run_coroutine(coroutine: Coroutine):
    """Return the result of `coroutine`."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def call_in_loop(function: Callable, *arguments, **options):
    """Return the result of `function` while a loop runs."""

    async def call():
        return function(*arguments, **options)

    return run_coroutine(call())
