"""Proxy between a browser and a page that delays the response stream, as some networks do.

python tests/support/slow_stream.py http://127.0.0.1:7860 7999 0.3
"""

import asyncio
import sys

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route


def create_proxy(address: str, seconds: float) -> Starlette:
    """Create a proxy of `address` that delays its event stream by `seconds`."""
    client = httpx.AsyncClient(base_url=address, timeout=None, trust_env=False)

    async def forward(request: Request) -> StreamingResponse:
        headers = [(k, v) for k, v in request.headers.items() if k != "accept-encoding"]
        forwarded = client.build_request(
            request.method,
            f"{request.url.path}?{request.url.query}",
            headers=[*headers, ("accept-encoding", "identity")],
            content=await request.body(),
        )
        response = await client.send(forwarded, stream=True)
        dropped = ("content-length", "transfer-encoding", "connection")
        kept = {k: v for k, v in response.headers.items() if k not in dropped}
        delay = seconds if request.url.path.endswith("/queue/data") else 0
        return StreamingResponse(
            delay_stream(response, delay), status_code=response.status_code, headers=kept
        )

    return Starlette(routes=[Route("/{path:path}", forward, methods=["GET", "HEAD", "POST"])])


async def delay_stream(response: httpx.Response, seconds: float):
    """Yield the parts of `response`, each `seconds` after its arrival."""
    clock, parts = asyncio.get_running_loop().time, asyncio.Queue()

    async def read():
        async for part in response.aiter_raw():
            parts.put_nowait((clock(), part))
        parts.put_nowait((clock(), None))

    reader = asyncio.create_task(read())
    try:
        while True:
            arrival, part = await parts.get()
            await asyncio.sleep(max(0, arrival + seconds - clock()))
            if part is None:
                return
            yield part
    finally:
        reader.cancel()
        await response.aclose()


if __name__ == "__main__":
    address, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    options = {"log_level": "warning", "timeout_graceful_shutdown": 1}  # browsers stay connected
    uvicorn.run(create_proxy(address, seconds), host="127.0.0.1", port=port, **options)
