"""Models that come with the package: there, right, and found by name."""

import pytest
import torch

import deltaai as dai
from data_folder import data_folder
from deltaai.errors import ConfigError, FormatError


def test_every_example_is_read_and_listed():
    for name, about in dai.example().items():
        assert dai.example(name).num_variables >= 4, about


def test_asia_is_the_published_network():
    model = dai.example("asia")
    found = dai.exact(model).marginals()
    # Lauritzen and Spiegelhalter (1988), and what follows from their tables by hand.
    assert found["lung"][0] == pytest.approx(0.055)
    assert found["tub"][0] == pytest.approx(0.0104)
    assert found["either"][0] == pytest.approx(1 - (1 - 0.055) * (1 - 0.0104))
    assert found["bronc"][0] == pytest.approx(0.45)
    assert dai.exact(model).log_partition() == pytest.approx(0.0, abs=1e-12)


def test_asia_agrees_with_the_file_of_others():
    theirs = dai.read(data_folder("bif") / "asia.bif.gz")
    ours = dai.example("asia")
    assert ours.variables == theirs.variables
    x = torch.cartesian_prod(*[torch.arange(2)] * 8)
    assert torch.allclose(ours.log_score(x).exp(), theirs.log_score(x).exp(), atol=1e-12)


def test_sprinkler_is_that_of_the_zoo():
    assert dai.example("sprinkler").content_hash() == dai.zoo.sprinkler().content_hash()


@pytest.mark.parametrize(("name", "side", "sigma"), [("grid", 10, 0.5), ("lattice", 32, 0.2)])
def test_lattices_are_those_of_the_zoo(name, side, sigma):
    model, made = dai.example(name), dai.zoo.ising_lattice(side=side, sigma=sigma, seed=0)
    x = torch.randint(2, (5, side * side), generator=torch.Generator().manual_seed(0))
    assert torch.allclose(model.log_score(x), made.log_score(x))


def test_an_unknown_example_is_refused_with_what_there_is():
    with pytest.raises(
        ConfigError, match=r"no example 'aisa'; did you mean 'asia'\? Examples: spr"
    ):
        dai.example("aisa")
    with pytest.raises(FormatError, match=r"no such file, and no such example; did you mean 'asia"):
        dai.read("aisa")


def test_a_file_of_that_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert dai.read("asia").num_variables == 8
    (tmp_path / "asia").mkdir()
    with pytest.raises(FormatError, match="unknown kind of file"):
        dai.read("asia")
