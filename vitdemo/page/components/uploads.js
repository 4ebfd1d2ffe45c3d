// Uploads of chosen files and folders.
import { MAX_FILE_BYTES } from "../generated.js";
import { fillPlural, UPLOAD_FAILED } from "../texts.js";

// Return the chosen files. The value is cleared so that the same files can be chosen again.
export function takeFiles(input) {
  const files = [...input.files];
  input.value = "";
  return files;
}

// Upload files with `upload` of gradio's component; `showMessage` shows the progress and problems. Return { files, paths }
// of the files that were small enough, or null after a failure.
export async function uploadFiles(files, upload, showMessage) {
  const small = files.filter((file) => file.size <= MAX_FILE_BYTES);
  if (small.length < files.length) showMessage(`Files larger than ${MAX_FILE_BYTES / 1e6} MB were skipped.`);
  const paths = [];
  for (const file of small) {
    showMessage(`Uploading file ${paths.length + 1} of ${small.length} …`);
    try {
      paths.push((await upload(file)).path);
    } catch {
      showMessage(UPLOAD_FAILED);
      return null;
    }
  }
  showMessage("");
  return { files: small, paths };
}

const droppedPaths = new WeakMap(); // path of each file in a dropped folder

const getPath = (file) => droppedPaths.get(file) ?? file.webkitRelativePath;

// Return whether the file or one of its folders is a system file. `names` are names of system files in lower case; the
// server applies the complete rule.
const isSystemFile = (file, names) =>
  (getPath(file) || file.name).split("/").some((name) =>
    /^(\.|~\$)/.test(name) || names.includes(name.toLowerCase())
  );

// Return the files without system files, or null if there are more than `limit`.
export function listFolderFiles(files, systemNames, limit, showMessage) {
  const shown = files.filter((file) => !isSystemFile(file, systemNames));
  if (shown.length <= limit) return shown;
  showMessage(
    fillPlural(
      shown.length,
      "There is {count} file, and the limit is {limit}. Choose fewer files.",
      "There are {count} files, and the limit is {limit}. Choose fewer files.",
      { limit },
    ),
  );
  return null;
}

// The folder of a file in a chosen or dropped folder, such as "pets/cat", or "". Its last part is the class.
export const getFolder = (file) => getPath(file).split("/").slice(0, -1).join("/");

const readEntries = (reader) => new Promise((resolve, reject) => reader.readEntries(resolve, reject));

// Files of a dropped file or folder. A folder is read in parts.
async function listEntryFiles(entry) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    droppedPaths.set(file, entry.fullPath.slice(1));
    return [file];
  }
  const [reader, found] = [entry.createReader(), []];
  for (let part; (part = await readEntries(reader)).length;) {
    for (const each of part) found.push(...await listEntryFiles(each));
  }
  return found;
}

// Return the dropped files, also those in dropped folders.
export async function listDroppedFiles({ items, files }) {
  const entries = [...items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...files];
  return (await Promise.all(entries.map(listEntryFiles))).flat();
}
