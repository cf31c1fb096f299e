"""Models and data from and to files and other libraries: text in, values out, and back."""

from deltaai.io.atomic import check_replaceable, replace_file, replacing
from deltaai.io.case_stream import CaseStream
from deltaai.io.data_table import DataTable, data_from_csv, data_from_stream, data_from_table
from deltaai.io.directed import describe_cycle, directed_cycle, why_not_bayesian
from deltaai.io.evidence_table import Rows, is_frame, rows_from_table
from deltaai.io.files import (
    as_model,
    example,
    is_there,
    read,
    read_evidence,
    read_evidence_table,
    read_log10_partition,
    read_marginals,
    write,
)
from deltaai.io.formats import FORMATS, BinaryFormat, Format, model_suffixes, register_format
from deltaai.io.images.digits import read_digits
from deltaai.io.images.image_set import ImageSet, binarised
from deltaai.io.images.mnist import read_mnist
from deltaai.io.images.sets import IMAGE_SETS, image_set
from deltaai.io.pgmpy import from_pgmpy, to_pgmpy
from deltaai.io.poses.amass import read_amass_poses
from deltaai.io.poses.cmu import read_cmu_poses
from deltaai.io.poses.pose_set import PoseSet
from deltaai.io.poses.rotations import rotation_angles, rotation_matrices
from deltaai.io.poses.scaled_poses import ScaledPoses
from deltaai.io.poses.sets import POSE_SETS, pose_set
from deltaai.io.poses.skeleton import Skeleton, cmu_skeleton, smpl_skeleton
from deltaai.io.poses.synthetic import synthetic_poses
from deltaai.io.pyagrum import from_pyagrum, to_pyagrum
from deltaai.io.source import Source
from deltaai.io.streams import WatchedStream
from deltaai.io.tensor_files import (
    MODEL_KIND,
    SAMPLER_KIND,
    kind_of,
    load_tensors,
    save_tensors,
)
from deltaai.io.uai_solutions import log10_partition_text, marginals_text

__all__ = [
    "FORMATS",
    "IMAGE_SETS",
    "MODEL_KIND",
    "POSE_SETS",
    "SAMPLER_KIND",
    "BinaryFormat",
    "CaseStream",
    "DataTable",
    "Format",
    "ImageSet",
    "PoseSet",
    "Rows",
    "ScaledPoses",
    "Skeleton",
    "Source",
    "WatchedStream",
    "as_model",
    "binarised",
    "check_replaceable",
    "cmu_skeleton",
    "data_from_csv",
    "data_from_stream",
    "data_from_table",
    "describe_cycle",
    "directed_cycle",
    "example",
    "from_pgmpy",
    "from_pyagrum",
    "image_set",
    "is_frame",
    "is_there",
    "kind_of",
    "load_tensors",
    "log10_partition_text",
    "marginals_text",
    "model_suffixes",
    "pose_set",
    "read",
    "read_amass_poses",
    "read_cmu_poses",
    "read_digits",
    "read_evidence",
    "read_evidence_table",
    "read_log10_partition",
    "read_marginals",
    "read_mnist",
    "register_format",
    "replace_file",
    "replacing",
    "rotation_angles",
    "rotation_matrices",
    "rows_from_table",
    "save_tensors",
    "smpl_skeleton",
    "synthetic_poses",
    "to_pgmpy",
    "to_pyagrum",
    "why_not_bayesian",
    "write",
]
