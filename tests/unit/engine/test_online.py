from __future__ import annotations

import itertools
import sys
import threading

import numpy as np
import pytest
from slidingserve.predictor.calibration import default_model
from slidingserve.predictor.features import Features, Scene, batch_features
from slidingserve.predictor.least_squares import least_squares
from slidingserve.predictor.model import LatencyModel, Weights
from slidingserve.predictor.online import (
    CELL_SAMPLES,
    EXPERT_SAMPLES,
    MAX_CELLS,
    Method,
    OnlinePredictor,
    Samples,
)
from slidingserve.predictor.quality import score

METHODS: tuple[Method, ...] = ("robust", "ols")

TRUTH = LatencyModel(Weights(0.012, (3e-9, 1e-9, 0.0, 1e-4, 6e-8, 1.8e-4, 0.0)))


class Machine:
    """Batches of every scene as a machine of known behaviour would run them."""

    def __init__(
        self, truth: LatencyModel = TRUTH, noise: float = 0.03, stray: float = 0.0, seed: int = 7
    ) -> None:
        self.truth, self.noise, self.stray = truth, noise, stray
        self.rng = np.random.default_rng(seed)

    def batch(self, scene: Scene) -> Features:
        rng = self.rng
        decodes = rng.integers(10, 3000, rng.integers(1, 64)).tolist()
        chunks = [(int(rng.integers(1, 800)), int(rng.integers(0, 4000))) for _ in range(rng.integers(1, 3))]
        return batch_features(
            [] if scene == Scene.PREFILL else decodes, [] if scene == Scene.DECODE else chunks
        )

    def run(self, predictor: OnlinePredictor, count: int) -> None:
        for i in range(count):
            features = self.batch(tuple(Scene)[i % 3])
            seconds = self.truth.predict(features) * float(np.exp(self.rng.normal(0, self.noise)))
            predictor.observe(features, seconds * (10 if self.rng.random() < self.stray else 1))

    def errors(self, model: LatencyModel, scenes: tuple[Scene, ...] = tuple(Scene)) -> np.ndarray:
        batches = [self.batch(scene) for scene in scenes for _ in range(100)]
        return np.array([model.predict(b) / self.truth.predict(b) - 1 for b in batches])


def error(machine: Machine, model: LatencyModel) -> float:
    return float(np.abs(machine.errors(model)).mean())


@pytest.mark.parametrize(
    ("method", "samples", "noise", "stray", "bound"),
    [
        ("robust", 1000, 0.02, 0.0, 0.01),
        ("robust", 1000, 0.10, 0.0, 0.03),
        ("robust", 1000, 0.03, 0.10, 0.02),
        ("robust", 100, 0.03, 0.05, 0.03),
        ("ols", 1000, 0.02, 0.0, 0.01),
        ("ols", 1000, 0.10, 0.0, 0.06),
    ],
)
def test_the_machine_is_recovered_through_noise_and_strays(
    method: Method, samples: int, noise: float, stray: float, bound: float
) -> None:
    machine, predictor = Machine(noise=noise, stray=stray), OnlinePredictor(default_model("cuda"))
    machine.run(predictor, samples)
    assert predictor.refit(method)
    assert error(machine, predictor.model) < bound


def test_stalls_lift_every_prediction_of_the_papers_fit_and_none_of_the_robust_one() -> None:
    """One batch in ten takes ten times as long. The mean is then about twice the usual time."""
    found = {}
    for method in METHODS:
        machine, predictor = Machine(stray=0.10), OnlinePredictor(default_model("cpu"))
        machine.run(predictor, 1000)
        predictor.refit(method)
        found[method] = machine.errors(predictor.model)
    assert np.abs(found["robust"]).mean() < 0.02
    assert 0.3 < found["ols"].mean() < 2.5, "wrong, and by no more than the stalls themselves"


def test_the_papers_fit_that_a_stall_would_spoil_is_not_put_in_force() -> None:
    machine, predictor = Machine(noise=0.02), OnlinePredictor(default_model("cuda"))
    machine.run(predictor, 300)
    assert predictor.refit("ols")
    good = predictor.model
    features = machine.batch(Scene.MIXED)
    for _ in range(2):
        predictor.observe(features, 30.0)
    assert not predictor.refit("ols")
    assert predictor.model is good


def test_the_papers_fit_is_taken_when_it_is_chosen_and_left_when_it_is_not() -> None:
    machine, predictor = Machine(noise=0.1), OnlinePredictor(default_model("cuda"))
    machine.run(predictor, 300)
    assert predictor.refit()
    robust = predictor.model
    assert predictor.refit("ols"), "no new batch, another method"
    assert not predictor.refit("ols")
    assert not predictor.model.monotone, "this noise makes some slope negative"
    assert predictor.refit("robust")
    assert predictor.model.monotone
    assert predictor.model.everywhere.bias == pytest.approx(robust.everywhere.bias, rel=0.2)


def test_the_papers_fit_is_the_least_sum_of_squares() -> None:
    rng = np.random.default_rng(5)
    features = rng.uniform(0, [4e6, 1e6, 1e5, 64, 1e5, 2e3, 2e3], (200, 7))
    seconds = 0.02 + features @ rng.normal(0, 1e-6, 7) + rng.normal(0, 0.01, 200)
    fitted = least_squares(features, seconds)
    design = np.column_stack([np.ones(200), features])
    gradient = design.T @ (design @ [fitted.bias, *fitted.slopes] - seconds)
    assert np.abs(gradient / np.linalg.norm(design, axis=0)).max() < 1e-9


def test_too_few_batches_for_eight_unknowns_leave_the_model_as_it_is() -> None:
    machine, predictor = Machine(), OnlinePredictor(TRUTH)
    machine.run(predictor, 15)
    assert not predictor.refit("ols")
    assert predictor.model is TRUTH
    machine.run(predictor, 30)
    predictor.refit("ols")
    assert predictor.model is not TRUTH


def test_ten_batches_bring_a_default_model_of_other_hardware_to_the_right_level() -> None:
    machine, predictor = Machine(), OnlinePredictor(default_model("cpu"))
    before = error(machine, predictor.model)
    machine.run(predictor, 12)
    predictor.refit()
    assert before > 1
    assert error(machine, predictor.model) < 0.25


def test_batches_of_one_shape_move_the_level_and_keep_the_proportions() -> None:
    """A steady load cannot tell what costs what: the model so far can, scaled to the new level."""
    predictor = OnlinePredictor(TRUTH)
    steady = batch_features([500] * 8, [])
    for _ in range(200):
        predictor.observe(steady, 2 * TRUTH.predict(steady))
    predictor.refit()
    assert predictor.model.predict(steady) == pytest.approx(2 * TRUTH.predict(steady), rel=0.02)
    for other in (batch_features([500], []), batch_features([3000] * 32, []), batch_features([], [(512, 0)])):
        assert predictor.model.predict(other) == pytest.approx(2 * TRUTH.predict(other), rel=0.2)


@pytest.mark.parametrize("method", METHODS)
def test_features_that_always_move_together_still_predict(method: Method) -> None:
    machine, predictor = Machine(), OnlinePredictor(default_model("cuda"))
    for tokens in range(
        16, 1600, 16
    ):  # one chunk a batch: prefill tokens and largest chunk are the same number
        features = batch_features([], [(tokens, 0)])
        predictor.observe(features, machine.truth.predict(features))
    predictor.refit(method)
    for tokens in (100, 1000):
        features = batch_features([], [(tokens, 0)])
        assert predictor.model.predict(features) == pytest.approx(machine.truth.predict(features), rel=0.02)


@pytest.mark.parametrize(("method", "bound"), [("robust", 0.03), ("ols", 0.10)])
def test_after_a_change_of_regime_recent_batches_win(method: Method, bound: float) -> None:
    machine, predictor = Machine(), OnlinePredictor(default_model("cuda"))
    machine.run(predictor, 1000)
    predictor.refit(method)
    weights = machine.truth.everywhere
    slower = Machine(LatencyModel(Weights(weights.bias * 1.6, tuple(1.6 * w for w in weights.slopes))))  # type: ignore[arg-type]
    for _ in range(6):
        slower.run(predictor, 100)
        predictor.refit(method)
    assert error(slower, predictor.model) < bound


def test_a_long_steady_load_does_not_forget_how_prefills_behave() -> None:
    machine, predictor = Machine(), OnlinePredictor(default_model("cuda"))
    machine.run(predictor, 600)
    for _ in range(20_000):
        steady = batch_features([500] * 8, [])
        predictor.observe(steady, machine.truth.predict(steady))
    predictor.refit()
    assert np.abs(machine.errors(predictor.model, (Scene.PREFILL,))).mean() < 0.03


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("threshold", [EXPERT_SAMPLES, 20])
def test_a_scene_gets_its_expert_at_the_threshold(method: Method, threshold: int) -> None:
    predictor = OnlinePredictor(TRUTH)
    for i in range(threshold - 1):
        predictor.observe(batch_features([2**i % 977] * (i % 15 + 1), []), 0.02)
    predictor.refit(method, threshold)
    assert Scene.DECODE not in predictor.model.experts
    predictor.observe(batch_features([70_000], []), 0.02)
    predictor.refit(method, threshold)
    assert Scene.DECODE in predictor.model.experts


def test_no_slope_is_ever_negative_whatever_was_measured() -> None:
    rng = np.random.default_rng(3)
    predictor = OnlinePredictor(default_model("cuda"))
    for _ in range(300):
        predictor.observe(
            Machine(seed=int(rng.integers(1_000_000))).batch(Scene.MIXED), float(rng.uniform(0.001, 2))
        )
    predictor.refit()
    model = predictor.model
    for weights in (model.everywhere, *model.experts.values()):
        assert min(weights.bias, *weights.slopes) >= 0


def test_a_worse_fit_is_not_put_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, predictor = Machine(noise=0.0), OnlinePredictor(TRUTH)
    machine.run(predictor, 100)
    monkeypatch.setattr("slidingserve.predictor.online.fit", lambda *_: default_model("cpu"))
    assert not predictor.refit()
    assert predictor.model is TRUTH


def test_a_refit_without_new_batches_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, predictor = Machine(), OnlinePredictor(default_model("cuda"))
    assert not predictor.refit()
    machine.run(predictor, 100)
    assert predictor.refit()
    assert predictor.calibrated
    model = predictor.model
    monkeypatch.setattr(
        "slidingserve.predictor.online.fit", lambda *_: pytest.fail("there is nothing to fit")
    )
    assert not predictor.refit()
    assert predictor.model is model


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), 1e6])
def test_a_time_that_cannot_be_is_no_sample(seconds: float) -> None:
    predictor = OnlinePredictor(TRUTH)
    assert not predictor.observe(batch_features([5], []), seconds)
    assert not predictor.observe(batch_features([], []), 0.01)
    assert predictor.samples == 0


def test_quality_tells_errors_and_strays_by_scene() -> None:
    predictor = OnlinePredictor(TRUTH)
    for i in range(10):
        features = batch_features([100 * (i + 1)] * (i + 1), [])
        predictor.observe(features, TRUTH.predict(features) * (100 if i == 3 else 1))
    predictor.refit()
    report = predictor.quality()
    assert set(report) == {"decode", "overall"}
    decode = report["decode"]
    assert report["overall"] == decode
    assert decode["samples"] == 10
    assert decode["stray_share"] == pytest.approx(0.1)
    assert decode["mae_s"] < 0.001
    assert decode["r2"] > 0.9
    assert 0 <= decode["under_share"] <= 1


def test_the_score_has_the_papers_numbers_by_scene_and_overall() -> None:
    seconds, predicted = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.1, 0.1, 0.4, 0.4])
    report = score(predicted, seconds, np.array([0, 0, 2, 2]))
    assert set(report) == {"decode", "mixed", "overall"}
    whole = report["overall"]
    assert whole.r2 == pytest.approx(1 - 0.02 / 0.05)
    assert (whole.mae_s, whole.rmse_s) == pytest.approx((0.05, 0.005**0.5))
    assert whole.mae_share == pytest.approx(0.05 / 0.25)
    assert (whole.under_share, whole.stray_share, whole.samples) == (0.25, 0.0, 4)
    assert report["mixed"].under_share == 0
    assert score(predicted[:0], seconds[:0], np.array([], np.int64)) == {}


def test_the_window_is_bounded_and_keeps_the_rare() -> None:
    samples = Samples()
    rare = batch_features([], [(700, 100)])
    samples.append(rare, 0.123)
    for _ in range(5000):
        samples.append(batch_features([300] * 5, []), 0.01)
    assert 0.123 in samples.window().seconds
    assert len(samples.window().seconds) == 1 + CELL_SAMPLES
    for tokens, decodes, context in itertools.product(range(10), range(7), range(0, 20, 2)):
        kind = batch_features([2**context] * 2**decodes, [(2**tokens, 0)])
        samples.append(kind, 0.01)
    assert len(samples.window().seconds) == MAX_CELLS


def test_threads_may_observe_while_another_refits() -> None:
    predictor = OnlinePredictor(default_model("cuda"))
    batches = [Machine(seed=seed).batch(scene) for seed in range(400) for scene in Scene]
    failures: list[BaseException] = []

    def observe() -> None:
        for features in batches:
            predictor.observe(features, 0.02)

    def refit() -> None:
        try:
            while predictor.samples < 3 * len(batches):
                predictor.refit()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=refit), *(threading.Thread(target=observe) for _ in range(3))]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # a thread may be interrupted anywhere
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == []
    assert predictor.samples == 3 * len(batches)
