"""All keys of the view state, which is the current image, model and all choices of the user.

Python's typed reads (`ViewState`), gradio's controls (`kit.Controls`), the parameters of the URL
and the store in the browser use these declarations. A key whose choices depend on the runs or on
the model, such as a class, is a `TextKey`: its payload function checks the value.
"""

from vitdemo.analyses.features import MAX_SAMPLE_SIZE
from vitdemo.analyses.robustness import DEFAULT_IMAGE_COUNT
from vitdemo.data.perturb import PERTURBATIONS
from vitdemo.data.perturb.changes import MAX_SEED, PIECE_CHOICES, SLIDER_NAMES
from vitdemo.explain.attributions import METHODS
from vitdemo.figures.curves import HUES
from vitdemo.jobs.options import OPTIONS, PRESETS, TrainingOption
from vitdemo.page.state_key import ChoiceKey, FlagKey, NamesKey, NumberKey, StateKey, TextKey
from vitdemo.report.confusion import COUNTS, UNITS

MAX_LAYERS = 10_000  # limit of a layer in the URL; the model's limit is lower
MAX_PAGES = 100_000

# --- what is shown ---

IMAGE = TextKey("image", None, in_url=False)  # object; URL: `picture`, `crop`
MODEL = TextKey(
    "model", None, label="Model", element="model", former=("data.model",), in_url=False
)  # the store reads the model from the URL
LAYER = NumberKey(
    "layer",
    None,  # 0 or None means the layer of the map with the highest mean score
    low=0,
    high=MAX_LAYERS,
    label="Layer",
    element="layer",
    depends_on=(MODEL,),
    in_url=False,
)
RUNS_STAMP = TextKey("models", None, in_url=False)  # stamp of the list of runs
UNAVAILABLE_MODEL = TextKey("unavailable", in_url=False)  # name of a chosen run without weights
TAB = TextKey(
    "tab",
    former_values={"look": "explore", "calibration": "metrics"},
)
SECTION = TextKey("section", former_values={"why": "class-attribution", "side": "heads"})
RESULTS_SECTION = TextKey("results")

# --- Explore: attention ---

MAP_SOURCE = ChoiceKey(
    "source",
    None,  # None means the map with the highest mean score
    choices={
        "head": "one head",
        "norm-head": "one head, norm-weighted",
        "mean": "mean of heads",
        "rollout": "rollout",
        "similar": "similar tokens",
        "norm": "norm-weighted, all heads",
    },
    label="Show",
    former=("of",),
)
HEAD = NumberKey("head", 1, low=1, high=999, depends_on=(MODEL,))
TOKEN = TextKey("token", max_length=12, depends_on=(MODEL,))
DIRECTION = ChoiceKey(
    "direction",
    "outgoing",
    choices={"outgoing": "attends to", "incoming": "is attended by"},
    label="Direction",
)
HEAD_ORDER = ChoiceKey(
    "order",
    "own",
    choices={"own": "by index", "distance": "by attention distance", "entropy": "by entropy"},
    label="Order of heads",
)
RANKS_ALL_LAYERS = FlagKey("across", label="rank across all layers")
SHARES_SCALE = FlagKey("scale", label="same colour scale for all heads")
COLOUR_SCALE = ChoiceKey(
    "colour",
    "linear",
    choices={"linear": "linear", "root": "square root", "log": "logarithmic"},
    label="Colour scale",
)
VIEW_MODE = ChoiceKey(
    "view",
    "Overlay",
    choices={"Overlay": "over the image", "Raw": "without the image"},
    label="hide the image",
)
OPACITY = NumberKey("opacity", 0.6, low=0, high=1, step=0.05, label="Opacity")
FUSION = ChoiceKey(
    "fusion",
    "mean",
    choices={"mean": "mean", "max": "max", "min": "min"},
    label="Combine heads by",
    help="min keeps attention that all heads share; max keeps attention of any head",
)
DISCARD_RATIO = NumberKey(
    "discard",
    0,
    low=0,
    high=0.95,
    step=0.05,
    label="Discard ratio",
    help="fraction of the smallest attention weights set to 0 in each layer",
)
FIRST_LAYER = NumberKey(
    "first_layer", 1, low=1, high=999, depends_on=(MODEL,), label="First layer", former=("first",)
)
RESIDUAL = FlagKey(
    "residual",
    True,
    label="Residual connection",
    help="averages each attention matrix with the identity matrix",
)
WANTS_NORMS = FlagKey("norms", in_url=False)  # True after the first norm-weighted map

# --- Explore: class attribution ---

EXPLAINED_CLASS = TextKey(  # "" means the predicted class
    "explained_class",
    depends_on=(MODEL,),
    label="Class to explain",
    element="explained-class",
    former=("why",),
)
SECOND_CLASS = TextKey(  # "" means no second class
    "second_class",
    depends_on=(MODEL,),
    label="Second class",
    element="second-class",
    former=("not",),
)
PATCH_REPLACEMENT = ChoiceKey(
    "fill",
    "drop",
    choices={"drop": "Token dropped", "mean": "Uniform colour", "blur": "Blurred image"},
    depends_on=(MODEL,),
    label="Patch replacement",
    element="patch-replacement",
)
LARGE_ATTRIBUTION = ChoiceKey(  # "" means the map with the highest score
    "attribution.map",
    "",
    choices={"": "highest score", **{name: method.title for name, method in METHODS.items()}},
)
REMOVED_SHARE = NumberKey("attribution.removed", 0, low=0, high=100)  # percent of the patches
# "rows.columns" and the patches of a ranking by hand, from 0, such as "8.8.27.35"; "" without one
RANKING = TextKey("attribution.ranking", max_length=80, depends_on=(MODEL,))

# --- Explore: fool the model ---

REMOVAL_GRID = ChoiceKey(
    "patches",
    "8",
    choices={"4": "4 × 4", "8": "8 × 8", "own": "the model's own"},
    label="Grid",
    help="Another grid restores all patches.",
)
PATCHES_PER_CLICK = NumberKey(
    "patches_per_click",
    4,
    low=1,
    high=32,
    label="Patches to remove per click",
    element="hands-count",
    former=("count",),
)
REMOVED_PATCHES = TextKey("removed", max_length=1100, depends_on=(REMOVAL_GRID,))
PIECES = ChoiceKey(
    "pieces",
    1,
    choices={1: "off", **{n: f"{n} × {n}" for n in PIECE_CHOICES[1:]}},
    label="Shuffle",
    element="hands-pieces",
)
STRENGTH_STEPS = {"rotate": 5, "brightness": 0.05, "blur": 0.5, "noise": 1, "jpeg": 1}
STRENGTHS = {
    name: NumberKey(
        name,
        PERTURBATIONS[name].neutral,
        low=PERTURBATIONS[name].low,
        high=PERTURBATIONS[name].high,
        step=STRENGTH_STEPS[name],
        label=f"{PERTURBATIONS[name].title} ({PERTURBATIONS[name].unit})",
        element=f"hands-{name}",
    )
    for name in SLIDER_NAMES
}
CHANGE_SEED = NumberKey("seed", 0, low=0, high=MAX_SEED, label="Shuffle and noise seed")
OPEN_FOLD = ChoiceKey(
    "open_fold",
    "",
    choices={"": "", "sliders": "More changes"},
    former=("hands",),
)
CHANGES = (IMAGE, PIECES, *STRENGTHS.values(), CHANGE_SEED, REMOVAL_GRID)  # all but removed patches

# --- Explore: inside the model ---

PART = ChoiceKey(
    "inside",
    "diagram",
    choices={
        "diagram": "Architecture",
        "embeddings": "Embeddings",
        "one_head": "One head",
        "layers": "Layer by layer",
        "similar_patches": "Similar patches",
        "ablation": "Switch off",
        "patching": "Activation patching",
    },
    label="Part",
    former_values={
        **dict.fromkeys(("filters", "positions"), "embeddings"),
        **dict.fromkeys(("lens", "residual_stream"), "layers"),
    },
)
PRINCIPAL_COMPONENTS, LARGEST_FILTERS = "Principal components", "The strongest filters"
SHOWN_FILTERS = ChoiceKey(
    "filters",
    PRINCIPAL_COMPONENTS,
    choices={name: name for name in (PRINCIPAL_COMPONENTS, LARGEST_FILTERS)},
    label="Show",
    element="which-filters",
)
CHOSEN_PATCH = TextKey("positions.patch", max_length=12, depends_on=(MODEL,))  # "row,column"
HEAD_BY_NUMBERS = NumberKey("one_head.head", 1, low=1, high=999, depends_on=(MODEL,))
# "row,column" of a patch, or "t0" for the first token before the patches; "" means a token that the
# script chooses.
QUERY_TOKEN = TextKey("one_head.query", max_length=12, depends_on=(MODEL,))
KEY_TOKEN = TextKey("one_head.key", max_length=12, depends_on=(MODEL,))
HEADS_OFF = TextKey("heads_off", max_length=4000, depends_on=(MODEL,), former=("off",))
HEAD_REPLACEMENT = ChoiceKey(
    "head_replacement",
    "mean",
    choices={"mean": "its mean (mean ablation)", "zero": "zeros (zero ablation)"},
    label="Replace head output with",
    element="heads-instead",
    former=("instead",),
)
FIRST_BLOCKED = NumberKey(
    "first_blocked",
    1,
    low=1,
    high=MAX_LAYERS,
    depends_on=(MODEL,),
    label="First blocked layer",
    element="barred-first",
    former=("barred_first",),
)
LAST_BLOCKED = NumberKey(
    "last_blocked",
    0,
    low=0,
    high=MAX_LAYERS,
    depends_on=(MODEL,),
    label="Last blocked layer (0: none)",
    element="barred-last",
    former=("barred_last",),
)
STREAM_CLASS = TextKey("residual_stream.class", depends_on=(MODEL,))  # "": the predicted class
STREAM_OTHER = TextKey("residual_stream.other", depends_on=(MODEL,))  # class to subtract, or ""
LENS_EMBEDDING = FlagKey("lens.embedding")  # True: classes of the patches before the first layer
SIMILAR_PATCH = TextKey(  # "row,column", or "" without a chosen patch
    "similar_patches.patch", max_length=12, depends_on=(MODEL,)
)
PATCHING_IMAGE = TextKey("patching.image", label="Image 2")  # source; "": another prediction
PATCHING_LAYER = NumberKey("patching.layer", 0, low=0, high=MAX_LAYERS, depends_on=(MODEL,))
# Tokens such as "t0 3,4" (class token; row and column of a patch), and "patches" for all patches.
PATCHED_TOKENS = TextKey("patching.tokens", max_length=5000, depends_on=(MODEL,))

# --- Explore: side by side ---

COMPARES_MODELS = FlagKey("compare")  # whether the fold is open
SIDE_MODELS = NamesKey(
    "side.models", label="Models", element="side-models", former=("side-models",)
)
SIDE_MAP = ChoiceKey(
    "side.map",
    "attention",
    choices={
        "attention": "Attention",
        "rollout": "Rollout",
        "relevance": "Relevance",
        "attnlrp": "AttnLRP",
    },
    label="Map",
    element="side-map",
    former=("map",),
)
SIDE_DEPTH = NumberKey(
    "side.depth", 100, low=0, high=100, step=5, label="Relative depth, %", former=("depth",)
)
PREDICTED_CLASS = "the predicted class of each"  # part of URLs, so it must not change
SIDE_CLASS = TextKey(
    "side.class",
    PREDICTED_CLASS,
    label="Explained class",
    former=("class",),
    depends_on=(SIDE_MODELS,),
)

# --- Lessons ---

LESSON = TextKey("lesson", is_kept=True)
LESSON_STEP = NumberKey("step", 0, low=0, high=9999, is_kept=True, depends_on=(LESSON,))
TEACH_MODE = ChoiceKey("teach", "", choices={"": "off", "1": "on"}, is_kept=True)
HANDOUT = TextKey("handouts.lesson", label="Lesson", element="hand-out-of")
# Sizes by name: label, minimum, maximum, step and start value (of vit-small-cpu).
COST_SIZES = {
    name: NumberKey(
        f"cost.{name}", start, low=low, high=high, step=step, label=label, element=f"cost-{name}"
    )
    for name, label, low, high, step, start in (
        ("image", "Image side, pixels", 16, 384, 16, 32),
        ("patch", "Patch side, pixels", 2, 32, 2, 4),
        ("width", "Embedding dimension", 32, 1024, 32, 128),
        ("depth", "Layers", 1, 24, 1, 6),
        ("heads", "Heads", 1, 16, 1, 4),
    )
}
COST_BASELINE = TextKey("cost.baseline")  # comma-separated sizes; "" means the start values

# --- Train ---

CURVE_RUNS = NamesKey("runs", label="Runs", element="runs")
KNOWN_RUNS = NamesKey("training.known", (), in_url=False)  # runs that the browser has listed before
SMOOTHING = NumberKey(
    "training.smoothing", 0, low=0, high=0.95, step=0.05, label="Smoothing", element="smoothing"
)
CURVE_SCALE = ChoiceKey(
    "training.scale",
    "linear",
    choices={"linear": "Linear", "log": "Logarithmic"},
    label="Y-axis scale",
)
CURVE_AXIS = ChoiceKey(
    "training.axis",
    "epoch",
    choices={"epoch": "Epochs", "minutes": "Minutes", "share": "Percentage of the run"},
    label="X-axis",
)
EPOCH = NumberKey("training.epoch", 0, low=0, high=1_000_000)  # 0 means the last epoch
ANIMATED_LAYER = NumberKey("training.layer", 0, low=0, high=MAX_LAYERS)  # 0 means the last layer
ANIMATED_RUN = TextKey("training.animated", label="Run", element="film-of")
# Training run that the animation switched to last; None before the first animation.
FOLLOWED_RUN = TextKey("training.followed", None, in_url=False)
BASELINE_RUN = TextKey(
    "training.baseline",
    label="Baseline",
    help="run to compare the result with; requires a guess",
    element="beside",
)
TRAINING_RECIPE = ChoiceKey(
    "training.recipe",
    next(iter(PRESETS)),
    choices={name: preset.title for name, preset in PRESETS.items()},
    label="Recipe",
    element="preset",
    in_url=False,
)
# Recipe whose settings were written into the options; another recipe replaces the options.
FILLED_RECIPE = TextKey("training.filled", in_url=False)
EXPECTED_GAIN = TextKey(
    "training.gain",
    max_length=20,
    label="Expected gain",
    help="in validation accuracy over the baseline",
    element="guess",
    in_url=False,
)


def _make_option_key(name: str, option: TrainingOption) -> StateKey:
    """Return the key of a training setting, whose value is "" until a recipe fills it."""
    looks = {
        "label": option.label,
        "help": option.info,
        "element": f"option-{name.replace('_', '-')}",
        "in_url": False,
    }
    choices = option.choices or ((True, False) if option.kind is bool else ())
    labels = option.choice_labels or (("on", "off") if option.kind is bool else choices)
    if choices:
        named = dict(zip(choices, map(str, labels), strict=True))
        return ChoiceKey(f"training.{name}", "", choices=named, **looks)
    return NumberKey(f"training.{name}", "", low=option.low, high=option.high, **looks)


TRAINING_OPTIONS = {name: _make_option_key(name, option) for name, option in OPTIONS.items()}
UPLOADED_RUN = TextKey("upload.run", label="Model to upload", element="upload-run", in_url=False)
REPOSITORY = TextKey(
    "upload.name", max_length=200, label="Repository", element="upload-name", in_url=False
)
IS_PRIVATE = FlagKey(
    "upload.private", True, label="Private repository", element="upload-private", in_url=False
)
SHOWS_MORE_RESULTS = FlagKey("training.more", None, in_url=False)  # None means a closed fold

# --- Results ---

RESULTS_MODEL = TextKey(
    "results.model",
    label="Model",
    element="results-model",
    leader=MODEL,
    former=("metrics.model", "confusion.model", "errors.model", "calibration.model"),
)
OTHER_MODEL = TextKey(  # "" means no model
    "results.other",
    label="Compare with",
    element="results-other",
    former=("metrics.other", "confusion.other"),
)
# "" means the original test set.
TEST_SET = TextKey("results.tests", label="Test images", element="results-tests")
MAX_CURVE_CLASSES = len(HUES)  # each class needs a different colour
CURVE_CLASSES = NamesKey(
    "metrics.classes", label=f"Classes (up to {MAX_CURVE_CLASSES})", element="curve-classes"
)
CELL_UNIT = ChoiceKey("confusion.unit", COUNTS, choices=UNITS, label="Cell values")
ERRORS_ONLY = FlagKey("confusion.errors_only", label="Errors only")
CELL = TextKey("confusion.cell", max_length=400)  # "true class,predicted class"; "" means no cell
CELL_PAGE = NumberKey("confusion.page", 1, low=1, high=MAX_PAGES)
CELL_ALL_MODELS = FlagKey("confusion.all_models")
TRUE_CLASS = TextKey("errors.true", label="True class", element="errors-true")  # "" means any class
PREDICTED = TextKey("errors.predicted", label="Predicted class", element="errors-predicted")
ERROR_KIND = ChoiceKey(
    "errors.kind",
    "errors",
    choices={
        "errors": "Errors",
        "right": "Correct predictions",
        "all": "All images",
        "only_right": "Only this model correct",
        "all_wrong": "All models wrong",
        "label_errors": "Possible label errors",
    },
)
BOTH_DIRECTIONS = FlagKey("errors.both", label="Both directions")
ERROR_ORDER = ChoiceKey(
    "errors.order",
    "most_confident",
    choices={
        "most_confident": "Most confident first",
        "least_sure": "Smallest margin first",
        "doubtful_label": "Likeliest label error first",
        "data_set": "By image number",
    },
    label="Order",
    element="errors-order",
)
_PERCENT = {"low": 0, "high": 100}
LOWEST_CONFIDENCE = NumberKey(
    "errors.low", 0, **_PERCENT, label="Minimum confidence, %", element="errors-low"
)
HIGHEST_CONFIDENCE = NumberKey(
    "errors.high", 100, **_PERCENT, label="Maximum confidence, %", element="errors-high"
)
ERRORS_PAGE = NumberKey("errors.page", 1, low=1, high=MAX_PAGES)
ERRORS_ALL_MODELS = FlagKey("errors.all_models")
SCATTER_AXIS = ChoiceKey(
    "compare.x",
    "parameters",
    choices={"parameters": "Parameters", "macs": "Multiply-adds", "minutes": "Training time"},
)
ABLATION_BASELINE = TextKey("compare.base", label="Baseline", element="gains-base")
ROBUSTNESS_MODELS = NamesKey(
    "compare.models", label="Models", element="robust-models", former=("robust-models",)
)
ROBUSTNESS_CHANGES = NamesKey(
    *("compare.changes", ("noise", "blur")),
    choices={name: change.title for name, change in PERTURBATIONS.items()},
    label="Changes",
    element="robust-changes",
)
ROBUSTNESS_IMAGES = NumberKey(
    "compare.images",
    DEFAULT_IMAGE_COUNT,
    low=100,
    high=DEFAULT_IMAGE_COUNT,
    step=100,
    label="Test images",
    help="more images narrow the intervals and increase the time",
    element="robust-count",
    former=("compare.count",),
)

# --- Data ---

RECIPE = TextKey("data.recipe", label="Recipe", element="recipe")
AUGMENTATION_SEED = NumberKey("data.seed", 0, low=0, high=2**31 - 1, label="Seed", element="seed")
FEATURES_MODEL = TextKey("data.features", label="Model", element="similar-model")
TSNE_IMAGES = NumberKey(
    "data.images",
    MAX_SAMPLE_SIZE,
    low=200,
    high=MAX_SAMPLE_SIZE,
    step=100,
    label="Test images",
    element="similar-count",
)

# --- Custom classes ---

BACKBONE = TextKey("own.model", label="Backbone", element="own-model")
OWN_MAP = ChoiceKey(
    "own.map", "attention", choices={"attention": "Attention", "class": "Class map"}, label="Map"
)
FOR_EVERYONE = "all"
AUDIENCE = ChoiceKey(  # users who see the next fine-tuned model
    "own.audience", "me", choices={"me": "Only you", FOR_EVERYONE: "All users"}, in_url=False
)


def _list_keys() -> list[StateKey]:
    found = []
    for value in list(globals().values()):
        several = value.values() if isinstance(value, dict) else [value]
        found += [each for each in several if isinstance(each, StateKey)]
    return found


STATE_KEYS = {key.name: key for key in _list_keys()}
