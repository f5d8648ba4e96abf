"""The command line: what it says and how it exits."""

import asyncio
import fcntl
import io
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from hermes_batch import BatchRunner
from hermes_batch.cli import main
from hermes_batch.cli_parser import in_flags, read_settings
from hermes_batch.familiar_flags import translate
from hermes_batch.standard_input import kept_standard_input
from hermes_batch.testing import ScriptedAgents, conversation
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


def test_agents_of_a_module_beside_the_dataset_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agents_of_mine.py").write_text(
        "from hermes_batch.testing import ScriptedAgents, conversation\n"
        "def make():\n"
        "    return ScriptedAgents(lambda prompt: conversation(prompt, answer='a', reasoning='r'))\n"
    )
    (tmp_path / "p.jsonl").write_text('{"prompt": "a"}\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    command = [
        "run",
        "--dataset-file",
        "p.jsonl",
        "--run-name",
        "r",
        "--agent-factory",
        "agents_of_mine:make",
    ]
    assert main(command) == 0
    assert (tmp_path / "data/r/trajectories.jsonl").read_bytes().count(b"\n") == 1


def test_a_dead_host_and_a_wrong_grace_are_told_in_the_words_of_the_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "agents_away.py").write_text(
        "from hermes_batch.testing import ScriptedAgents, failed_conversation\n"
        "from hermes_messages import ErrorKind\n"
        "def make():\n"
        "    away = {'error': 'away', 'kind': ErrorKind.TRANSPORT}\n"
        "    return ScriptedAgents(lambda prompt: failed_conversation(prompt, **away))\n"
    )
    (tmp_path / "p.jsonl").write_text("".join(f'{{"prompt": "{number}"}}\n' for number in range(9)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    command = ["run", "--dataset-file", "p.jsonl", "--run-name", "r", "--agent-factory", "agents_away:make"]
    assert main([*command, "--grace", "-1"]) == 2
    assert capsys.readouterr().err.startswith("hermes-batch: --grace is -1.0; it must be")
    assert main([*command, "--failure-limit", "2", "--num-workers", "1", "--quiet"]) == 1
    assert "could not be reached for 2 rows in a row" in capsys.readouterr().err


def test_distributions_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["distributions"]) == 0
    assert "default: file 100%, terminal 100%, todo 100%" in capsys.readouterr().out


def test_names_of_parameters_become_options_and_a_number_of_attempts_does_not() -> None:
    assert in_flags("no answer (after 4 attempts)") == "no answer (after 4 attempts)"
    assert in_flags("or name a GGUF file in model_path") == "or name a GGUF file in --model-path"
    assert in_flags("attempts is 0; it must be at least 1") == "--attempts is 0; it must be at least 1"


def test_statistics_of_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", "--run-name", "r", "--output-dir", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "no statistics at" in told
    assert "--run-name" in told


@pytest.mark.parametrize(
    ("familiar", "ours"),
    [
        (["--dataset_file=a", "--run_name=b"], ["run", "--dataset-file=a", "--run-name=b"]),
        (["--run-name", "b", "--resume"], ["run", "--run-name=b", "--resume"]),
        (["--resume", "True", "--run_name", "b"], ["run", "--run-name=b", "--resume"]),
        (["--noresume", "--run_name=b"], ["run", "--run-name=b"]),
        (["f.jsonl", "5", "b"], ["run", "--dataset-file=f.jsonl", "--batch-size=5", "--run-name=b"]),
        (["--log_prefix_chars=20", "--max_samples=None"], ["run"]),
        (["--reasoning_effort=xhigh"], ["run", "--reasoning-effort=xhigh"]),
        (["--reasoning_effort=ultra"], ["run", "--reasoning-effort=max"]),
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
    assert main([*call, "--api-k", "sk-secret"]) == 2
    assert main([*call, "sk-secret"]) == 2
    error = capsys.readouterr().err
    assert "sk-secret" not in error
    assert "the name of an environment variable" in error
    assert "there is no option --api-k; is --api-key meant?" in error
    assert "values that belong to no option" in error


def test_an_option_in_the_spelling_of_python_is_told_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--dataset_file=p.jsonl", "--run_name=r"]) == 2
    error = capsys.readouterr().err
    assert "there is no option --dataset_file; is --dataset-file meant?" in error
    assert "there is no option --run_name; is --run-name meant?" in error


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


def test_a_mistyped_option_is_named_before_the_one_it_leaves_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "--datset-file", "p.jsonl", "--run-name", "r"]) == 2
    assert "no option --datset-file; is --dataset-file meant?" in capsys.readouterr().err


def test_errors_speak_of_the_options_of_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "batch_size").write_text('{"prompt": "a"}\n')
    call = ["run", "--dataset-file", str(tmp_path / "batch_size"), "--run-name", "r"]
    assert main([*call, "--batch-size", "0"]) == 2
    assert main([*call, "--row-timeout", "-1"]) == 2
    assert main(["run", "--dataset-file", str(tmp_path / "none/batch_size"), "--run-name", "r"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "hermes-batch: --batch-size is 0; it must be at least 1"
    assert lines[1].startswith("hermes-batch: --row-timeout is -1")
    assert lines[2].endswith("none/batch_size")


def test_the_help_names_no_default_that_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    text = capsys.readouterr().out
    assert "None" not in text
    assert "(default: 100)" in text


def test_the_version_is_that_of_the_wheel(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.strip() == f"hermes-batch {version('hermes-batch')}"


def test_standard_input_is_kept_for_the_second_reading_and_the_resume(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPTED_MAIN, "run", "--dataset-file", "-", "--run-name", "r"]
    rows = b'{"prompt": "a"}\n{"prompt": "b"}\n'
    for expected in ("2 ok", "2 ok"):
        done = subprocess.run(
            [*command, "--resume", "--keep-without-reasoning", "--output-dir", tmp_path / "d"],
            input=rows, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout.decode()
    kept = [path.name for path in (tmp_path / "d/r").iterdir() if "stdin" in path.name]
    assert len(kept) == 1
    assert (tmp_path / "d/r" / kept[0]).read_bytes() == rows


def test_what_a_killed_process_had_copied_of_standard_input_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, growing = tmp_path / ".stdin.left", tmp_path / ".stdin.growing"
    left.write_bytes(b"half")
    with growing.open("wb") as live:
        fcntl.flock(live, fcntl.LOCK_EX)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"prompt": "a"}\n')))
        kept = kept_standard_input(tmp_path)
    assert kept.read_bytes() == b'{"prompt": "a"}\n'
    assert sorted(tmp_path.iterdir()) == sorted([growing, kept])


def test_a_finished_run_says_so_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "a"}\n')
    command = [sys.executable, "-c", SCRIPTED_MAIN, "run", "--dataset-file", str(tmp_path / "p.jsonl")]
    command += ["--run-name", "r", "--output-dir", str(tmp_path), "--keep-without-reasoning", "--resume"]
    subprocess.run(command, check=True, capture_output=True)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stderr == "every row is finished; another run name begins a new run\n"


SCRIPTED_MAIN = """
import sys
from hermes_batch import cli
from hermes_batch.runner import BatchRunner
from hermes_batch.testing import ScriptedAgents, conversation

class Scripted(BatchRunner):
    def __init__(self, *args, **options):
        agents = ScriptedAgents(lambda prompt: conversation(prompt, answer="a"))
        super().__init__(*args, **options | {"agent_factory": agents})

cli.BatchRunner = Scripted
sys.exit(cli.main())
"""


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("set OPENAI_API_KEY, or pass api_key=...", "set OPENAI_API_KEY, or pass --api-key"),
        ("needs base_url=..., like https://host/v1", "needs --base-url, like https://host/v1"),
        ("give base_url= and model= of a server", "give --base-url and --model of a server"),
        ("or provider='local' for a small model", "or --provider local for a small model"),
        ("stop, set require_reasoning=False, and", "stop, set --keep-without-reasoning, and"),
        ("ProviderOptions(api_key=...), not both", "ProviderOptions(api_key=...), not both"),
        ("https://host/?model=a", "https://host/?model=a"),
    ],
)
def test_what_is_given_by_name_in_python_is_a_flag_on_the_command_line(said: str, shown: str) -> None:
    assert in_flags(said) == shown


def test_a_run_that_is_there_is_named_by_a_word_a_flag_or_its_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    agents = ScriptedAgents(lambda prompt: conversation(prompt, answer="x"))
    runner = BatchRunner(
        file, run_name="r", output_dir=tmp_path / "data", max_samples=1, agent_factory=agents,
        require_reasoning=False,
    )  # fmt: skip
    asyncio.run(runner.run())
    place = ["--output-dir", str(tmp_path / "data")]
    out = ["--output", str(tmp_path / "out.jsonl")]
    for named in (["r", *place], ["--run-name", "r", *place], [str(tmp_path / "data/r")]):
        for command in (["stats"], ["export", *out], ["merge"], ["view"]):
            assert main([*command, *named]) == 0, (command, named)
    told = capsys.readouterr().out
    assert (
        told.count("run r: 1 rows: 1 ok") == 6
    )  # the merge knows from the checkpoint what the run's rows are
    for command in (["stats"], ["merge"], ["export", *out], ["view"], ["compress"]):
        assert main([*command, *place]) == 2
        assert main([*command, "r", "--run-name", "r", *place]) == 2
    assert "stats takes the run: RUN or --run-name, one of them" in capsys.readouterr().err
    moved = file.rename(tmp_path / "q.jsonl")
    assert main(["merge", "r", *place]) == 2
    assert "is not there (a relative path is that of the directory where" in capsys.readouterr().err
    assert main(["merge", "r", *place, "--dataset-file", str(moved), "--max-samples", "1"]) == 0
    (tmp_path / "data/r/checkpoint.json").unlink()
    assert main(["merge", "r", *place]) == 2
    assert "name it with --dataset-file" in capsys.readouterr().err
