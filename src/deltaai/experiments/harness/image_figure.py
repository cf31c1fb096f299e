"""What the figures of images share: parts, how one is run, and how results are shown.

Each figure says which methods on which data sets, for how long; the rest is here. The curve has the
IW-100 bound of some test images; at the end all of them are judged by IW-100, and some, as many as
the settings say, by IW-5000 too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from deltaai.experiments.harness.image_grids import draw_grids
from deltaai.experiments.harness.image_judge import ImageJudge, kept_classifier
from deltaai.experiments.harness.image_methods import LABELS, LEARNERS, own_settings
from deltaai.experiments.harness.learner_curve import learner_curve
from deltaai.experiments.harness.parts import Experiment, Part, Row, Setting, Surroundings
from deltaai.io import image_set

MODEL_LABELS = {"mnist": "MNIST", "digits": "digits, 8 x 8"}
# Test images: of a measurement on the way, of IW-100 at the end, and of IW-5000.
JUDGING: dict[str, dict[str, dict[str, Setting]]] = {
    "smoke": {
        "mnist": {"curve_images": 8, "end_images": 16, "many_images": 1},
        "digits": {"curve_images": 8, "end_images": 16, "many_images": 1},
    },
    "small": {
        "mnist": {"curve_images": 200, "end_images": 10_000, "many_images": 100},
        "digits": {"curve_images": 200, "end_images": 397, "many_images": 397},
    },
    "paper": {
        "mnist": {"curve_images": 500, "end_images": 10_000, "many_images": 10_000},
        "digits": {"curve_images": 397, "end_images": 397, "many_images": 397},
    },
}
DRAWING: dict[str, dict[str, Setting]] = {
    "smoke": {"num_drawn": 50, "classifier_updates": 100},
    "small": {"num_drawn": 1000, "classifier_updates": 10_000},
    "paper": {"num_drawn": 5000, "classifier_updates": 10_000},
}
THRESHOLDS = {"mnist": (110.0, 100.0, 92.0, 85.0), "digits": (24.0, 23.5, 23.0, 22.5)}

NOTES = (
    "NLL is minus the importance-weighted bound, in nats an image, on test images whose pixels "
    "were drawn once from the grey levels, the same for all methods. The curve and *final value* "
    "are of `curve_images` images with 100 samples each, *IW-100* is of `end_images` (all, but "
    "for scale smoke) and *IW-5000* of `many_images`, with IW-100 of the same images beside it; "
    "how many these are stands in the part files. *Entropy* is that of a small convolutional "
    "classifier about unconditional samples. Time is the learner's own: it stands still while it "
    "is judged."
)


def image_parts(
    methods: Sequence[str],
    data_sets: Sequence[str],
    time_limits: Mapping[str, Mapping[str, float]],
    updates: Mapping[str, Mapping[str, int]],
    scale: str,
    num_seeds: int,
) -> list[Part]:
    """Every method on every data set; a limit of updates is 0 where there is none."""
    return [
        Part(
            data,
            method,
            seed,
            scale,
            {
                **JUDGING[scale][data],
                **DRAWING[scale],
                **own_settings(method, data),
                "time_limit": time_limits[scale][data],
                "updates": updates.get(scale, {}).get(data, 0),
            },
        )
        for seed in range(num_seeds)
        for data in data_sets
        for method in methods
        if method in LEARNERS
    ]


def run_image_part(part: Part, surroundings: Surroundings) -> Iterator[Row]:
    """Train one learner and judge it on the way."""
    images = image_set(part.model, surroundings.data_dir)
    classifier = kept_classifier(
        images, int(part.options["classifier_updates"]), surroundings.folder
    )
    judge = ImageJudge.of(images, classifier, part.options)
    learner = LEARNERS[part.method](images, part.options, part.seed)
    yield from learner_curve(part, learner, judge, surroundings.folder)


def image_experiment(
    name: str,
    title: str,
    description: str,
    *,
    methods: Sequence[str],
    data_sets: Sequence[str],
    time_limits: Mapping[str, Mapping[str, float]],
    updates: Mapping[str, Mapping[str, int]] | None = None,
    default_methods: tuple[str, ...] = (),
    num_seeds: int = 3,
    notes: str = "",
) -> Experiment:
    """A figure of images.

    Parameters
    ----------
    name, title, description : as those of an :class:`Experiment`.
    methods : keys of :data:`LEARNERS`, in the order of drawing.
    data_sets : names that :func:`deltaai.io.image_set` knows.
    time_limits : seconds of training, by scale and data set.
    updates : most updates, likewise.
    default_methods, num_seeds : what is run if nobody says otherwise.
    notes : what is particular about this figure.
    """
    labels = {method: LABELS[method] for method in methods}
    titles = {data: MODEL_LABELS[data] for data in data_sets}
    return Experiment(
        name=name,
        title=title,
        description=description,
        metric="nll",
        metric_label="test NLL (IW-100), nats",
        parts=partial(image_parts, methods, data_sets, time_limits, updates or {}),
        run_part=run_image_part,
        method_labels=labels,
        model_labels=titles,
        thresholds=THRESHOLDS[data_sets[0]] if len(data_sets) == 1 else (),
        is_log_value=False,
        notes=f"{NOTES} {notes}".strip(),
        num_seeds=num_seeds,
        default_methods=default_methods,
        options=("time_limit", "clock", *(("data_dir",) if "mnist" in data_sets else ())),
        has_surroundings=True,
        further_metrics={"entropy": "classifier's entropy on samples, nats"},
        end_metrics={
            "nll_100": "IW-100",
            "nll_100_of_some": "IW-100, some images",
            "nll_5000_of_some": "IW-5000, some images",
            "entropy": "entropy",
            "num_updates": "updates",
            "parameters_p": "parameters of p",
            "parameters_q": "of q",
        },
        facts={
            "classifier_accuracy": "Accuracy of the classifier on the test images",
            "entropy_of_data": "its entropy on them",
        },
        draw=partial(draw_grids, name, titles, labels),
    )
