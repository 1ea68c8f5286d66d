"""Damaged inputs that once ended in a traceback: each is refused in one line that names the file or option."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file

from fuzz.inputs import TRAINING, seal, write_inputs
from ookg.cli import main
from ookg.errors import LONGEST, InputError
from ookg.graph.triples import as_triples
from ookg.newcomers.embedder import NeighborLimit
from ookg.newcomers.refinement import RefineSettings
from ookg.storage.checkpoint import STATE_FILE
from ookg.training.settings import TrainingSettings

DEEP = "[" * 5000 + "]" * 5000
HUGE = "1" + "0" * 30


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    write_inputs(folder)
    return folder


@pytest.fixture
def place(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sound inputs, to be damaged."""
    shutil.copytree(sound, tmp_path / "inputs")
    monkeypatch.chdir(tmp_path / "inputs")
    return tmp_path / "inputs"


def refusal(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    """The one line that a command refuses its input with."""
    try:
        code = main(line)
    except SystemExit as end:  # argparse
        code = end.code  # type: ignore[assignment]
    lines = capsys.readouterr().err.splitlines()
    messages = [text for text in lines if text.startswith("ookg: ")]
    assert (code, len(messages)) == (2, 1), lines
    assert lines[-1] == messages[0]
    return messages[0]


def change(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_csv_with_lone_carriage_returns(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("graph.csv", "graph.tsv"):
        path = place / "triples" / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r"))
        message = refusal(capsys, "train", str(path), "--out", "m")
        assert f"{name}:1: a carriage return inside the line" in message
        assert "newline" in message


@pytest.mark.parametrize("importer", ["pykeen", "arrays-safetensors"])
def test_a_damaged_gzip_of_labels(place: Path, capsys: pytest.CaptureFixture[str], importer: str) -> None:
    damaged = gzip.compress(b"0\te0\n", mtime=0)[:10] + b"\xff" * 20
    folder = place / "import" / importer
    options = ["--model", "transe"]
    path = folder / "training_triples" / "entity_to_id.tsv.gz"
    if importer != "pykeen":
        path = folder / "entities.tsv.gz"
        options = ["--entities", str(path)]
    path.write_bytes(damaged)
    message = refusal(capsys, "import", importer.partition("-")[0], str(folder), "--out", "m", *options)
    assert path.name in message


@pytest.mark.parametrize("changes", [{"unit_norm": None}, {"unit_norm": 10**400}, {"squared": "yes"}])
def test_arrays_with_a_wrong_description(
    place: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any]
) -> None:
    change(place / "import" / "arrays-npy" / "vectors.json", **changes)
    message = refusal(capsys, "import", "arrays", "import/arrays-npy", "--out", "m")
    assert f"vectors.json: squared is {changes.get('squared', False)!r}" in message
    assert "expected true or false, and 0, 1 or 2" in message


def test_a_model_of_dgl_ke_that_it_does_not_have(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(place / "import" / "dgl-ke" / "config.json", model_name="transe")
    message = refusal(capsys, "import", "dgl-ke", "import/dgl-ke", "--out", "m")
    assert "config.json: model_name is 'transe'; expected one of TransE_l1" in message


@pytest.mark.parametrize("shape", [f"({HUGE}, 4)", "(4, "])
def test_an_array_with_a_damaged_header(place: Path, capsys: pytest.CaptureFixture[str], shape: str) -> None:
    path = place / "import" / "dgl-ke" / "FB15k_TransE_l2_entity.npy"
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    message = refusal(capsys, "import", "dgl-ke", "import/dgl-ke", "--out", "m")
    assert "FB15k_TransE_l2_entity.npy: not an array of numbers" in message


def _nested() -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(1)])


@pytest.mark.filterwarnings("ignore")  # of PyTorch, about layouts that may change
@pytest.mark.parametrize(
    ("kind", "tensor"),
    [
        ("sparse", torch.eye(12).to_sparse()),
        ("nested", None),
        ("meta", torch.empty(12, 4, device="meta")),
    ],
)
def test_tensors_that_are_no_arrays(
    place: Path, capsys: pytest.CaptureFixture[str], kind: str, tensor: torch.Tensor | None
) -> None:
    path = place / "import" / "pyg" / "model.pt"
    found = torch.load(path, weights_only=True)
    torch.save(found | {"node_emb.weight": _nested() if tensor is None else tensor}, path)
    message = refusal(capsys, "import", "pyg", str(path), "--model", "transe", "--out", "m")
    assert f"node_emb.weight is a {kind} tensor; save plain, dense tensors" in message


@pytest.mark.parametrize("name", ["embeddings_user_0.v7.h5", "model.v7.h5"])
def test_links_in_a_circle_and_empty_data_sets_in_hdf5(
    place: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = place / "import" / "biggraph" / name
    inside = "embeddings" if name.startswith("emb") else "model"
    for link, problem in (
        (h5py.SoftLink(f"/{inside}"), f"{inside!r} is a link to another place; write the checkpoint again"),
        (h5py.Empty("f4"), "; restore the checkpoint"),
    ):
        with h5py.File(path, "a") as file:
            del file[inside]
            file[inside] = link
        message = refusal(
            capsys, "import", "biggraph", "import/biggraph", "--vocabulary", "import/biggraph", "--out", "m"
        )
        assert name in message
        assert problem in message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"dim = {DEEP}", "not TOML"),
        (f"margin = 1{'0' * 400}", "margin is 1000"),
        (f"dim = 1{'0' * 5000}", "not TOML"),
        (f"relation_dim = {HUGE}", "it must be at most"),
    ],
)
def test_settings_that_are_too_deep_or_too_large(
    place: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    (place / "settings.toml").write_text(f'{text}\nmodel = "transr"\n')
    message = refusal(capsys, "train", "triples/graph.tsv", "--out", "m", "--config", "settings.toml")
    assert "settings.toml: " in message
    assert problem in message


@pytest.mark.parametrize(
    ("name", "column", "values", "problem"),
    [
        ("entities", "entity", range(12), "column 'entity' is int64"),
        ("relations", "relation", ["r0", None, "r2"], "with 1 gaps"),
        ("triples", "tail", None, "column 'tail' has numbers from 0 to 12"),
        ("triples", "relation", None, "expected 0 or more and below 3"),
        ("cooccurrence", "other", None, "column 'other'"),
        ("entities", "degree", [1.5] * 12, "column 'degree' is double"),
    ],
)
def test_tables_of_a_model_of_version_1_that_hold_something_else(
    place: Path, capsys: pytest.CaptureFixture[str], name: str, column: str, values: Any, problem: str
) -> None:
    _change_table(place / "rotate" / "model", name, column, values)
    message = refusal(capsys, "embed", "rotate/model", "triples/graph.tsv", "--out", "v.parquet")
    assert problem in message
    assert "damaged model" in message


@pytest.mark.parametrize(
    ("name", "column", "command", "problem"),
    [
        ("triples", "tail", "audit", "column 'tail' has numbers from 0 to 12"),
        ("triples", "relation", "audit", "expected 0 or more and below 3"),
        ("cooccurrence", "other", "embed", "column 'other'"),
    ],
)
def test_tables_of_a_model_that_hold_something_else(
    place: Path, capsys: pytest.CaptureFixture[str], name: str, column: str, command: str, problem: str
) -> None:
    _change_table(place / "model" / "model", name, column, None)
    more = ["triples/graph.tsv", "--out", "v.parquet"] if command == "embed" else []
    message = refusal(capsys, command, "model/model", *more)
    assert problem in message
    assert "model/model: damaged model (" in message


def _change_table(model: Path, name: str, column: str, values: Any) -> None:
    path = model / "data-00000000" / f"{name}.parquet"
    table = pq.read_table(path)
    if values is None:  # an id that is one too high
        values = table[column].to_numpy().copy()
        values[0] = 12
    changed = table.set_column(table.column_names.index(column), column, pa.array(values))
    pq.write_table(changed, path)
    seal(model)


@pytest.mark.parametrize(
    ("name", "array", "change", "problem"),
    [
        ("entities", "text", lambda text: text.astype(np.int16), "'text' is int16 of shape"),
        ("entities", "text", lambda text: text[:-1], "labels that do not fill"),
        ("entities", "text", lambda text: np.full_like(text, 255), "damaged model file (Invalid UTF8"),
        ("entities", "offsets", lambda offsets: offsets.astype(np.float32), "'offsets' is float32"),
        ("entities", "offsets", lambda offsets: _with(offsets, 3, -7), "damaged model file ("),
        ("entities", "offsets", lambda offsets: offsets[:0], "labels that do not fill"),
        ("entities", "order", lambda order: order[1:], "11 places in the order of 12 labels"),
        ("relations", "offsets", lambda offsets: _with(offsets, 1, 1 << 20), "damaged model file ("),
        ("index", "offsets", lambda offsets: _with(offsets, 1, 1000), "the rows of the index are not in order"),
        ("index", "offsets", lambda offsets: _with(offsets, -1, 7), "an index of 7 rows"),
        ("index", "offsets", lambda offsets: offsets[1:], "an index of 11 entities instead of 12"),
        ("index", "link", lambda link: _with(link, 0, 6), "links from 0 to 6, expected 0 or more and below 6"),
        ("index", "other", lambda other: _with(other, 0, -1), "entities from -1 to 11"),
        ("index", "degree", lambda degree: _with(degree, 0, -1), "degrees that are not those of the index"),
    ],
)
def test_arrays_of_a_model_that_hold_something_else(
    place: Path, capsys: pytest.CaptureFixture[str], name: str, array: str, change: Any, problem: str
) -> None:
    path = place / "model" / "model" / "data-00000000" / f"{name}.safetensors"
    arrays = load_arrays(path)
    save_arrays(arrays | {array: change(arrays[array])}, path)
    seal(place / "model" / "model")
    message = refusal(capsys, "export", "model/model", "--out", "out", "--given", "triples/graph.tsv")
    assert problem in message
    assert "damaged model" in message


def _with(numbers: Any, place: int, value: int) -> Any:
    changed = numbers.copy()
    changed[place] = value
    return changed


def test_parquet_with_damaged_names_of_columns(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = place / "triples" / "graph.parquet"
    path.write_bytes(path.read_bytes().replace(b"relation", b"\xff" * 8))
    message = refusal(capsys, "train", str(path), "--out", "m")
    assert "graph.parquet: damaged Parquet data" in message


@pytest.mark.parametrize(
    "option",
    ["--relation-dim", "--seed", "--dim", "--columns", "--lr", "--steps", "--validate-every"],
)
def test_options_of_training_beyond_all_bounds(place: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    value = {"--columns": f"1,2,{HUGE * 200}", "--lr": "1e38"}.get(option, HUGE)
    line = ("train", "triples/graph.tsv", "--out", "m", *TRAINING, "--model", "transr", option, value)
    assert ("training diverged" if option == "--lr" else HUGE) in refusal(capsys, *line)


def test_numbers_that_fit_and_are_a_mistake_all_the_same(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ("train", "triples/graph.tsv", "--out", "m", *TRAINING, "--validate-every", str(2**62))
    assert f"--validate-every {2**62}; it must be at most 1,000,000,000,000" in refusal(capsys, *line)


@pytest.mark.parametrize("option", ["--max-neighbors", "--neighbor-seed", "--columns", "--refine-seed"])
def test_options_of_predict_beyond_64_bits(place: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    line = ("predict", "model/model", "--given", "triples/graph.tsv", "--head", "new0", "--relation", "r0")
    value = f"1,2,{HUGE * 200}" if option == "--columns" else HUGE
    assert HUGE in refusal(capsys, *line, option, value)


def test_an_option_without_a_value(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ("import", "arrays", "import/arrays-npy", "--out", "m", "--vocabulary=--")
    assert "'--vocabulary=--'; -- is no value" in refusal(capsys, *line)


def test_the_library_refuses_the_same_numbers() -> None:
    with pytest.raises(InputError, match=r"below 2\^63"):
        NeighborLimit(10**30)
    with pytest.raises(InputError, match=r"temperature 1e\+38; it must be at most"):
        TrainingSettings(temperature=1e38)
    with pytest.raises(InputError, match=r"steps .*; it must be at most"):
        RefineSettings(steps=10**30)
    with pytest.raises(InputError, match="a number that a float can hold"):
        RefineSettings().changed({"margin": 10**400})
    with pytest.raises(InputError, match="cannot be read"):
        as_triples(_Unreadable())


class _Unreadable:
    """A frame whose numbers Arrow cannot hold."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        raise OverflowError("Python int too large to convert to C long")


def test_labels_that_are_not_unicode(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "import" / "biggraph" / "entity_names_user_0.json").write_text('["\\ud800", "b", "c", "d"]')
    message = refusal(capsys, "import", "biggraph", "import/biggraph", "--vocabulary", "import/biggraph", "--out", "m")
    assert "label '\\ud800' is not Unicode text" in message


def test_a_result_nested_deep(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "results" / "results" / "FB15k-Head-10" / "InvTransE" / "seed-0.json").write_text(DEEP)
    assert "seed-0.json: damaged result" in refusal(capsys, "reproduce", "--from-results", "--out", "results/results")


def test_times_that_are_no_positive_numbers(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = place / "results" / "results" / "efficiency" / "a-device.json"
    found = json.loads(path.read_text())
    found["representation"][0]["seconds"] = float("inf")
    path.write_text(json.dumps(found))
    assert main(["reproduce", "--from-results", "--out", "results/results", "--table", "efficiency"]) == 2
    written = capfd.readouterr()
    assert "a-device.json: damaged result" in written.err
    assert written.out == ""  # LAPACK writes there of what it is given


def test_a_training_state_with_steps_that_are_text(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = place / "state" / "run" / STATE_FILE
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["ookg"])
    save_file(load_file(path), path, {"ookg": json.dumps(header | {"validations": [["two", 0.5]]})})
    message = refusal(capsys, "train", "triples/graph.tsv", "--out", "state/run", "--resume", *TRAINING)
    assert "damaged training state" in message


def test_vectors_that_are_no_numbers_determine_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = place / "transr" / "model" / "data-00000000" / "vectors.safetensors"
    tables = load_file(path)
    tables["relations"][:] = float("nan")
    save_file(tables, path)
    assert "NaN or infinity" in refusal(capsys, "determinacy", "transr/model")


def test_a_message_is_one_line_that_can_be_read() -> None:
    error = InputError(f"x.tsv: line\nbreaks and {'x' * 10_000}; the remedy")
    assert len(str(error)) == LONGEST
    assert str(error).startswith("x.tsv: line breaks and x")
    assert str(error).endswith("; the remedy")
    assert np.all([InputError(text).args[0] == text for text in ("a; b", "ü")])
