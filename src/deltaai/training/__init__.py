"""Training: settings, the loop, phases and what they work on, checkpoints."""

from deltaai.training.any_order_paths import AnyOrderTask
from deltaai.training.config import TrainingConfig, objective_names
from deltaai.training.earlier_run import give_up, settle_earlier
from deltaai.training.full_samples import FullSamples
from deltaai.training.loop import Trainer, TrainingProgress
from deltaai.training.metrics_log import MetricsLog
from deltaai.training.phases import Phase, main_phase
from deltaai.training.run_files import read_state, write_state
from deltaai.training.schedules import inverse_temperature_at, learning_rate_at
from deltaai.training.task import Task
from deltaai.training.tasks import phases_of

__all__ = [
    "AnyOrderTask",
    "FullSamples",
    "MetricsLog",
    "Phase",
    "Task",
    "Trainer",
    "TrainingConfig",
    "TrainingProgress",
    "give_up",
    "inverse_temperature_at",
    "learning_rate_at",
    "main_phase",
    "objective_names",
    "phases_of",
    "read_state",
    "settle_earlier",
    "write_state",
]
