"""Reads a running page by HTTP without a browser: its scripts and the data of its views."""

import json
import re
import uuid

import httpx

API = "gradio_api"


def read_script(address: str, name: str) -> str:
    """Return the module `name` of the page."""
    with httpx.Client(base_url=address, timeout=60, follow_redirects=True) as client:
        page = client.get("").raise_for_status().text
        path = re.search(r"modules/\w+/", page)[0]
        return client.get(path + name).raise_for_status().text


def read_views(address: str, *views: str, **state: str) -> dict:
    """Return the data of `views` for a state, as the browser requests them."""
    with httpx.Client(base_url=address, timeout=60) as client:
        config = client.get("config").raise_for_status().json()
        components = {part["props"].get("elem_id"): part["id"] for part in config["components"]}
        ask = [components["bridge"], "ask"]
        event = next(d["id"] for d in config["dependencies"] if ask in d["targets"])
        session, state = uuid.uuid4().hex, {"model": "", **state}
        request = {"id": 1, "views": dict.fromkeys(views, "key"), "state": state}
        body = {"data": [], "fn_index": event, "event_data": request, "session_hash": session}
        client.post(f"{API}/queue/join", json=body).raise_for_status()
        with client.stream("GET", f"{API}/queue/data?session_hash={session}") as stream:
            lines = (json.loads(line[5:]) for line in stream.iter_lines() if line[:5] == "data:")
            message = next(line for line in lines if line["msg"] == "process_completed")
    assert message["success"], message
    found = json.loads(message["output"]["data"][0]["text"])["views"]
    assert not any(view.get("error") for view in found.values()), found
    return {name: view["data"] for name, view in found.items()}
