"""Page of gradio's own components, without vitdemo's workarounds.

python -m tests.support.plain_page --port 7999
"""

import argparse
import sys
import time

import gradio as gr

STYLES = """
body { color: rgb(0, 0, 1) }
@media (min-width: 1px) { body { color: rgb(0, 0, 2) } }
.outer { .inner { color: rgb(0, 0, 3) } .dark & { background: rgb(0, 0, 4) } }
"""
JS_UPDATE = "() => ({ __type__: 'update', value: 20 })"


def build_page() -> gr.Blocks:
    received = []

    def answer(event: gr.EventData) -> str:
        received.append(event._data["number"])
        time.sleep(0.5)  # so that the following events wait
        return " ".join(map(str, received))

    with gr.Blocks() as page:
        with gr.Tab("First"):
            gr.Radio(["a", "b"], label="Kind", elem_id="kind")
        sender = gr.HTML(html_template="<i>", js_on_load="window.ask = (n) => trigger('submit', n)")
        sender.submit(answer, None, gr.Textbox(elem_id="received"), trigger_mode="always_last")
        for name in ("one", "two"):
            button, text = gr.Button(name, elem_id=name), gr.Textbox(elem_id=f"{name}-text")
            button.click(lambda name=name: f"{name} arrived", None, text)
        update = gr.Button("Update", elem_id="update")
        with gr.Accordion("Fold", open=False, elem_id="fold"):
            slider = gr.Slider(0, 100, value=10, step=1, elem_id="slider", interactive=True)
        update.click(None, None, slider, js=JS_UPDATE)
        gr.HTML('<div class="outer"><p class="inner">text</p></div>')
    return page


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    port = parser.parse_known_args(argv)[0].port
    build_page().launch(server_port=port, ssr_mode=False, css=STYLES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
