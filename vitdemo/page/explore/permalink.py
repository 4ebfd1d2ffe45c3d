"""Button that copies a link to the current view, such as `?model=vit-scratch&picture=test:17`.

`store.js` reads and writes the URL.
"""

import gradio as gr

COPY_FAILED = "not copied"
JS_COPY_LINK = """async () => {
  try {
    await navigator.clipboard.writeText(window.location.href);
  } catch { // without HTTPS there is no clipboard
    return ["NOT_COPIED"];
  }
  const { store } = await vitdemo.loaded;
  return [store.state.image?.source === "own" ? "own" : ""];
}""".replace("NOT_COPIED", COPY_FAILED)


def report_copy(said: str) -> None:
    """Show a message that the link was copied, or that the browser blocked copying.

    If `said` is "own", the message adds that the link does not contain the user's photo.
    """
    if said == COPY_FAILED:
        gr.Warning(
            "The browser blocked copying (it requires HTTPS). Copy the link from the address bar."
        )
        return
    missing = " It does not contain your photo but opens with the first image." if said else ""
    gr.Info(f"Link copied.{missing}")
