"""Texts of the shared scripts that have no Python module, by the name of the script."""

TEXTS: dict[str, dict[str, str]] = {
    "shared": {
        "download_csv": "Download CSV",
        "camera_blocked": "The browser blocks the camera, because it requires HTTPS or localhost. "
        "Upload a photo instead.",
        "camera_denied": "Access to the camera was denied. Allow it in the browser settings.",
        "camera_missing": "No camera was found. Upload a photo instead.",
    },
    "matrices": {
        "not_loaded": "The attention weights could not be loaded (HTTP status {status}). Reload "
        "the page.",
        "damaged": "The file of attention weights is damaged. Reload the page.",
        "named_token": "the {token}",
        "both_tokens": "both tokens together",
        "mean_of_patches": "mean of the patches",
        "patch": "the patch in row {row}, column {column}",
    },
    "documents": {"change": "change"},
    "maps": {
        "in_percent": "Values are in percent.",
        "in_percent_of_largest": "Values are in percent of the largest absolute value.",
        "numbers": "Numbers",
        "own_maximum": "the map's own maximum",
        "svg": "SVG",
        "save_as_svg": "Save as SVG: {name}",
    },
    "no_model": {
        "title": "No trained model",
        "purpose": "Attention maps, test results and learning curves appear after a training run.",
        "train": "Train a model",
        "pretrained": "You can also add a pretrained model under 'More models'.",
    },
    "pictures": {"values": "Values"},
    "table": {
        "copy": "Copy as Markdown",
        "copied": "Copied.",
        "saved": "Saved as {file}.",
        "explanation": "Explanation of the columns",
        "show": "Show {rows}",
        "hide": "Hide {rows}",
        "low_end": "{column}, low",
        "high_end": "{column}, high",
    },
    "grid": {"about": "About"},
    "task_panel": {
        "waiting": "Waiting for the server",
        "done": "{done} of {total} {unit}",
        "steps": "steps",
        "seconds": "{seconds} s",
        "cancel": "Cancel",
        "stopping": "Stopping …",
    },
    "task_rows": {
        "confirm": "Delete the run folder permanently?",
        "delete": "Delete",
        "delete_task": "Delete {task} permanently",
        "keep_task": "Do not delete {task}",
        "progress": "Progress of {task}",
    },
    "uploads": {
        "too_large": "Files larger than {megabytes} MB were skipped.",
        "too_many_one": "The folder has {count} file, and the limit is {limit}. Choose a "
        "smaller folder.",
        "too_many_other": "The folder has {count} files, and the limit is {limit}. Choose a "
        "smaller folder.",
        "uploading": "Uploading file {file} of {files} …",
        "upload_failed": "The upload failed: the server does not respond, or its disk is full. No "
        "files were added. Try again later.",
    },
    "line_plots": {
        "training": "training",
        "validation": "validation",
        "epoch": "{run} (epoch {epoch})",
        "show_values": "Show values at {x}",
    },
}
