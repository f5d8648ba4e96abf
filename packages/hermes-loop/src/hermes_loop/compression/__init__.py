"""Compression of older context: the Protocol only. This version never compresses."""

from hermes_loop.compression.protocol import CompressionPlan, Compressor

__all__ = ["CompressionPlan", "Compressor"]
