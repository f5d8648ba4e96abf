"""Compression of older context: the one way in which what the model sees of the past becomes shorter."""

from hermes_loop.compression.protocol import Compressed, CompressionContext, CompressionPlan, Compressor
from hermes_loop.compression.settings import CompressionSettings
from hermes_loop.compression.summary import SummaryCompressor

__all__ = [
    "Compressed",
    "CompressionContext",
    "CompressionPlan",
    "CompressionSettings",
    "Compressor",
    "SummaryCompressor",
]
