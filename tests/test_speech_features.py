"""Log-mel features, rooms and batches of the spoken corpus."""

import numpy as np
import pytest

from reference_impl.speech import batches, corpus
from reference_impl.speech.features import HOP, WINDOW, log_mel, mel_bands, normalised
from reference_impl.speech.letters import spell
from reference_impl.speech.rooms import Place, drawn


@pytest.fixture(scope="module")
def spoken(request):
    return corpus.load("validation", request.config.rootpath / "data" / "speech")[:12]


def slow_log_mel(samples, rate):
    """The definition with explicit loops: windows, a sum for each frequency, triangles in mel."""
    width, hop, size = round(WINDOW * rate), round(HOP * rate), 256
    window = [0.5 - 0.5 * np.cos(2 * np.pi * n / (width - 1)) for n in range(width)]
    mels = [2595 * np.log10(1 + hz / 700) for hz in np.arange(size // 2 + 1) * rate / size]
    low, high = (2595 * np.log10(1 + hz / 700) for hz in (60, 0.97 * rate / 2))
    step, found = (high - low) / 41, []
    for start in range(0, len(samples) - width + 1, hop):
        chunk = [samples[start + n] * window[n] for n in range(width)]
        power = [abs(sum(x * np.exp(-2j * np.pi * k * n / size) for n, x in enumerate(chunk))) ** 2
                 for k in range(size // 2 + 1)]
        found.append([np.log(sum(p * max(0, 1 - abs(m - (low + (band + 1) * step)) / step)
                                 for p, m in zip(power, mels, strict=True)) + 1e-6) for band in range(40)])
    return np.array(found)


def test_log_mel_is_its_definition():
    samples = np.random.default_rng(0).standard_normal(200 + 80 + 79)  # two windows, and not quite a third
    # float32: windows of 200 numbers near 1, so powers are right to about 200 * 6e-8
    np.testing.assert_allclose(log_mel(samples, 8000), slow_log_mel(samples, 8000), rtol=0, atol=1e-4)


@pytest.mark.parametrize(("count", "frames"), [(0, 0), (199, 0), (200, 1), (279, 1), (280, 2)])
def test_number_of_frames(count, frames):
    assert log_mel(np.zeros(count), 8000).shape == (frames, 40)


def test_silence_is_finite():
    assert (log_mel(np.zeros(400), 8000) == np.float32(np.log(1e-6))).all()


def test_two_channels_are_refused():
    with pytest.raises(ValueError, match=r"samples has shape \(400, 2\); expected \(N,\)"):
        log_mel(np.zeros((400, 2)), 8000)


def test_bands_cover_every_frequency_between_the_outer_ones():
    """Neighbouring triangles add up to 1."""
    weights = mel_bands(8000, 256)
    inner = slice(weights[0].argmax() + 1, weights[-1].argmax())
    np.testing.assert_allclose(weights[:, inner].sum(0), 1, rtol=0, atol=1e-12)


def test_a_warp_moves_a_tone_up():
    tone = np.sin(2 * np.pi * 1000 * np.arange(800) / 8000)
    bands = [int(log_mel(tone, 8000, warp=warp)[0].argmax()) for warp in (0.85, 1.0, 1.15)]
    assert bands == sorted(bands) and len(set(bands)) == 3


def test_loudness_drops_out_of_what_is_normalised(spoken):
    noisy = spoken[0].samples + 0.01 * np.random.default_rng(0).standard_normal(len(spoken[0].samples))
    frames = [normalised(log_mel(gain * noisy, 8000)) for gain in (0.5, 1.0)]
    # what is added before the logarithm is a thousandth of the noise's power in a band
    np.testing.assert_allclose(*frames, rtol=0, atol=0.01)


def test_a_dry_and_silent_place_changes_nothing(spoken):
    heard = Place().heard(spoken[0].samples, 8000)
    assert (heard == spoken[0].samples).all() and heard is not spoken[0].samples


def test_an_echo_decays_as_it_says():
    """60 dB after `decay` seconds, by the slope of the energy of what follows a click."""
    click = np.zeros(8000)
    click[0] = 1
    heard = Place(decay=0.4, echo=0.5, seed=3).heard(click, 8000).astype(np.float64)
    assert heard[0] == 1 and abs((heard[1:] ** 2).sum() - 0.5) < 1e-6
    energy = (heard[1:3201].reshape(8, 400) ** 2).sum(1)
    slope = np.polyfit(np.arange(8) * 0.05, 10 * np.log10(energy), 1)[0]
    assert abs(slope * 0.4 + 60) < 5  # 400 random numbers in each eighth: 0.3 dB each
    assert np.abs(heard[3300:]).max() < 1e-12


def test_noise_is_as_loud_as_it_says(spoken):
    for snr in (0.0, 20.0):
        said = spoken[0].samples.astype(np.float64)
        noise = Place(snr=snr, colour=0.9, seed=1).heard(said, 8000) - said
        power = (said[said != 0] ** 2).mean()
        assert abs(10 * np.log10(power / (noise**2).mean()) - snr) < 1e-3


def test_places_come_from_their_seed():
    first, again = (drawn(np.random.default_rng(5)) for _ in range(2))
    said = np.ones(100)
    assert first == again and (first.heard(said, 8000) == again.heard(said, 8000)).all()
    places = [drawn(np.random.default_rng(seed), snr=(10, 11)) for seed in range(40)]
    assert all(10 <= place.snr <= 11 for place in places)
    assert 5 < sum(place.decay > 0 for place in places) < 35


def test_examples_and_batches(spoken):
    found = batches.examples(spoken, copies=2)
    assert len(found) == 24 and (found[0].frames[:5] != found[12].frames[:5]).any()
    batch = batches.batch_of(found[:3])
    for b, each in enumerate(found[:3]):
        assert spell(batch.targets[b, :batch.target_lengths[b]]) == each.utterance.text
        assert (batch.frames[b, :batch.frame_lengths[b]] == each.frames).all()
        assert not batch.frames[b, batch.frame_lengths[b]:].any()


def test_examples_of_a_seed_are_the_same(spoken):
    first, again, other = (batches.examples(spoken[:2], seed=seed, warp=0.1) for seed in (0, 0, 1))
    assert (first[1].frames == again[1].frames).all() and (first[1].frames != other[1].frames).any()


def test_clean_examples(spoken):
    (one,) = batches.examples(spoken[:1], snr=(np.inf, np.inf))
    assert (one.frames == normalised(log_mel(spoken[0].samples, 8000))).all()


def test_a_round_has_each_example_once(spoken):
    found = batches.examples(spoken)
    order = batches.shuffled(found, 4, np.random.default_rng(0))
    for _ in range(2):
        seen = [frames[:length].tobytes() for _ in range(3) for batch in [next(order)]
                for frames, length in zip(batch.frames, batch.frame_lengths, strict=True)]
        assert sorted(seen) == sorted(each.frames.tobytes() for each in found)


def test_masks_leave_the_batch_alone(spoken):
    batch = batches.batch_of(batches.examples(spoken[:4]))
    before = batch.frames.copy()
    changed = batches.masked(batch, np.random.default_rng(0))
    assert (batch.frames == before).all()
    touched = changed.frames != before
    assert touched.any() and not changed.frames[touched].any() and touched.mean() < 0.5
