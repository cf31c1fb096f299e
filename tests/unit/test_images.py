"""Sets of images: IDX files as they should be and as they are not, downloads, digits, pixels."""

import gzip
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from data_folder import data_folder
from deltaai.errors import ConfigError, DeltaAIError, FormatError, StateError
from deltaai.io import ImageSet, binarised, image_set, read_digits, read_mnist
from deltaai.io.images import mnist as mnist_module
from deltaai.randomness import generator_of

NAMES = tuple(mnist_module._CHECKSUMS)


def idx(values):
    values = np.asarray(values, dtype=np.uint8)
    sizes = struct.pack(f">{values.ndim}I", *values.shape)
    return bytes((0, 0, 8, values.ndim)) + sizes + values.tobytes()


def contents():
    """A small MNIST: three images to learn from and two to judge by, of 2 x 2 pixels."""
    pixels = np.arange(20).reshape(5, 2, 2) * 10
    return dict(zip(NAMES, map(idx, (pixels[:3], [3, 1, 0], pixels[3:], [2, 2])), strict=True))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("DELTAAI_DATA_DIR", raising=False)
    for name, content in contents().items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
    return tmp_path


def test_four_small_files(folder):
    images = read_mnist(folder)
    assert (images.name, images.side, images.num_pixels, images.num_classes) == ("mnist", 2, 4, 4)
    assert torch.equal(images.train[1] * 255, torch.tensor([40.0, 50.0, 60.0, 70.0]))
    assert images.train_labels.tolist() == [3, 1, 0]
    assert images.test_labels.tolist() == [2, 2]
    assert images.train.dtype == torch.float32
    assert len(images.test) == 2


def test_files_that_are_not_compressed_in_a_folder_of_the_folder(tmp_path, monkeypatch):
    (tmp_path / "mnist").mkdir()
    for name, content in contents().items():
        (tmp_path / "mnist" / name).write_bytes(content)
    monkeypatch.setenv("DELTAAI_DATA_DIR", str(tmp_path))
    assert torch.equal(image_set("mnist").test, read_mnist(tmp_path / "mnist").test)


def packed(change):
    return lambda content: gzip.compress(change(content))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (packed(lambda content: content[:-1]), "11 bytes follow where 3 x 2 x 2 = 12 should"),
        (packed(lambda content: content + b"x"), "more than 12 bytes follow"),
        (packed(lambda content: content[:9]), "cut short in its first line"),
        (packed(lambda content: b""), "begins with nothing, not with 00 00 08 03"),
        (packed(lambda content: b"\x00\x00\x0d\x03" + content[4:]), "begins with 00 00 0d 03"),
        (packed(lambda content: content[:4] + b"\xff" * 12), "not MNIST"),
        (lambda content: gzip.compress(content)[:-9], "damaged or cut short"),
        (lambda content: content, "damaged or cut short"),
    ],
)
def test_broken_files_are_one_clear_line(folder, change, message):
    path = folder / f"{NAMES[0]}.gz"
    path.write_bytes(change(contents()[NAMES[0]]))
    with pytest.raises(FormatError, match=message) as caught:
        read_mnist(folder)
    assert str(path) in str(caught.value)
    assert str(caught.value).isprintable()


def test_missing_and_swapped_files(folder, tmp_path_factory, as_a_user_runs_it):
    with pytest.raises(FormatError, match="no MNIST here or in its folder mnist"):
        read_mnist(tmp_path_factory.mktemp("empty"))
    (folder / f"{NAMES[1]}.gz").write_bytes(gzip.compress(contents()[NAMES[3]]))
    with pytest.raises(StateError, match="give a class from 0 on for each of 3"):
        read_mnist(folder)
    (folder / f"{NAMES[1]}.gz").unlink()
    with pytest.raises(FormatError, match="there is no such file"):
        read_mnist(folder)
    with pytest.raises(ConfigError, match="data_dir is 3"):
        read_mnist(3)
    with pytest.raises(ConfigError, match="did you mean 'mnist'"):
        image_set("mnits")


def test_without_a_folder_files_are_fetched_and_checked(folder, monkeypatch):
    asked = []

    def retrieve(url, known_hash, fname, path):
        asked.append((url.rpartition("/")[2], known_hash.partition(":")[0], path.name))
        return str(folder / fname)

    fake = SimpleNamespace(retrieve=retrieve, os_cache=lambda name: Path("cache", name))
    monkeypatch.setitem(sys.modules, "pooch", fake)
    assert len(read_mnist().train) == 3
    assert asked == [(f"{name}.gz", "sha256", "mnist") for name in NAMES]


def test_offline_and_without_pooch_one_line_says_what_to_pass(folder, monkeypatch):
    def fail(**_):
        raise OSError("name resolution\nfailed")

    fake = SimpleNamespace(retrieve=fail, os_cache=lambda name: Path("cache", name))
    monkeypatch.setitem(sys.modules, "pooch", fake)
    with pytest.raises(DeltaAIError, match=r"cannot download MNIST .*data_dir.*DELTAAI_DATA_DIR"):
        read_mnist()
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DeltaAIError, match=r"\[data\].*data_dir.*DELTAAI_DATA_DIR") as caught:
        read_mnist()
    assert str(caught.value).isprintable()


def test_digits():
    digits = image_set("digits")
    assert (len(digits.train), len(digits.test), digits.side) == (1400, 397, 8)
    assert float(digits.train.max()) == 1.0
    assert torch.equal(digits.test, read_digits().test)


def test_the_real_files():
    images = read_mnist(data_folder("mnist"))
    assert images.train.shape == (60_000, 784)
    assert images.test.shape == (10_000, 784)
    assert images.test_labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert float(images.train.mean()) == pytest.approx(0.1307, abs=1e-4)


def test_pixels_are_drawn_from_grey_levels():
    grey = torch.tensor([[0.0, 0.3, 1.0]]).expand(4000, 3)
    drawn = binarised(grey, generator_of(0))
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    assert drawn.mean(0).tolist() == pytest.approx([0.0, 0.3, 1.0], abs=0.03)
    assert torch.equal(drawn, binarised(grey, generator_of(0)))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"side": 3}, "at least one row of 3 x 3 pixels"),
        ({"train": torch.full((2, 4), 1.5)}, "outside 0 to 1"),
        ({"test": torch.full((1, 4), float("nan"))}, "outside 0 to 1"),
        ({"train": torch.zeros(2, 4, dtype=torch.float64)}, "give float32 and int64"),
        ({"train_labels": torch.tensor([0, -1])}, "a class from 0 on for each of 2"),
        ({"test_labels": torch.tensor([0, 0])}, "for each of 1"),
    ],
)
def test_sets_that_do_not_fit_together(changed, message, as_a_user_runs_it):
    fields = {
        "name": "made",
        "side": 2,
        "train": torch.zeros(2, 4),
        "train_labels": torch.tensor([0, 1]),
        "test": torch.zeros(1, 4),
        "test_labels": torch.tensor([0]),
    }
    with pytest.raises(StateError, match=message):
        ImageSet(**(fields | changed))
