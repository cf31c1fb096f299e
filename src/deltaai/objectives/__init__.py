"""Objectives: each returns residuals or per-sample losses, and nothing else."""

from deltaai.objectives.any_order_balance import AnyOrderObjective
from deltaai.objectives.base import Objective
from deltaai.objectives.delta import (
    DeltaBatch,
    DeltaObjective,
    delta_residuals,
    every_alternative,
    prepare_delta,
    stepped,
)
from deltaai.objectives.gflownet import BalanceObjective
from deltaai.objectives.learned_flow import BalanceName
from deltaai.objectives.log_variance import (
    LogVarianceObjective,
    PathBatch,
    log_variance_losses,
)
from deltaai.objectives.registry import (
    OBJECTIVES,
    SUB_DAGS,
    ObjectiveBuilder,
    ObjectiveSettings,
    build_objective,
    register_objective,
)
from deltaai.objectives.sampled import SampledDeltaObjective, sampled_residuals
from deltaai.objectives.score import ScoreObjective, score_residuals, slopes_of
from deltaai.objectives.stochastic import (
    StochasticDeltaObjective,
    stochastic_delta_losses,
    stochastic_square,
)
from deltaai.objectives.sub_dag import (
    prepare_sub_dags,
    propose_centres,
    sample_sub_dags,
    sub_dag_residuals,
)
from deltaai.objectives.sub_dag_plan import SubDagPlan, SubDagPlanner

__all__ = [
    "OBJECTIVES",
    "SUB_DAGS",
    "AnyOrderObjective",
    "BalanceName",
    "BalanceObjective",
    "DeltaBatch",
    "DeltaObjective",
    "LogVarianceObjective",
    "Objective",
    "ObjectiveBuilder",
    "ObjectiveSettings",
    "PathBatch",
    "SampledDeltaObjective",
    "ScoreObjective",
    "StochasticDeltaObjective",
    "SubDagPlan",
    "SubDagPlanner",
    "build_objective",
    "delta_residuals",
    "every_alternative",
    "log_variance_losses",
    "prepare_delta",
    "prepare_sub_dags",
    "propose_centres",
    "register_objective",
    "sample_sub_dags",
    "sampled_residuals",
    "score_residuals",
    "slopes_of",
    "stepped",
    "stochastic_delta_losses",
    "stochastic_square",
    "sub_dag_residuals",
]
