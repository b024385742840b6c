"""Training: a plain PyTorch loop that resumes bit for bit.

`settings` says how a model is trained, `batches` what each step sees, `modules` what is minimised,
`loop` carries it out, and `checkpoints` keeps the state of an interrupted run.
"""

from hosm.training.checkpoints import (
    load_checkpoint,
    packed,
    save_checkpoint,
    unpacked,
)
from hosm.training.keyed_batches import (
    Batch,
    Points,
    Shard,
    batches,
    keyed_batch,
)
from hosm.training.loop import (
    Diverged,
    Progress,
    TrainingResult,
    fit,
)
from hosm.training.modules import HeadsObjective, JointObjective, head_term
from hosm.training.settings import Settings

__all__ = [
    "Batch",
    "Diverged",
    "HeadsObjective",
    "JointObjective",
    "Points",
    "Progress",
    "Settings",
    "Shard",
    "TrainingResult",
    "batches",
    "fit",
    "head_term",
    "keyed_batch",
    "load_checkpoint",
    "packed",
    "save_checkpoint",
    "unpacked",
]
