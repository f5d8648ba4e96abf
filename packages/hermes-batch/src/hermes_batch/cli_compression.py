"""`hermes-batch compress`: trajectories brought to a token target."""

from __future__ import annotations

import argparse
import sys

from hermes_batch.cli_shared import FAILED, INTERRUPTED, OK, api_key, provider_settings, run_until_signal
from hermes_batch.compression_plan import CompressionSettings
from hermes_batch.compression_report import CompressionReport
from hermes_batch.compressor import TrajectoryCompressor
from hermes_batch.progress import NoProgress, progress_for

__all__ = ["compress", "compression_summary"]


async def compress(arguments: argparse.Namespace) -> int:
    """Run the command; the exit code."""
    compressor = TrajectoryCompressor(
        arguments.run_name,
        output_dir=arguments.output_dir,
        settings=CompressionSettings(
            target_tokens=arguments.target_tokens,
            summary_tokens=arguments.summary_tokens,
            input_tokens=arguments.input_tokens,
            request=arguments.request,
            keep_first=arguments.keep_first,
            keep_last=arguments.keep_last,
            on_failed_summary=arguments.on_failed_summary,
            over_limit=arguments.over_limit,
            system_notice=arguments.system_notice,
        ),
        target=arguments.output,
        provider=arguments.provider,
        provider_settings=provider_settings(arguments),
        base_url=arguments.base_url,
        api_key=api_key(arguments),
        model=arguments.model,
        fallback_models=arguments.fallback_model,
        max_tokens=arguments.max_tokens,
        temperature=arguments.temperature,
        num_workers=arguments.num_workers,
        attempts=arguments.attempts,
        timeout_s=arguments.row_timeout,
        retry_failed=arguments.retry_failed,
        progress=NoProgress() if arguments.quiet else progress_for(),
    )
    report = await run_until_signal(compressor, compressor.run())
    if report.interrupted:
        sys.stdout.write("stopped; the summaries that were made are kept, and the same call goes on\n")
        return INTERRUPTED
    sys.stdout.write(compression_summary(report, compressor))
    return FAILED if report.summaries_failed else OK


def compression_summary(report: CompressionReport, compressor: TrajectoryCompressor) -> str:
    """The report as a few lines for a person."""
    ended = {
        "within the target": report.under_target,
        "summed up": report.summarised,
        "with a notice": report.notices,
        "with shorter results": report.shortened,
        "as they were": report.kept,
        "dropped": report.dropped,
    }
    told = ", ".join(f"{count} {how}" for how, count in ended.items() if count)
    removed = f"{report.turns_removed} of {report.turns_before} steps removed"
    tokens = f"{report.tokens_before} to {report.tokens_after} tokens ({report.ratio:.0%})"
    asked = f"{report.summaries} summaries asked for, {report.summaries_failed} failed"
    used = f"{report.summary_input_tokens} tokens in, {report.summary_output_tokens} out"
    lines = [
        f"run {report.run_name}, {report.trajectories} rows, target {report.target_tokens}: {told or 'none'}",
        f"  {tokens}, {removed}; {report.still_over_limit} rows are still longer",
        f"  {asked}; {used}, in {compressor.summaries.directory}",
        f"  in {compressor.target}",
    ]
    if report.summaries_failed:
        lines.append(
            "  a summary fails when its call does, when it is empty or cut off at --max-tokens, and when it\n"
            f"  makes the row no shorter; to look at them: hermes-batch view {compressor.summaries.directory}"
        )
    return "\n".join(lines) + "\n"
