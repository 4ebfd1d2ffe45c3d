"""The head wall and the large map as HTML, with their words and numbers."""

from dataclasses import dataclass

import numpy as np

from vitdemo.explorer import Look, heads
from vitdemo.figures.maps import wall_picture
from vitdemo.ui import html
from vitdemo.ui.look.stage import legend, peak, percent, seen, stage

OWN, DISTANCE, ENTROPY = "own", "distance", "entropy"
ORDERS = [
    ("The model's own", OWN),
    ("Attention distance", DISTANCE),
    ("Entropy", ENTROPY),
]
RAW_LIMITS = (
    "Raw attention does not depend on the class and can mislead: it tells where this model mixes "
    "information, not why it chose a class."
)
ROLLOUT_LIMITS = (
    "Rollout does not depend on the class, knows nothing of what the tokens hold or of the layers' "
    "MLPs, and can mislead."
)


@dataclass(frozen=True)
class Question:
    """What is drawn: `token`'s row, or with `incoming` its column, of a source in a layer."""

    token: heads.Token
    source: str
    layer: int
    head: int
    incoming: bool


def wall_html(
    look: Look, maps: np.ndarray, question: Question, order: str, across: bool, vmax: float | None
) -> str:
    """All heads (L, H, rows, columns) as one picture under one button each, and their numbers."""
    L, H = maps.shape[:2]
    values = {DISTANCE: look.distances, ENTROPY: look.entropies}.get(order)
    places = heads.wall_order(values, (L, H), across=across)  # (L, H, 2)
    layers, numbers = places[..., 0] - 1, places[..., 1] - 1
    uri = html.png_uri(wall_picture(maps[layers, numbers], vmax=vmax))
    alt = f"{look.run.name}: the attention of all {H} heads of {L} layers, as thumbnails"
    chip = {(True, True): "{}·{}", (True, False): "{1}"}.get((values is not None, across), "")
    buttons = "".join(
        _thumbnail(look, maps, question, int(layer), int(head), chip)
        for layer, head in places.reshape(-1, 2)
    )
    labels = _row_labels(L, values is not None and across)
    return (
        f'<figure class="vd-wall" style="--layers: {L}; --heads: {H}">'
        f'{_column_labels(H, values is not None)}{labels}<div class="vd-heads" '
        f'style="{seen(look)}" data-tiles="{H} {L}" data-columns="{H}" role="group" '
        f'aria-label="Heads: choose one to see it large">'
        f'<img src="{uri}" alt="{html.escape(alt)}">{buttons}</div></figure>'
        f"{_wall_words(look, question, order, vmax)}{_numbers(look)}"
    )


def _thumbnail(
    look: Look, maps: np.ndarray, question: Question, layer: int, head: int, chip: str
) -> str:
    at = layer - 1, head - 1
    words = (
        f"Layer {layer}, head {head}: distance {look.distances[at]:.2f} patches, "
        f"entropy {look.entropies[at]:.2f} bits, brightest {percent(maps[at].max())}"
    )
    chosen = question.source == heads.HEAD and (layer, head) == (question.layer, question.head)
    text = f"<small>{chip.format(layer, head)}</small>" if chip else ""
    return (
        f'<button type="button" data-pick="{layer},{head}" aria-pressed="{str(chosen).lower()}" '
        f'aria-label="{words}" title="{words}">{text}</button>'
    )


def _column_labels(H: int, ordered: bool) -> str:
    if ordered:
        return '<div class="vd-tops vd-ends"><span>smallest</span><span>largest</span></div>'
    names = (
        f"<span>{'<i>head </i>' if head == 1 else ''}{head}</span>" for head in range(1, H + 1)
    )
    return f'<div class="vd-tops" aria-hidden="true">{"".join(names)}</div>'


def _row_labels(L: int, ordered: bool) -> str:
    names = ("" if ordered else f"layer {layer}" for layer in range(1, L + 1))
    spans = "".join(f"<span>{name}</span>" for name in names)
    return f'<div class="vd-sides" aria-hidden="true">{spans}</div>'


def _wall_words(look: Look, question: Question, order: str, vmax: float | None) -> str:
    name = html.escape(question.token.name)
    if question.incoming:
        what = f"bright patches are those that take most from {_the(name)}"
    else:
        what = f"bright patches are those that {_the(name)} {_verb(question)} most from"
    scale = (
        "Each thumbnail is scaled to its own brightest patch: compare shapes, not brightness."
        if vmax is None
        else f"All are on one scale, up to {percent(vmax)}."
    )
    sorts = {
        OWN: "",
        DISTANCE: " From heads that look near to heads that look far.",
        ENTROPY: " From heads that look at few places to heads that look at many.",
    }[order]
    return (
        f'<p class="vd-caption">One thumbnail for each head, one row for each layer: {what}. '
        f"{scale}{sorts} <small>{RAW_LIMITS}</small></p>"
    )


def _numbers(look: Look) -> str:
    """Distance and entropy of every head, folded away."""
    rows = [
        (f"layer {layer}, head {head}", f"{distance:.2f}", f"{entropy:.2f}")
        for layer, head, distance, entropy in heads.numbers(look)
    ]
    header = ("Head", "Attention distance (patches)", "Entropy (bits)")
    most = np.log2(look.attention.shape[-1])
    words = (
        "Attention distance: how far from itself a patch looks, on average, counted in patches. "
        "Entropy: over how many places attention is spread; 0 bits are one place, "
        f"{most:.1f} bits all {look.attention.shape[-1]} tokens alike."
    )
    return (
        '<details class="vd-numbers"><summary>Distance and entropy of every head</summary>'
        f"<p>{words}</p>{html.table(header, rows)}"
        f"{html.csv_link(header, rows, f'{look.run.name}-heads.csv')}</details>"
    )


def asked_html(look: Look, question: Question, vmax: float | None) -> str:
    """The large map under one button for each patch; the other tokens are buttons beside it."""
    asked = heads.ask(
        look,
        question.token,
        source=question.source,
        layer=question.layer,
        head=question.head,
        incoming=question.incoming,
    )
    if question.source != heads.HEAD:
        vmax = None  # the wall's scale is of single heads
    top = float(asked.patches.max()) if vmax is None else vmax
    alt = f"{look.run.name}: {_title(look, question)}, brightest {peak(asked.patches)}"
    cells = _cells(look, asked.patches, question.token)
    return (
        f'<div class="vd-asked"><h4>{html.escape(_title(look, question))}</h4>'
        f"{stage(look, asked.patches, alt, vmax=vmax, over=cells)}"
        f"{_others(look, asked.prefix, question.token)}{legend(top)}"
        f'<p class="vd-caption">{_asked_words(look, asked, question)}</p>'
        f"{html.number_grid(asked.patches, 'Numbers, in percent')}</div>"
    )


def _cells(look: Look, values: np.ndarray, token: heads.Token) -> str:
    """One transparent button for each patch, the chosen one outlined."""
    rows, columns = look.grid
    buttons = []
    for (i, j), value in np.ndenumerate(values):
        words = f"Patch in row {i + 1}, column {j + 1}: {percent(value)}"
        chosen = str(token.place == (i + 1, j + 1)).lower()
        buttons.append(
            f'<button type="button" data-pick="{i + 1},{j + 1}" aria-pressed="{chosen}" '
            f'aria-label="{words}" title="{words}"></button>'
        )
    return (
        f'<div class="vd-cells" style="--rows: {rows}; --columns: {columns}" '
        f'data-columns="{columns}" role="group" aria-label="Patches: choose one to ask it">'
        f"{''.join(buttons)}</div>"
    )


def _others(look: Look, prefix: np.ndarray, token: heads.Token) -> str:
    """Buttons for the tokens that are no patch, each with its share, and for all patches."""
    shares = [f" <b>{percent(share)}</b>" for share in prefix]
    together = heads.tokens_together(look)
    tokens = [*heads.prefix_tokens(look), *together]
    buttons = (
        f'<button type="button" data-pick="{other.code}" '
        f'aria-pressed="{str(other == token).lower()}">{html.escape(other.name)}{share}</button>'
        for other, share in zip(tokens, [*shares, *[""] * len(together)], strict=True)
    )
    return (
        f'<div class="vd-others" data-columns="{len(tokens)}" role="group" '
        f'aria-label="Tokens that are no patch">{"".join(buttons)}</div>'
    )


def _title(look: Look, question: Question) -> str:
    of = {
        heads.HEAD: f"layer {question.layer}, head {question.head}",
        heads.MEAN: f"layer {question.layer}, mean of {look.attention.shape[1]} heads",
        heads.ROLLOUT: f"rollout, {_layers(question.layer)}",
    }[question.source]
    name = _the(question.token.name)
    direction = f"who attends to {name}" if question.incoming else f"what {name} attends to"
    if question.token.several and not question.incoming:
        direction = f"what {name} attend to"
    return f"{direction[0].upper()}{direction[1:]}: {of}"


def _asked_words(look: Look, asked: heads.Asked, question: Question) -> str:
    """One sentence on what is drawn, and one on what it cannot say."""
    name, at = _the(question.token.name), peak(asked.patches)
    rolled = question.source == heads.ROLLOUT
    through = f"by layer {question.layer}" if rolled else f"in layer {question.layer}"
    if question.incoming:
        words = (
            f"How large a share of its attention each patch gives to {name} {through}, at most "
            f"{at}; these shares are of different patches and need not add up to 100 %."
        )
    else:
        share = percent(asked.patches.sum())
        rest = "; the rest is of the tokens named under the map" if len(asked.prefix) else ""
        words = (
            f"How much {name} {_verb(question)} from each patch {through}, at most {at}: the "
            f"patches together are {share} of its 100 %{rest}."
        )
        if rolled:
            words = words[:-1] + ", if attention alone moved information (heads averaged)."
    limits = ROLLOUT_LIMITS if rolled else RAW_LIMITS
    return f"{html.escape(words)} <small>{limits}</small>"


def _layers(last: int) -> str:
    return "layer 1" if last == 1 else f"layers 1 to {last}"


def _the(name: str) -> str:
    """The token's name inside a sentence."""
    plain = name.startswith(("the ", "all ", "both ", "register "))
    return name if plain else f"the {name}"


def _verb(question: Question) -> str:
    return "take" if question.token.several else "takes"
