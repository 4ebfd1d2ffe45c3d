// The site's files by name. The name is a path: in the document's folder for "data/", and in that of the modules for "site/".
// A single file (single_file.py) contains all files as elements, compressed with gzip and encoded as base64.
const NOT_INCLUDED = "This file is incomplete. Copy or download it again.";
const INDEX = /^data\/(graphs\/)?[\w.]+\.json$/; // these files have the same names in each version of a site
const { isSingleFile, version } = JSON.parse(document.querySelector("#site").textContent);
const decoded = new Map(); // name -> promise of a Blob
const urls = new Map(); // name -> promise of the URL of a decoded file

async function decode(name) {
  const element = document.getElementById(name);
  if (!element) throw new Error(NOT_INCLUDED);
  const text = atob(element.textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const content = await new Response(stream).blob();
  element.remove(); // the text takes more memory than the file
  return content.slice(0, content.size, element.dataset.type);
}

function getBlob(name) {
  if (!decoded.has(name)) decoded.set(name, decode(name));
  return decoded.get(name);
}

// Return a promise of the URL of the file `name`. The URL is absolute, because style sheets and workers have other folders.
export async function locate(name) {
  if (isSingleFile) {
    if (!urls.has(name)) urls.set(name, getBlob(name).then((blob) => URL.createObjectURL(blob)));
    return await urls.get(name);
  }
  if (!name.startsWith("data/")) return new URL(`../${name}`, import.meta.url).href;
  return new URL(INDEX.test(name) ? `${name}?v=${version}` : name, document.baseURI).href;
}

// Return a promise of the files `names` for the worker, as URLs or as Blobs, by name. A worker of a page from the disk has
// another origin than the page, so it cannot read the page's URLs.
export async function openFiles(names) {
  const open = isSingleFile ? getBlob : locate;
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, await open(name)])));
}

// Start the worker whose module has the name `name`. From the disk, Chromium runs such a worker only from a data URL.
export async function startModuleWorker(name) {
  const url = isSingleFile
    ? `data:text/javascript,${encodeURIComponent(await (await getBlob(name)).text())}`
    : await locate(name);
  return new Worker(url, { type: "module" });
}
