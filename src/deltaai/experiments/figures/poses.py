"""Figure "Experimental results on the Poses dataset": MMD over training time, by each method.

``deltaai reproduce poses --orders one|many --method delta|tb|db|fl-db|all``. Every method learns
the same energy (:func:`deltaai.models.zoo.pose_energy`) and its sampler from the training rows; the
models of this figure are the data sets, for a q that knows one order of the joints and one that
knows all: the left and the right half of the paper's figure. Data sets are CMU's motion capture,
clips like those of AMASS, and made-up poses that need no files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from deltaai.experiments.harness.learner_curve import examples_path, learner_curve
from deltaai.experiments.harness.parts import Experiment, Part, Row, Setting, Surroundings
from deltaai.experiments.harness.pose_judge import PoseJudge
from deltaai.experiments.harness.pose_methods import LABELS, LEARNERS, own_settings
from deltaai.experiments.harness.skeleton_pictures import Bone, read_skeletons, write_skeletons
from deltaai.io import ScaledPoses, is_there, pose_set

NAME = "poses"
ORDERS = {"one": "one order", "many": "many orders"}
DATA_SETS = {"cmu": "CMU", "amass": "AMASS", "synthetic": "made-up poses"}
MODELS = {
    f"{data}-{orders}": f"{label}, {words}"
    for data, label in DATA_SETS.items()
    for orders, words in ORDERS.items()
}
SCALES: dict[str, dict[str, Setting]] = {
    "smoke": {"time_limit": 2.0, "most_judged": 300},
    "small": {"time_limit": 300.0, "most_judged": 20_000},
    "paper": {"time_limit": 7200.0, "most_judged": 20_000},
}
_LEVELS = {
    "of_halves": "test data, random halves",
    "of_training": "training and test data",
}


def parts(scale: str, num_seeds: int) -> list[Part]:
    """Every method on every data set, for one order and many."""
    return [
        Part(
            f"{data}-{orders}",
            method,
            seed,
            scale,
            {
                **SCALES[scale],
                "data": data,
                "orders": orders,
                "updates": 0,
                **own_settings(method),
            },
        )
        for seed in range(num_seeds)
        for data in DATA_SETS
        for orders in ORDERS
        for method in LABELS
        if method in LEARNERS
    ]


def run_part(part: Part, surroundings: Surroundings) -> Iterator[Row]:
    """Train one learner and judge it on the way."""
    poses = ScaledPoses.of(pose_set(str(part.options["data"]), surroundings.data_dir))
    judge = PoseJudge.of(poses, part.options, part.seed)
    learner = LEARNERS[part.method](poses, part.options, part.seed)
    yield from learner_curve(part, learner, judge, surroundings.folder)


def draw_skeletons(folder: Path, kept: Path, parts: Sequence[Part]) -> list[Path]:
    """Draw people of every method below real ones, a picture a model; return the files."""
    files = []
    models = [model for model in MODELS if any(part.model == model for part in parts)]
    for model in models:
        blocks = _blocks(kept, [part for part in parts if part.model == model])
        if blocks:
            place = f"{NAME}-skeletons" if len(models) == 1 else f"{NAME}-{model}-skeletons"
            files.append(folder / f"{place}.png")
            write_skeletons(files[-1], f"{MODELS[model]}: samples", blocks)
    return files


def _blocks(kept: Path, parts: Sequence[Part]) -> Mapping[str, Sequence[Sequence[Bone]]]:
    """What is drawn of a model, by label: that of the lowest seed of each method."""
    found = {}
    for method in LABELS:
        same = sorted((part for part in parts if part.method == method), key=lambda p: p.seed)
        if same and is_there(examples_path(kept, same[0])):
            found[LABELS[method]] = read_skeletons(examples_path(kept, same[0]))
    if not found:
        return {}
    first = next(iter(found.values()))
    return {"test data": first["data"]} | {label: each["samples"] for label, each in found.items()}


EXPERIMENT = Experiment(
    name=NAME,
    title="Human poses",
    description="MMD of samples to test poses over training time: Δ-AI and GFlowNet objectives.",
    metric="linear_mmd",
    metric_label="linear MMD to test data",
    parts=parts,
    run_part=run_part,
    method_labels=LABELS,
    model_labels=MODELS,
    thresholds=(),
    default_models=("cmu-one", "cmu-many"),
    options=("time_limit", "clock", "data_dir", "orders"),
    has_surroundings=True,
    further_metrics={"rbf_mmd": "RBF MMD to test data"},
    end_metrics={
        "rbf_mmd": "RBF MMD",
        "linear_mmd_over_halves": "linear, x random halves",
        "linear_mmd_over_clips": "linear, x halves by clip",
        "rbf_mmd_over_halves": "RBF, x random halves",
        "rbf_mmd_over_clips": "RBF, x halves by clip",
        "linear_mmd_squared_unbiased": "linear², unbiased",
        "rbf_mmd_squared_unbiased": "RBF², unbiased",
        "num_updates": "updates",
        "parameters_p": "parameters of p",
        "parameters_q": "of q",
    },
    facts={
        "linear_mmd_of_halves": "Linear MMD between random halves of the test data",
        "linear_mmd_of_clips": "between halves by clip",
        "linear_mmd_of_training": "between training and test data",
        "rbf_mmd_of_halves": "RBF MMD between random halves",
        "rbf_mmd_of_clips": "between halves by clip",
        "rbf_mmd_of_training": "between training and test data",
    },
    levels={
        metric: {f"{metric}_{name}": label for name, label in _LEVELS.items()}
        for metric in ("linear_mmd", "rbf_mmd")
    },
    level_methods=("independent",),
    draw=draw_skeletons,
    notes=(
        "MMD is the biased root: for the linear kernel the distance of the means, for the RBF "
        "kernel, whose bandwidth is the median distance of test rows, it is never negative either. "
        "As many rows are drawn as there are test rows; test data are of other clips than training "
        "data. Random halves have half as many rows each, so equal distributions are nearer than "
        "these by a factor of about 0.7; training data are what a perfect learner draws. The "
        "linear kernel sees means only, and so does not tell independent angles from poses. Time "
        "is the learner's own: it stands still while it is judged."
    ),
)
