"""Damage: to the bytes of a file, and to what they mean (JSON, TOML, tables, tensors, archives) with the form kept."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tomllib
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

DEEP = "\ue000deep"  # stands for values that are nested very deep, which Python cannot hold
NESTED = "[" * 5000 + "]" * 5000
NUMBERS = (
    "0",
    "-1",
    "1.5",
    "9" * 19,
    "1" + "0" * 30,
    "1" + "0" * 400,
    "1" + "0" * 5000,
    "1e38",
    "1e400",
    "nan",
    "-inf",
    "٣",
    "1_0",
)
SNIPPETS = (
    b"\0", b"\0" * 64, b"\r", b"\r\n", b"\n\n", b"\t", b'"', b'""', b"'", b",", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3",
    b"\xed\xa0\x80", "\u2028é\u200b".encode(), b"<", b">", b"\\u00", b"\\", b"#", b" ", b"{", b"]", b"x" * 3000,
    *(number.encode() for number in NUMBERS),
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 3, 1.5, 2**31, 2**63, 2**64, 10**30, 10**400, -(10**400), 1e-300, 1e308, float("nan"),
    float("inf"), "", "x", "transe", "TransE", "TransH", "1", "\0", "\ud800", "a\nb\nc\nd\ne", "../x", "x" * 2000, [],
    {}, [[]], [1, "a"], [None], {"": None}, {"model": 1}, DEEP,
)  # fmt: skip


def damage(path: Path, rng: Random) -> None:
    """Damage one file, by its form where there is a way for that, or by its bytes."""
    content = path.read_bytes()
    ways = [way for ending, way in BY_FORM.items() if path.name.endswith(ending)]
    if ways and rng.random() < 0.6:
        # What is damaged already may have lost its form, and not all that is drawn can be written.
        with suppress(Exception):
            path.write_bytes(rng.choice(ways)(content, rng))
            return
    path.write_bytes(damaged_bytes(content, rng))


def damaged_bytes(content: bytes, rng: Random) -> bytes:
    """Flipped bits, blocks cut out, doubled, swapped or overwritten, and what does not belong there."""
    if not content:
        return rng.choice(SNIPPETS)
    place, other = (rng.randrange(len(content)) for _ in range(2))
    size = rng.choice((1, 4, 32, 256))
    way = rng.randrange(10)
    if way == 0:
        return content[:place]
    if way == 1:
        return content[:place] + content[place + size :]
    if way == 2:
        return content[:place] + content[place : place + size] * rng.choice((2, 3, 100)) + content[place + size :]
    if way == 3:
        first, second = sorted((place, other))
        block = content[second : second + size]
        moved = content[first : first + len(block)]
        between = content[first + len(block) : second]
        return content[:first] + block + between + moved + content[second + len(block) :]
    if way == 4 and rng.random() < 0.2:
        return b""
    if way in (4, 5, 6):
        return content[:place] + rng.choice(SNIPPETS) + content[place + rng.choice((0, 0, 1, 4)) :]
    if way == 7:
        for target, new in ((b"\n", b"\r"), (b"\n", b"\r\n"), (b"\t", b" "), (b",", b"\t")):
            if target in content and rng.random() < 0.5:
                return content.replace(target, new)
    if way == 8 and any(48 <= byte < 58 for byte in content):
        digits = [position for position, byte in enumerate(content) if 48 <= byte < 58]
        position = rng.choice(digits)
        return content[:position] + rng.choice(NUMBERS).encode() + content[position + 1 :]
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 4, 30))):
        found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found)


def damaged_value(value: Any, rng: Random) -> Any:
    """A value of JSON with one of the values in it replaced, removed, renamed or moved."""
    places = list(_places(value))
    if not places:
        return rng.choice(VALUES)
    holder, key = rng.choice(places)
    way = rng.randrange(8)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, dict):
        holder[rng.choice(("", "x", str(key).upper(), f"{key} "))] = holder.pop(key)
    elif way == 2:
        other_holder, other_key = rng.choice(places)
        holder[key] = json.loads(json.dumps(other_holder[other_key]))
    elif way == 3 and isinstance(holder, list):
        holder.extend(holder[: rng.choice((1, 2, 50))])
    elif way == 4:
        holder[key] = [holder[key]] if rng.random() < 0.5 else {"x": holder[key]}
    elif way == 5 and isinstance(holder[key], int | float):
        holder[key] = rng.choice(
            (-holder[key], holder[key] + 1, holder[key] * 1e30, str(holder[key]), float(holder[key]))
        )
    else:
        holder[key] = rng.choice(VALUES)
    return value


def _places(value: Any) -> Any:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(pairs):
        yield value, key
        yield from _places(inner)


def json_text(value: Any) -> bytes:
    """As JSON, with what stands for deep nesting nested deep."""
    return json.dumps(value, indent=1).replace(json.dumps(DEEP), NESTED).encode()


def _json(content: bytes, rng: Random) -> bytes:
    return json_text(damaged_value(json.loads(content), rng))


def _toml(content: bytes, rng: Random) -> bytes:
    found = damaged_value(tomllib.loads(content.decode()), rng)
    lines = [f"{name or 'x'} = {json.dumps(value)}".replace(json.dumps(DEEP), NESTED) for name, value in found.items()]
    words = {"NaN": "nan", "Infinity": "inf", "null": '""'}
    text = "\n".join(lines)
    for word, toml in words.items():
        text = text.replace(word, toml)
    return text.encode()


def _gzip(content: bytes, rng: Random) -> bytes:
    return gzip.compress(damaged_bytes(gzip.decompress(content), rng), mtime=0)


def _bzip2(content: bytes, rng: Random) -> bytes:
    return bz2.compress(damaged_bytes(bz2.decompress(content), rng))


def _zstd(content: bytes, rng: Random) -> bytes:
    with pa.input_stream(pa.py_buffer(content), compression="zstd") as stream:
        plain = damaged_bytes(stream.read(), rng)
    sink = io.BytesIO()
    with pa.output_stream(sink, compression="zstd") as stream:
        stream.write(plain)
        stream.flush()
        return sink.getvalue()


def _parquet(content: bytes, rng: Random) -> bytes:
    table = pq.read_table(pa.BufferReader(content))
    place = rng.randrange(table.num_columns)
    name, column = table.column_names[place], table.column(place).combine_chunks()
    way = rng.randrange(10)
    values = column.to_pylist()
    if way == 9:
        return content.replace(name.encode(), bytes(rng.choice((0xFF, 0xC3, 0x0A)) for _ in name))
    if way == 0:
        table = table.drop_columns([name])
    elif way == 1:
        names = list(table.column_names)
        names[place] = rng.choice(("", "x", name.upper(), "é\n", "label", names[0], "a" * 500))
        table = table.rename_columns(names)
    elif way == 2:
        table = table.slice(0, rng.choice((0, 1, table.num_rows // 2)))
    elif way == 3:
        table = table.set_column(place, name, column.cast(rng.choice(_TYPES)))
    elif way == 4:
        others = [rng.choice((None, -1, 10**6, 2**62, 0)) if not isinstance(value, str) else value for value in values]
        table = table.set_column(place, name, pa.array(others))
    elif way == 5:
        row = rng.randrange(max(1, len(values)))
        texts, numbers = (None, "", " ", "x\ny", values[0], "\u0000", "9" * 30), (None, -5, 2**40)
        values[row] = rng.choice(texts if isinstance(values[row], str) else numbers)
        table = table.set_column(place, name, pa.array(values))
    elif way == 6:
        odd = rng.choice(([1], {"a": 1}, None, b"\xff", 1.5, 0, True, "x", name))
        new = column.dictionary_encode() if odd == name else pa.array([odd] * len(values))
        table = table.set_column(place, name, new)
    elif way == 7:
        table = pa.concat_tables([table] * rng.choice((2, 5)))
    else:
        table = table.append_column(rng.choice((name, "extra", "degree", "label")), column)
    sink = io.BytesIO()
    pq.write_table(table, sink, compression=rng.choice(("snappy", "none", "zstd")))
    return sink.getvalue()


_TYPES = (
    pa.int8(), pa.uint8(), pa.int32(), pa.uint64(), pa.float16(), pa.float64(), pa.string(), pa.large_string(),
    pa.string_view(), pa.binary(), pa.bool_(), pa.timestamp("s"), pa.decimal128(30, 2),
)  # fmt: skip


def _npy(content: bytes, rng: Random) -> bytes:
    if rng.random() < 0.4:
        return _npy_header(content, rng)
    sink = io.BytesIO()
    np.save(sink, _array(np.load(io.BytesIO(content)), rng), allow_pickle=True)
    return sink.getvalue()


def _npy_header(content: bytes, rng: Random) -> bytes:
    """The same numbers under a header that says something else."""
    length = int.from_bytes(content[8:10], "little")
    header = content[10 : 10 + length].decode("latin1").rstrip()
    way = rng.randrange(4)
    if way == 0:
        sizes = (f"({rng.choice(NUMBERS)}, 4)", f"({rng.choice(NUMBERS)},)")
        shape = rng.choice((*sizes, "()", "(12, -1)", "(0, 0)", "[3]", "(True, 2)", "(4, 3, 2)", "(12, 1e3)"))
        before = header[: header.index("'shape'")]
        header = f"{before}'shape': {shape}, }}"
    elif way == 1:
        types = ("|O", "<f8", ">f4", "<c8", "|S4", "<U1", "|V4", "<i4", "<M8[s]", "x", "<f2")
        header = header.replace("<f4", rng.choice(types))
    elif way == 2:
        header = header.replace("False", rng.choice(("True", "None", "7")))
    else:
        header = damaged_bytes(header.encode(), rng).decode("latin1")
    text = header.encode("latin1")
    text += b" " * ((-11 - len(text)) % 64) + b"\n"
    return content[:8] + (len(text) & 0xFFFF).to_bytes(2, "little") + text + content[10 + length :]


def _array(array: Any, rng: Random) -> Any:
    """Another array: shape, type or numbers."""
    way = rng.randrange(9)
    if way == 0:
        kinds = ("f2", "f8", ">f4", "c8", "c16", "i4", "i8", "u1", "?", "S3", "U3", "O", "M8[s]", "longdouble")
        return array.astype(rng.choice(kinds))
    if way == 1:
        shapes = (
            array.reshape(-1),
            array[None],
            array[:, :0],
            array[:0],
            array[0, 0],
            array[:, :1],
            array[1:],
            array.T,
        )
        return rng.choice(shapes)
    if way == 2:
        return np.asfortranarray(array)
    if way == 3:
        return np.array(rng.choice(VALUES), dtype=object)
    array = array.copy()
    value = rng.choice((np.nan, np.inf, -np.inf, 1e38, -1e30, 1e-45, 0.0, 3.0))
    if way == 4:
        array[...] = value
    elif way == 5:
        array[rng.randrange(len(array))] = value
    else:
        array.flat[rng.randrange(array.size)] = value
    return array


def _tensor(tensor: torch.Tensor, rng: Random) -> Any:
    """Another tensor, or something that is none."""
    way = rng.randrange(14)
    if way == 0:
        return tensor.to_sparse()
    if way == 1:
        return tensor[:1].expand(tensor.shape[0], *tensor.shape[1:])
    if way == 2:
        kinds = ("float16", "bfloat16", "float64", "complex64", "int64", "bool", "uint8", "float8_e4m3fn")
        return tensor.to(getattr(torch, rng.choice(kinds)))
    if way == 3:
        return torch.nn.Parameter(tensor)
    if way == 4:
        return tensor.to_sparse_csr()
    if way == 5:
        return rng.choice((tensor.T, tensor[::2], tensor[:, ::2], tensor[:0], tensor[:, :0], tensor.reshape(-1)))
    if way == 6:
        return torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8)
    if way == 7:
        return rng.choice(VALUES[:-1])
    if way == 8:
        return tensor.to("meta")
    if way == 9:
        return tensor.tolist()
    if way == 10:
        return torch.nested.nested_tensor([tensor[0], tensor[0, :1]])
    return torch.from_numpy(np.ascontiguousarray(_array(tensor.numpy(), rng)))


def _torch(content: bytes, rng: Random) -> bytes:
    if content[:2] == b"PK" and rng.random() < 0.3:
        return _zip(content, rng)
    found = torch.load(io.BytesIO(content), weights_only=True)
    places = list(_places(found))
    holder, key = rng.choice(places)
    tensors = [(one, name) for one, name in places if isinstance(one[name], torch.Tensor)]
    way = rng.randrange(8)
    if way == 0:
        del holder[key]
    elif way == 1:
        holder[rng.choice(("", "x", 0, None, (1, 2), "model_state_dict", "state_dict"))] = holder[key]
    elif way == 2:
        holder[key] = rng.choice(VALUES[:-1])
    elif way == 3:
        wrapped = ({"model_state_dict": found}, {"state_dict": [found]}, (found, 1))
        found = rng.choice((list(found.values()), found[next(iter(found))], *wrapped))
    else:
        holder, key = rng.choice(tensors)
        holder[key] = _tensor(holder[key], rng)
    sink = io.BytesIO()
    torch.save(found, sink)
    return sink.getvalue()


def _zip(content: bytes, rng: Random) -> bytes:
    """An archive with one of its files damaged, left out or doubled."""
    sink = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(sink, "w") as target:
        names = source.namelist()
        chosen = rng.choice([name for name in names if name.endswith("data.pkl")] if rng.random() < 0.5 else names)
        for name in names:
            data = source.read(name)
            if name == chosen:
                if rng.random() < 0.1:
                    continue
                data = damaged_bytes(data, rng)
            target.writestr(zipfile.ZipInfo(name), data)
    return sink.getvalue()


def _safetensors(content: bytes, rng: Random) -> bytes:
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    told = header.get("__metadata__", {}).get("ookg")
    if told is not None and rng.random() < 0.6:
        header["__metadata__"]["ookg"] = json_text(damaged_value(json.loads(told), rng)).decode()
    elif rng.random() < 0.3:
        name = rng.choice([name for name in header if name != "__metadata__"])
        start, end = header[name]["data_offsets"]
        is_whole = header[name]["dtype"] == "I64"
        numbers = np.frombuffer(data[start:end], "<i8" if is_whole else "<f4").copy()
        numbers[rng.randrange(len(numbers))] = rng.choice((0, -1, 7, 10**6) if is_whole else (np.nan, np.inf, 1e38, 0))
        data = data[:start] + numbers.tobytes() + data[end:]
    elif rng.random() < 0.4:
        entry = header[rng.choice([name for name in header if name != "__metadata__"])]
        entry["shape"], entry["dtype"] = rng.choice(
            (
                ([*entry["shape"], 1], entry["dtype"]),
                (entry["shape"][::-1], entry["dtype"]),
                ([int(np.prod(entry["shape"]))], entry["dtype"]),
                (entry["shape"], rng.choice(("I32", "U32")) if entry["dtype"] == "F32" else "F64"),
                ([2 * n for n in entry["shape"][:1]] + entry["shape"][1:], "F16"),
            )
        )
    else:
        header = damaged_value(header, rng)
    text = json_text(header)
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def _hdf5(content: bytes, rng: Random) -> bytes:
    sink = io.BytesIO(content)
    with h5py.File(sink, "r+") as file:
        names: list[str] = []
        file.visit(names.append)
        name = rng.choice(names)
        old = file[name]
        array = old[...] if isinstance(old, h5py.Dataset) else np.zeros((3, 4), np.float32)
        way = rng.randrange(9)
        if way == 0:
            file[f"{name}-again" if rng.random() < 0.5 else "model/loop"] = file
            return _flushed(file, sink)
        if way == 1:
            array = _array(np.atleast_2d(array), rng)
        del file[name]
        if way == 1:
            file[name] = array
        elif way == 2:
            file[name] = h5py.SoftLink(rng.choice((f"/{name}", "/", "/nowhere")))
        elif way == 3:
            file[name] = h5py.ExternalLink("model.v7.h5", rng.choice(("/", name)))
        elif way == 4:
            file[name] = h5py.Empty("f4")
        elif way == 5:
            file.create_group(name)["x"] = array
        elif way == 6:
            file[name] = np.zeros(3, dtype=[("a", "f4"), ("b", "i4")])
        elif way == 7:
            file[name] = rng.choice(("text", 1.5, np.array([b"x"]), np.dtype("f4")))
        return _flushed(file, sink)


def _flushed(file: Any, sink: io.BytesIO) -> bytes:
    file.close()
    return sink.getvalue()


Way = Callable[[bytes, Random], bytes]
BY_FORM: dict[str, Way] = {
    ".json": _json,
    ".toml": _toml,
    ".gz": _gzip,
    ".bz2": _bzip2,
    ".zst": _zstd,
    ".parquet": _parquet,
    ".npy": _npy,
    ".pt": _torch,
    ".ckpt": _torch,
    "checkpoint": _torch,
    ".safetensors": _safetensors,
    ".h5": _hdf5,
}
