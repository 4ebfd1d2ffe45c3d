"""The list "Published results": results of others with the same or a similar recipe."""

from collections.abc import Collection

from vitdemo.analyses.model_rows import model_rows
from vitdemo.analyses.published_results import PUBLISHED_RESULTS
from vitdemo.context import AppContext
from vitdemo.documents import Details, DocumentBlock, Heading, Text
from vitdemo.documents.table import Column, Table
from vitdemo.page.bridge import ViewState, add_view, document_payload

VIEW = "published_results"
PUBLISHED_INTRO = (
    "Results of others on CIFAR-10 with the same or a similar recipe. We did not verify "
    "them. Some authors selected the best epoch on the test set, which overestimates the "
    "accuracy."
)


def build() -> None:
    """Lay out the list, which the browser draws."""
    add_view(VIEW, elem_id="reported")


def payload(context: AppContext, state: ViewState) -> list:
    """Return the document of the published results, with the recipes of the runs first."""
    return document_payload(published_blocks({row.recipe for row in model_rows(context)}))


def published_blocks(known: Collection[str]) -> list[DocumentBlock]:
    """Return the table of published results, with the recipes `known` first."""
    header, rows = published_cells()
    rows = sorted(rows, key=lambda row: row[0] not in known)
    table = Table([Column(name, numeric=False) for name in header], rows)
    return [
        Heading("Published results"),
        Details(f"{len(rows)} results with sources", [Text(PUBLISHED_INTRO), table]),
    ]


def published_cells() -> tuple[list[str], list[list[str]]]:
    """Return the table of `PUBLISHED_RESULTS` as header and rows."""
    header = ["Recipe", "Published accuracy (%)", "Model and training", "Source"]
    rows = [
        [recipe, found.accuracy, found.description, found.source]
        for recipe, several in PUBLISHED_RESULTS.items()
        for found in several
    ]
    return header, rows
