"""BatchRunner: prompts in, tool-use training trajectories out, nothing lost, nothing paid twice.

The smallest program, where `await` is allowed at the top:

    from hermes_batch import BatchRunner

    statistics = await BatchRunner("prompts.jsonl", run_name="first").run()
"""

from hermes_batch.agent_options import AgentOptions, Approvals, FallbackModel, ProviderRouting
from hermes_batch.compression_plan import CompressionSettings, CountTokens, Speaker
from hermes_batch.compression_report import CompressionMetrics, CompressionOutcome, CompressionReport
from hermes_batch.compressor import TrajectoryCompressor
from hermes_batch.dataset import RowOrder
from hermes_batch.distributions import DISTRIBUTIONS
from hermes_batch.engines import RowEngine, RowEngineFactory, RowJob
from hermes_batch.errors import (
    DatasetError,
    EngineLostError,
    EngineStartError,
    RunAbortedError,
    RunExistsError,
    RunLockedError,
    WorkerLostError,
)
from hermes_batch.progress import BarProgress, LineProgress, NoProgress, Progress
from hermes_batch.records import Record, RecordStatus, ToolStats, Turn
from hermes_batch.row_settings import RowSettings
from hermes_batch.row_sources import RowLike
from hermes_batch.rows import BadRow, PromptRow
from hermes_batch.runner import BatchRunner
from hermes_batch.statistics import BatchStatistics

__all__ = [
    "DISTRIBUTIONS",
    "AgentOptions",
    "Approvals",
    "BadRow",
    "BarProgress",
    "BatchRunner",
    "BatchStatistics",
    "CompressionMetrics",
    "CompressionOutcome",
    "CompressionReport",
    "CompressionSettings",
    "CountTokens",
    "DatasetError",
    "EngineLostError",
    "EngineStartError",
    "FallbackModel",
    "LineProgress",
    "NoProgress",
    "Progress",
    "PromptRow",
    "ProviderRouting",
    "Record",
    "RecordStatus",
    "RowEngine",
    "RowEngineFactory",
    "RowJob",
    "RowLike",
    "RowOrder",
    "RowSettings",
    "RunAbortedError",
    "RunExistsError",
    "RunLockedError",
    "Speaker",
    "ToolStats",
    "TrajectoryCompressor",
    "Turn",
    "WorkerLostError",
]
