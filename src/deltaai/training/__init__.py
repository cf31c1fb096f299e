"""Training: settings, the loop, what it works on, checkpoints."""

from deltaai.training.any_order_paths import AnyOrderTask
from deltaai.training.checkpoint import load_tensors, save_tensors
from deltaai.training.config import TrainingConfig
from deltaai.training.given_evidence import AnyEvidence, FixedEvidence
from deltaai.training.loop import Trainer, TrainingProgress
from deltaai.training.metrics_log import MetricsLog
from deltaai.training.schedules import inverse_temperature_at
from deltaai.training.task import Task
from deltaai.training.tasks import task_of

__all__ = [
    "AnyEvidence",
    "AnyOrderTask",
    "FixedEvidence",
    "MetricsLog",
    "Task",
    "Trainer",
    "TrainingConfig",
    "TrainingProgress",
    "inverse_temperature_at",
    "load_tensors",
    "save_tensors",
    "task_of",
]
