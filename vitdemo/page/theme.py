"""The style of the page: gradio's theme with our colours, and the style sheets."""

import functools
from pathlib import Path

import gradio as gr

FOLDER = Path(__file__).parent
PRINT_STYLESHEET = FOLDER / "print.css"
SAVED_VIEW_STYLESHEET = FOLDER / "saved_view" / "saved_view.css"

# System fonts: the page needs no web fonts, so it also loads without a network.
THEME = gr.themes.Soft(
    primary_hue="blue",
    neutral_hue="slate",
    font=["system-ui", "sans-serif"],
    font_mono=["ui-monospace", "monospace"],
).set(
    # Labels are small and grey, and controls have no boxes, so that the results stand out.
    block_title_background_fill="transparent",
    block_title_background_fill_dark="transparent",
    block_title_padding="0",
    block_title_text_color="*neutral_600",
    block_title_text_color_dark="*neutral_300",
    block_title_text_size="*text_sm",
    block_title_text_weight="500",
    block_info_text_color="*neutral_600",
    block_info_text_color_dark="*neutral_300",
    block_background_fill="transparent",
    block_background_fill_dark="transparent",
    block_shadow="none",
    block_shadow_dark="none",
    block_padding="4px 6px",
    body_text_color_subdued="*neutral_600",  # on all backgrounds, a contrast of at least 4.5
    body_text_color_subdued_dark="*neutral_300",
    link_text_color="*primary_700",
    link_text_color_dark="*primary_300",
    link_text_color_hover="*primary_800",
    link_text_color_hover_dark="*primary_200",
    link_text_color_active="*primary_700",
    link_text_color_active_dark="*primary_300",
    link_text_color_visited="*primary_700",
    link_text_color_visited_dark="*primary_300",
    input_background_fill_dark="*neutral_700",
    # White text on primary_500 has a contrast of only 3.7.
    button_primary_background_fill="*primary_600",
    button_primary_background_fill_hover="*primary_700",
    button_primary_background_fill_dark="*primary_600",
    button_primary_background_fill_hover_dark="*primary_700",
    checkbox_label_background_fill_selected="*primary_600",
    checkbox_label_background_fill_selected_dark="*primary_600",
    checkbox_border_color="*neutral_400",
    checkbox_border_color_dark="*neutral_400",
    checkbox_background_color_selected="*primary_600",
    checkbox_background_color_selected_dark="*primary_600",
)
# These files are loaded by the components in Python.
COMPONENT_STYLESHEETS = {
    FOLDER / "components" / f"{name}.css" for name in ("header", "offers", "run_choice", "run_list")
}
CSS = sorted(
    {*FOLDER.rglob("*.css")} - COMPONENT_STYLESHEETS - {PRINT_STYLESHEET, SAVED_VIEW_STYLESHEET}
)


@functools.cache
def build_style() -> str:
    """Return the style of a page without gradio: its theme, and all views."""
    sheets = [*CSS, SAVED_VIEW_STYLESHEET]
    return "\n".join([THEME._get_theme_css(), *(file.read_text("utf-8") for file in sheets)])
