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

// Return whether the file or one of its folders is a system file. `names` are names of system files in lower case; the
// server applies the complete rule.
const isSystemFile = ({ webkitRelativePath }, names) =>
  webkitRelativePath.split("/").some((name) => /^(\.|~\$)/.test(name) || names.includes(name.toLowerCase()));

// Return the files of a chosen folder without system files, or null if there are more than `limit`.
export function listFolderFiles(files, systemNames, limit, showMessage) {
  const shown = files.filter((file) => !isSystemFile(file, systemNames));
  if (shown.length <= limit) return shown;
  showMessage(
    fillPlural(
      shown.length,
      "The folder has {count} file, and the limit is {limit}. Choose a smaller folder.",
      "The folder has {count} files, and the limit is {limit}. Choose a smaller folder.",
      { limit },
    ),
  );
  return null;
}

// The folder of a file in a chosen folder, such as "pets/cat". Its last part is the class.
export const getFolder = ({ webkitRelativePath }) => webkitRelativePath.split("/").slice(0, -1).join("/");
