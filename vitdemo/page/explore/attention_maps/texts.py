"""All texts of the section "Attention"."""

ABOUT_TITLE = "About these maps"
ABOUT = (
    "A Vision Transformer cuts the image into **patches**, and most models add a **class token**, "
    "from which the class is predicted. In each **layer**, several **attention heads** compute "
    "how much each token attends to every other token. The grid shows all heads, one row per "
    "layer, and the large map shows the chosen head. Bright patches have large attention weights. "
    "The weight of the class token is written below the map.\n\nA map of one layer shows what the "
    "token reads in this layer only. **Norm-weighted attention** shows how much of each token is "
    "passed on: the norm of the attention weight times the transformed value (Kobayashi et al. "
    "2020). **Attention rollout** multiplies the attention of all layers (Abnar & Zuidema 2020). "
    "**Similar tokens** compares the tokens after a layer. If the maps were tested, the view "
    "starts with the map and layer that have the highest mean faithfulness score.\n\nA few "
    "patches with most of the attention may be **attention sinks**, which receive attention "
    "independently of their content (Xiao et al. 2024). Test the influence of these patches in "
    "*Change the image*. Some models also have **high-norm artefacts**: tokens with a very large "
    "norm and information about the whole image (Darcet et al. 2024). Raw attention and rollout "
    "do not depend on the class and can mislead. *Why this class?* measures how faithful each map "
    "is."
)
# Parts of the description of rollout settings, such as " (max of the heads, 10% discarded)".
ROLLOUT_FUSION = "{fusion} of the heads"
ROLLOUT_DISCARD = "{percent:g}% discarded"
ROLLOUT_NO_RESIDUAL = "no residual"

TEXTS = {
    # The controls
    "source_head": "head {head}",
    "source_norm_head": "norm-weighted, head {head}",
    "display": "Display",
    "rollout_settings": "Settings",
    "percent": "{percent}%",
    "colour_kind": "{scale} scale",
    "at_most": "≤ {value}",
    "save_map": "Save map as {format}",
    "save_heads": "Save all heads as {format}",
    "save_page": "Save as interactive page",
    "copy_code": "Copy as Python",
    "code_copied": "The code is copied.",
    "code_saved": "The browser blocked copying (it requires HTTPS). The code is saved as {file}.",
    "file_model": "Model {run}, {rows} × {columns} patches",
    "heads_outgoing": "All heads: attention of {token}",
    "heads_incoming": "All heads: attention to {token}",
    "heads_norm": "All heads: norm-weighted attention, {token}",
    "cell_label": "layer {layer}, head {head}",
    "own_maximums": "maximum of each map",
    "heads_file": "{run} all heads",
    "map_file": "{run} {map}",
    # The large map
    "large_map": "Large map",
    "titled_map": "Large map. {title}",
    "image": "The input image of {run}, divided into {rows} by {columns} patches",
    "tokens": "Special tokens and their attention weights",
    "little_attention": "All patches together receive only {percent} of the attention.",
    "loading": "The numbers of this map are loading.",
    "rollout_starts": "This rollout starts at layer {layer}. Choose this layer or a later layer.",
    "no_server": "The server does not respond. The numbers of this layer could not be loaded.",
    "previous_shown": "The previous image or model is still shown.",
    "hint_pointer": "Point at a patch to see its map",
    "hint_touch": "Tap a patch to see its map",
    "hint_keyboard": "Press an arrow key to choose a patch",
    # Titles of maps
    "map_head": "Layer {layer}, head {head}",
    "map_mean": "Layer {layer}, mean of {heads} heads",
    "map_norm": "Layer {layer}, norm-weighted attention of {heads} heads",
    "map_norm_head": "Layer {layer}, head {head}, norm-weighted attention",
    "map_rollout": "Attention rollout of layers {first} to {layer}{settings}",
    "map_rollout_of_layer": "Attention rollout of layer {layer}{settings}",
    "map_similar": "After layer {layer}",
    "title_similar": "{map}: patches whose tokens are similar to {token}",
    "title_norm_incoming": "{map}: tokens that receive most from {token}",
    "title_norm_outgoing": "{map}: tokens that pass most to {token}",
    "title_incoming": "{map}: attention to {token}",
    "title_outgoing": "{map}: attention of {token}",
    # Descriptions of maps
    "few_patches": "The three most attended of {patches} patches receive {percent} of the "
    "attention on patches. Choose “norm-weighted” under Show to see how much these patches pass "
    "on.",
    "few_norms": "The three most attended patches receive {percent} of the attention on patches, "
    "and have {norms} of the sum of norms.",
    "pointed": "Row {row}, column {column}. ",
    "pointed_receives": "Row {row}, column {column} receives {percent} from {token}. ",
    "pointed_passes": "Row {row}, column {column} passes {percent} to {token}. ",
    "pointed_attends": "Row {row}, column {column} attends to {token} with weight {percent}. ",
    "largest": "row {row}, column {column}: {percent}",
    "similarity": "Cosine similarity of the tokens: orange is similar, and purple is opposite.",
    "maximum": "{pointed}Maximum: {largest}.",
    "maximum_incoming": "{pointed}Maximum: {largest} of this patch's attention.",
    "maximum_norms": "{pointed}Maximum: {largest} of the sum of norms.",
    "maximum_norms_incoming": "{pointed}Maximum: {largest} of the norms that this patch receives.",
    "all_patches": "All patches together have {percent}.",
    "all_receive": "All patches together receive {percent}.",
    "all_receive_little": "All patches together receive only {percent}. The rest goes to {rest}, "
    "so interpret this map with care.",
    "rest_special": "special tokens",
    "rest_class": "the class token itself",
    # The grid of all heads
    "grid": "Grid of all heads: choose a map to enlarge it",
    "by_distance": "nearest → farthest",
    "by_entropy": "focused → spread",
    "first_head": "head 1",
    "first_head_short": "h1",
    "column_mean": "mean",
    "column_rollout": "rollout",
    "column_similar": "similar",
    "column_norm": "norm",
    "row": "layer {layer}",
    "thumbnail_head": "Layer {layer}, head {head}: distance {distance} patches, entropy {entropy} "
    "bits",
    "thumbnail_norm_head": "Layer {layer}, head {head}: norm-weighted, distance {distance} "
    "patches, entropy {entropy} bits",
    "thumbnail": "Layer {layer}, {source}",
    # The dot plot of all heads
    "dots": "Attention distance of each head by layer, in patches",
    "dots_label": "Attention distance of each head: choose a dot to show its map",
    # Tables of numbers
    "numbers": "Values of the map, and distance and entropy of each head",
    "table_similarity": "{title}, cosine similarity",
    "table_norms": "{title}, in percent of the sum of norms",
    "table_percent": "{title}, in percent",
    "row_column": "row",
    "heads_table": "Attention distance: mean distance between a patch and the patches it attends "
    "to. Entropy: spread of the attention, from 0 bits for attention to one token to {bits} bits "
    "for uniform attention to all {tokens} tokens.",
    "head_column": "head",
    "distance_column": "attention distance (patches)",
    "entropy_column": "entropy (bits)",
    "head_row": "layer {layer}, head {head}",
    "heads_table_file": "{run} heads",
}
