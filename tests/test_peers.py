"""The list of other people's losses is well-formed, and the helpers of their adapters change what they say, no more."""

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from reference_impl.conformance.answering import CAN

PEERS = Path(__file__).parent.parent / "peers"


@pytest.fixture
def environments(monkeypatch):
    monkeypatch.syspath_prepend(PEERS)
    import environments
    yield environments
    sys.modules.pop("environments")


@pytest.fixture
def batches(monkeypatch):
    monkeypatch.syspath_prepend(PEERS / "common")
    import batches
    yield batches
    sys.modules.pop("batches")


def test_every_peer_has_what_its_entry_names(environments):
    peers = environments.peers()
    assert len({peer.name for peer in peers}) == len(peers) > 50
    for peer in peers:
        assert peer.kind in ("ctc", "rnnt") and peer.needs in ("", "cuda") and set(peer.can) <= set(CAN), peer
        assert peer.adapter.is_file(), peer
        # a total over the batch has no weights for its utterances
        assert "upstream" not in peer.can or not re.search(r"\b(sum|mean)\b", peer.name), peer


def test_every_adapter_belongs_to_a_peer(environments):
    adapters = {peer.adapter for peer in environments.peers()}
    assert adapters == {file for file in PEERS.glob("*/*.py") if file.parent.name != "common"}


def test_versions_are_pinned(environments):
    for folder in environments.libraries():
        for file in (PEERS / folder).glob("requirements*.txt"):
            lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
            assert lines and all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines), file


def test_what_is_not_here_has_a_reason():
    for entry in tomllib.loads((PEERS / "not_here.toml").read_text())["left_out"]:
        assert entry["kind"] in ("ctc", "rnnt", "both") and entry["name"] and entry["reason"].endswith("."), entry


def test_an_environment_is_ready_until_its_requirements_change(environments, monkeypatch, tmp_path):
    monkeypatch.setattr(environments, "HERE", tmp_path)
    monkeypatch.setattr(environments, "ENVIRONMENTS", tmp_path / "made")
    (tmp_path / "library").mkdir()
    (tmp_path / "made" / "library").mkdir(parents=True)
    requirements = tmp_path / "library" / "requirements.txt"
    requirements.write_text("one==1\n")
    assert not environments.is_ready("library")
    (tmp_path / "made" / "library" / "requirements.digest").write_text(environments._digest("library"))
    assert environments.is_ready("library")
    requirements.write_text("one==2\n")
    assert not environments.is_ready("library")


@pytest.mark.parametrize("given, wanted", [(0, -1), (2, -1), (3, 0), (1, 0), (0, 0)])
def test_renamed_symbols_are_named_back(batches, given, wanted):
    V, rng = 4, np.random.default_rng(given)
    labels = np.array([k for k in range(V) if k != given])
    inputs = {"logits": rng.normal(size=(5, V)), "targets": np.append(labels, [V, -1]), "blank": given}
    asked = batches.batch(inputs, "float64").with_blank(wanted)
    assert asked.blank == wanted % V
    # every label finds its own scores under its new name; what is no label stays what it is
    np.testing.assert_array_equal(asked.scores[0][:, asked.targets[0, :-2]], inputs["logits"][:, labels])
    np.testing.assert_array_equal(asked.scores[0][:, asked.blank], inputs["logits"][:, given])
    np.testing.assert_array_equal(asked.targets[0, -2:], [V, -1])
    answer = asked.answer([1.5], asked.scores, scores_after=asked.scores)
    assert answer["loss"] == 1.5
    np.testing.assert_array_equal(answer["gradient"], inputs["logits"])
    np.testing.assert_array_equal(answer["scores_after"], inputs["logits"])
