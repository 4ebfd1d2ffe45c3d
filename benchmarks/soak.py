"""Whether a page that answers for long keeps its memory: thousands of new pictures, one after the
other from each of a few people.

    python benchmarks/soak.py --questions 5000

The memory is the server's resident set, asked each second, and of that the median over 500
answers: it goes up and down by 100 MB with what is just worked out. The first 500 fill what the
page keeps on purpose (512 MB of answers), so growth counts from the second 500.
benchmarks/LOG.md has what it measured.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from load import Person, picture, question  # noqa: E402

from tests.serving import serve  # noqa: E402

PEOPLE = 8
EACH = 500  # answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=5000, help=f"a multiple of {EACH}")
    parser.add_argument("--runs", type=Path, default=ROOT / "assets" / "runs")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        folder = {"GRADIO_TEMP_DIR": cache}
        with serve("--runs", str(args.runs.resolve()), variables=folder) as address:
            asyncio.run(soak(address, args.questions))
        files = [file for file in Path(cache).rglob("*") if file.is_file()]
        size = sum(file.stat().st_size for file in files) / 1e6
        print(f"{len(files):,} files of {size:.0f} MB in gradio's cache (an hour of them stays)")


async def soak(address: str, questions: int) -> None:
    """Print the memory of every `EACH` answers, and its growth since the second so many."""
    async with httpx.AsyncClient(base_url=address, timeout=120) as client:
        asked = await question(client)
        people = [Person(client, asked, number) for number in range(PEOPLE)]
        seeds, started = iter(range(questions)), time.monotonic()
        done, samples, levels = 0, [], {}

        async def watch() -> None:
            while done < questions:
                samples.append(memory())
                await asyncio.sleep(1)

        async def visit(person: Person) -> None:
            nonlocal done
            for seed in seeds:
                await person.ask(await asyncio.to_thread(picture, seed))
                done += 1
                if done % EACH == 0:
                    levels[done] = statistics.median(samples)
                    samples.clear()
                    seconds = time.monotonic() - started
                    print(f"{done:,} answers, {levels[done]:.0f} MB, {seconds:.0f} s", flush=True)

        await asyncio.gather(watch(), *map(visit, people))
        growth = levels[max(levels)] - levels[2 * EACH]
        print(f"memory grew by {growth:.0f} MB over the last {questions - 2 * EACH:,}")


def memory() -> float:
    """MB that the server, the one child of this process, has resident."""
    own = os.getpid()
    (child,) = Path(f"/proc/{own}/task/{own}/children").read_text().split()
    status = Path(f"/proc/{child}/status").read_text()
    kilobytes = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(kilobytes.split()[1]) / 2**10


if __name__ == "__main__":
    main()
