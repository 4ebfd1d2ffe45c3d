"""A table of words to take along, as CSV and as Markdown."""

from vitdemo.explorer.compare import markdown
from vitdemo.page import html


def exports(header: list[str], texts: list[list[str]], name: str) -> str:
    """Links that save the table as `name`, as CSV and as Markdown."""
    text = markdown(header, texts)
    return (
        html.csv_link(header, texts, f"{name}.csv")
        + " "
        + html.download_link(text, "text/markdown", f"{name}.md", "Download Markdown")
    )
