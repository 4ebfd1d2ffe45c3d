"""The list "Published results": results of other authors with the same or a similar recipe."""

from collections.abc import Collection

from vitdemo.analyses.model_rows import model_rows
from vitdemo.analyses.published_results import PUBLISHED_RESULTS
from vitdemo.context import AppContext
from vitdemo.documents import Details, DocumentBlock, Heading, Text
from vitdemo.documents.table import Column, Table
from vitdemo.page.bridge import document_payload
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs

VIEW = "published_results"
PUBLISHED_INTRO = (
    "Published results on CIFAR-10 with the same or a similar recipe. We did not verify these "
    "results. Some authors selected the best epoch on the test set, which overestimates the "
    "accuracy."
)


@needs()
def payload(context: AppContext, state: ViewState) -> list:
    return document_payload(published_blocks({row.recipe for row in model_rows(context)}))


FEATURE = Feature({VIEW: payload})


def published_blocks(known: Collection[str]) -> list[DocumentBlock]:
    rows = [
        [recipe, found.accuracy, found.description, found.source]
        for recipe, several in PUBLISHED_RESULTS.items()
        for found in several
    ]
    rows.sort(key=lambda row: row[0] not in known)
    header = ("Recipe", "Published accuracy (%)", "Model and training", "Source")
    table = Table([Column(name, numeric=False) for name in header], rows)
    return [
        Heading("Published results"),
        Details(f"{len(rows)} results with sources", [Text(PUBLISHED_INTRO), table]),
    ]
