"""A method and a data set of one's own, from the command line to the LaTeX table."""

from __future__ import annotations

import json
import re
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

from ookg.cli import main
from ookg.demo.tour import film_graph
from ookg.graph.triples import write_triples
from ookg.research.reproduction import methods
from ookg.research.reproduction.methods import METHODS, OWN_SETS, own
from ookg.research.reproduction.rendering import differs, half_interval
from ookg.research.reproduction.tables import Cell

SETTINGS = "dim = 16\nsteps = 60\nbatch = 256\nnegatives = 8\nlr = 0.02\nmargin = 6.0\nlr_drops = []\n"


def documented(name: str) -> str:
    """A file of the documentation."""
    page = (Path(__file__).parents[2] / "docs" / "own-method.md").read_text(encoding="utf-8")
    found = re.search(rf"```python\n(# {re.escape(name)}\n.*?)```", page, re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.fixture(autouse=True)
def forgotten() -> None:
    """What a test registers is not there in the next one."""
    known = set(METHODS)
    OWN_SETS.clear()
    for name in [name for name in METHODS if isinstance(METHODS[name], methods.OwnMethod)]:
        del METHODS[name]
    assert known


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_triples("films.tsv", film_graph())
    assert main(["datasets", "split", "films.tsv", "--out", "mine", "--share", "0.1"]) == 0
    Path("median.py").write_text(documented("median.py"), encoding="utf-8")
    Path("settings.toml").write_text(SETTINGS, encoding="utf-8")
    return tmp_path


def reproduce(*options: str) -> int:
    places = ["--models", "models", "--device", "cpu"]
    return main(["reproduce", "--dataset", "mine", "--config", "settings.toml", *places, *options])


def test_an_own_method_stands_beside_the_papers_in_latex(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce("--method", "median.py", "InvTransE", "--seeds", "2", "--format", "latex", "--interval") == 0
    shown = capsys.readouterr().out
    lines = [line for line in shown.splitlines() if line.startswith("mine &")]
    assert [line.split(" & ")[1] for line in lines] == ["InvTransE", "Median of candidates"]
    assert all(line.endswith(r"& 2 \\") and r"$\pm$" in line for line in lines)
    assert shown.startswith(r"\begin{table}")
    assert shown.count(r"\textbf") == 3  # MRR, Hits@10 and Hits@1 of the better one
    stored = json.loads((place / "results" / "mine" / "Median of candidates" / "seed-0.json").read_text("utf-8"))
    assert 0 < stored["figures"]["mrr"] < 1
    # Nothing is left to do, and the stored results are what is shown.
    assert reproduce("--method", "median.py", "InvTransE", "--from-results", "--format", "markdown") == 0
    assert "| mine | Median of candidates |" in capsys.readouterr().out


def test_a_changed_file_is_another_method(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce("--method", "median.py") == 0
    text = (place / "median.py").read_text("utf-8")
    (place / "median.py").write_text(text.replace("np.median", "np.mean"), encoding="utf-8")
    del METHODS["Median of candidates"]
    capsys.readouterr()
    assert reproduce("--method", "median.py") == 2
    assert "made with other settings than now; remove it" in capsys.readouterr().err


def test_changed_data_are_another_data_set(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce("--method", "median.py") == 0
    test = place / "mine" / "test.txt"
    test.write_text("".join(test.read_text("utf-8").splitlines(keepends=True)[:-1]), encoding="utf-8")
    capsys.readouterr()
    assert reproduce("--method", "median.py") == 2
    assert "made with other settings than now; remove it" in capsys.readouterr().err
    (place / "other").mkdir()
    (place / "mine").rename(place / "other" / "mine")
    assert main(["datasets", "split", "films.tsv", "--out", "mine"]) == 0
    OWN_SETS.clear()
    assert main(["reproduce", "--dataset", "mine", "other/mine", "--method", "median.py", "--from-results"]) == 2
    assert "rename one of the folders" in capsys.readouterr().err


def test_a_scorer_of_ones_own_is_evaluated(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "popular.py").write_text(documented("popular.py"), encoding="utf-8")
    assert reproduce("--method", "popular.py", "--format", "markdown") == 0
    assert "| mine | popular |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1\n", "0 of the functions vectors and scorer; define one of them"),
        ("raise ValueError('no')\n", "cannot be imported (ValueError: no); mend it"),
        ("NAME = 'InvTransE'\ndef vectors(context): ...\n", "as one of the tables is; set another NAME"),
        ("NAME = 'a/b'\ndef vectors(context): ...\n", "it must be a text without slashes"),
        ("MODEL = 'x'\ndef vectors(context): ...\n", "choose transe or rotate"),
        ("TASKS = ('x',)\ndef vectors(context): ...\n", "choose among link-prediction"),
        ("def vectors(context): return [[1.0]]\n", "an array of shape (1, 1); it must be"),
        ("def scorer(context): return 3\n", "gave a int; return an ookg.scoring.scorer.Scorer"),
        ("def vectors(context):\n    return context.nothing\n", "line 2: AttributeError"),
        (
            "from ookg.scoring.scorer import Scorer\nclass S(Scorer):\n    num_known = num_relations = 1\n"
            "    def answerable(self, queries): return 1 / 0\n    def scores(self, triples): ...\n"
            "    def answer_scores(self, queries): ...\ndef scorer(context): return S()\n",
            "line 4: ZeroDivisionError",
        ),
    ],
)
def test_a_file_that_is_no_method_is_refused(
    place: Path, text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "bad.py").write_text(text, encoding="utf-8")
    capsys.readouterr()
    assert reproduce("--method", "bad.py") == 2
    shown = capsys.readouterr().err.strip().splitlines()[-1]
    assert problem in shown


def test_unknown_names_say_what_there_is(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce("--method", "nosuch.py") == 2
    assert "no such file" in capsys.readouterr().err
    assert main(["reproduce", "--dataset", "nosuch", "--from-results"]) == 2
    assert "a folder can be one" in capsys.readouterr().err


def test_a_package_can_bring_a_method(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(vectors=lambda context: None, NAME="From a package", __name__="m", __file__=None)
    entry = EntryPoint("mine", "m", own.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: module)
    monkeypatch.setattr(own, "entry_points", lambda group: [entry])
    found = own.own_method("Mine")
    assert found is not None
    assert found.name == "From a package"
    assert own.own_method("other") is None


def test_intervals_and_tests_are_those_of_student_and_welch() -> None:
    better, worse, same, single = (
        Cell("own", "d", name, "mrr", None, ours, spread, seeds)
        for name, ours, spread, seeds in (
            ("a", 0.5, 0.01, 3),
            ("b", 0.4, 0.01, 3),
            ("c", 0.495, 0.01, 3),
            ("d", 0.1, None, 1),
        )
    )
    assert half_interval(better) == pytest.approx(4.302653 * 0.01 / 3**0.5, rel=1e-5)
    assert half_interval(single) is None
    assert differs(worse, better)
    assert not differs(same, better)
    assert not differs(single, better)
    assert not differs(better, better)
