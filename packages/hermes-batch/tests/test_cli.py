"""The command line: what it says and how it exits."""

from pathlib import Path
from typing import Any

import pytest

from hermes_batch import BatchRunner
from hermes_batch.cli import main, read_settings
from hermes_batch.familiar_flags import translate
from hermes_messages import ConfigurationError


def test_usage_errors_exit_with_2_and_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = [
        "run",
        "--dataset-file",
        str(tmp_path / "none.jsonl"),
        "--run-name",
        "r",
        "--output-dir",
        str(tmp_path),
    ]
    assert main(missing) == 2
    error = capsys.readouterr().err
    assert error.startswith("hermes-batch: no dataset file at ")
    assert error.count("\n") == 1


def test_an_unset_key_variable_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    (tmp_path / "p.jsonl").write_text('{"prompt": "a"}\n')
    assert (
        main(
            ["run", "--dataset-file", str(tmp_path / "p.jsonl"), "--run-name", "r", "--api-key-env", "MY_KEY"]
        )
        == 2
    )
    assert "MY_KEY is not set" in capsys.readouterr().err


def test_a_bad_prefill_file_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "a"}\n')
    (tmp_path / "prefill.json").write_text('{"role": "user"}')
    call = ["run", "--dataset-file", str(tmp_path / "p.jsonl"), "--run-name", "r"]
    assert main([*call, "--prefill-messages-file", str(tmp_path / "prefill.json")]) == 2
    assert "no JSON list of messages" in capsys.readouterr().err


def test_distributions_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["distributions"]) == 0
    assert "default: file 100%, terminal 100%, todo 100%" in capsys.readouterr().out


def test_statistics_of_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", "--run-name", "r", "--output-dir", str(tmp_path)]) == 2
    assert "no statistics at" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("familiar", "ours"),
    [
        (["--dataset_file=a", "--run_name=b"], ["run", "--dataset-file=a", "--run-name=b"]),
        (["--run-name", "b", "--resume"], ["run", "--run-name=b", "--resume"]),
        (["--resume", "True", "--run_name", "b"], ["run", "--run-name=b", "--resume"]),
        (["--noresume", "--run_name=b"], ["run", "--run-name=b"]),
        (["f.jsonl", "5", "b"], ["run", "--dataset-file=f.jsonl", "--batch-size=5", "--run-name=b"]),
        (["--log_prefix_chars=20", "--max_samples=None"], ["run"]),
        (["--reasoning_effort=xhigh"], ["run", "--reasoning-effort=high"]),
        (["--reasoning_effort=low", "--reasoning_disabled"], ["run", "--reasoning-effort=none"]),
        (["--api_key=k", "--provider_sort", "price"], ["run", "--api-key=k", "--provider-sort=price"]),
        (["--resume=true", "--max_turns=5"], ["run", "--max-iterations=5", "--resume"]),
        (["--resume=False"], ["run"]),
        (["--list_distributions"], ["distributions"]),
        (["--reasoning_disabled", "--verbose"], ["run", "--reasoning-effort=none"]),
    ],
)
def test_familiar_flags(familiar: list[str], ours: list[str]) -> None:
    assert translate(familiar) == ours


def test_a_switch_with_a_strange_value_is_refused() -> None:
    with pytest.raises(ValueError, match="--resume takes true or false"):
        translate(["--resume=perhaps"])


def test_the_help_of_each_command_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("run", "resume", "merge", "stats"):
        with pytest.raises(SystemExit) as stopped:
            main([command, "--help"])
        assert stopped.value.code == 0
    assert "--dataset-file" in capsys.readouterr().out


def test_settings_of_a_provider_are_json_or_text() -> None:
    assert read_settings(["threads=2", "model=a=b", "flag=true"]) == {
        "threads": 2,
        "model": "a=b",
        "flag": True,
    }
    with pytest.raises(ConfigurationError, match="NAME=VALUE"):
        read_settings(["threads"])


def test_a_key_in_the_wrong_place_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "a"}\n')
    call = ["run", "--dataset-file", str(tmp_path / "p.jsonl"), "--run-name", "r"]
    assert main([*call, "--api-key-env", "sk-secret"]) == 2
    with pytest.raises(SystemExit):
        main([*call, "--api-k", "sk-secret"])
    first, _, _ = capsys.readouterr().err.partition("usage")
    assert "sk-secret" not in first
    assert "the name of an environment variable" in first


def test_damaged_statistics_and_a_wrong_run_name_are_usage_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r/statistics.json").write_bytes(b'{"run_name": "\xff')
    assert main(["stats", "--run-name", "r", "--output-dir", str(tmp_path)]) == 2
    assert "hermes-batch merge writes it anew" in capsys.readouterr().err
    assert main(["stats", "--run-name", "../r", "--output-dir", str(tmp_path)]) == 2


def test_a_merge_of_no_run_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "a"}\n')
    call = ["merge", "--dataset-file", str(tmp_path / "p.jsonl"), "--run-name", "typo"]
    assert main([*call, "--output-dir", str(tmp_path / "data")]) == 2
    assert "holds no run" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "options",
    [{"row_timeout_s": -1.0}, {"row_timeout_s": float("nan")}, {"grace_s": -1.0}, {"toolsets": "file"}],
    ids=str,
)
def test_options_that_can_not_be_meant_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"{next(iter(options))} is"):
        BatchRunner("p.jsonl", **options)


def test_a_mistyped_name_does_not_begin_a_new_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "a"}\n')
    call = ["resume", "--dataset-file", str(tmp_path / "p.jsonl"), "--output-dir", str(tmp_path)]
    assert main([*call, "--run-name", "typo"]) == 2
    assert "there is no run at" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["p.jsonl"]
