"""Files for the use of a site without a network. `tests/browser` runs the service worker."""

import hashlib
import json
import shutil

from PIL import Image

from vitdemo.site import document, offline


def read_list(folder) -> dict:
    return json.loads((folder / "offline.json").read_bytes())


def test_the_list_contains_each_file_with_its_size_and_hash(exported_site):
    files = {url.partition("?")[0]: rest for url, *rest in read_list(exported_site)["files"]}
    names = {*offline.list_names(exported_site)} - {"offline.json", "service-worker.js"}
    assert {*files} == names - {"index.html"} | {"./"}
    for name, (size, digest) in files.items():
        content = (exported_site / name.replace("./", "index.html")).read_bytes()
        assert size == len(content)
        assert hashlib.sha256(content).hexdigest().startswith(digest)


def test_the_shell_the_runtime_and_the_first_model_come_first(exported_site):
    content = read_list(exported_site)
    urls = [url.partition("?")[0] for url, *_ in content["files"]]
    shell, rest = urls[: content["shell"]], urls[content["shell"] :]
    modules = {f"files/{document.VERSION}/{path}" for path in document.FILES}
    assert {*shell} >= modules | {"./", "manifest.json", "data/attention.json"}
    vendor = [i for i, url in enumerate(rest) if "/site/vendor/" in url]
    assert vendor == list(range(len(document.read_runtime())))
    entries = json.loads((exported_site / "data/graphs/predictions.json").read_bytes())
    graphs = {
        each["run"]: f"data/graphs/{each['file']}"
        for entry in entries.values()
        for each in entry["graphs"]
    }
    first = min(graphs, key=lambda run: rest.index(graphs[run]))
    answers = json.loads((exported_site / "data/layer_by_layer.json").read_bytes())
    early, late = {graphs.pop(first)}, {*graphs.values()}
    for state, name in answers.items():
        (early if json.loads(state)[1] == first else late).add(f"data/answers/{name}")
    assert max(map(rest.index, early)) < min(map(rest.index, late))


def test_only_names_that_other_versions_share_have_the_version(exported_site):
    content = read_list(exported_site)
    versioned = {url for url, *_ in content["files"] if "?" in url}
    indexes = {path for path in exported_site.glob("data/*.json")}
    indexes |= {*exported_site.glob("data/graphs/*.json")}
    assert versioned == {
        f"{path.relative_to(exported_site).as_posix()}?v={content['version']}" for path in indexes
    }
    script = (exported_site / "service-worker.js").read_text("utf-8")
    assert f'"offline.json?v={content["version"]}"' in script


def test_another_content_is_another_version(exported_site, tmp_path):
    folder = tmp_path / "copy"
    folder.mkdir()
    shutil.copy(exported_site / "manifest.json", folder)
    before = offline.hash_site(folder, ["layout"])
    assert offline.hash_site(folder, ["layout"]) == before
    assert offline.hash_site(folder, ["another layout"]) != before
    (folder / "manifest.json").write_text("{}")
    assert offline.hash_site(folder, ["layout"]) != before


def test_the_manifest_names_its_icons(exported_site):
    manifest = json.loads((exported_site / "manifest.json").read_bytes())
    assert manifest["start_url"] == manifest["scope"] == "./"  # under any path prefix
    for icon in manifest["icons"]:
        with Image.open(exported_site / icon["src"]) as image:
            assert "x".join(map(str, image.size)) == icon["sizes"]
