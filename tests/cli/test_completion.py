"""What a shell is told about the commands, and what `ookg` alone says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ookg.cli import COMMANDS, main


def test_without_a_command_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage: ookg")
    assert all(name in shown for name in COMMANDS)


def test_bash_completes_commands_options_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "ookg.bash"
    script.write_text(capsys.readouterr().out, encoding="utf-8")
    (tmp_path / "graph.tsv").touch()

    def completed(*words: str) -> list[str]:
        line = " ".join(words)
        quoted = " ".join(f"'{word}'" for word in words)
        bash = f"""
            complete() {{ :; }}
            source {script}
            COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; COMP_LINE='{line}'; COMP_POINT={len(line)}
            _shtab_ookg; printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        return subprocess.run(
            ["bash", "-c", bash], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.split()

    assert completed("ookg", "pred") == ["predict"]
    assert "--relation" in completed("ookg", "predict", "--rel")
    assert completed("ookg", "train", "gra") == ["graph.tsv"]


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_get_a_script_too(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "predict" in capsys.readouterr().out


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["completion", "cmd"])
    assert stop.value.code == 2
    assert "bash" in capsys.readouterr().err
