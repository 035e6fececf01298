"""Classes of texts and of images: probabilities of the model itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from conftest import Trained, write_images
from heedful.data.drops import Drops
from heedful.errors import HeedfulError
from heedful.pipelines import load_pipeline
from heedful.pipelines.classifier import Classifier

TEXTS = ["the sun is over 7 rivers .", "rain", "", "the snow is over " * 60, "日本 ☃"]


@pytest.fixture(scope="module")
def classifier(trained: Trained) -> Classifier:
    found = load_pipeline(trained("classification"))
    assert isinstance(found, Classifier)
    return found


def test_probabilities_of_all_labels_sum_to_one_and_are_the_model_s(classifier: Classifier) -> None:
    count = len(classifier.labels)
    for text, found in zip(TEXTS, classifier.classify(TEXTS, top=99), strict=True):
        assert {label for label, _ in found} == set(classifier.labels)
        assert sum(p for _, p in found) == pytest.approx(1.0, abs=1e-5)
        assert [p for _, p in found] == sorted((p for _, p in found), reverse=True)
        ids = classifier.tokenizer.encode(text)[: classifier.max_length - 2]
        row = torch.tensor([[classifier.tokenizer.bos, *ids, classifier.tokenizer.eos]])
        with torch.no_grad():
            logits = classifier.model(row)
        assert isinstance(logits, torch.Tensor)
        expected = dict(zip(classifier.labels, logits[0].softmax(-1).tolist(), strict=True))
        assert dict(found) == pytest.approx(expected, abs=1e-5)
        assert len(found) == count


def test_top_limits_how_many_are_told(classifier: Classifier) -> None:
    every = classifier.classify(TEXTS, top=99)
    assert classifier.classify(TEXTS) == [found[:1] for found in every]
    assert classifier.classify(TEXTS, top=3) == [found[:3] for found in every]


def test_a_label_the_model_does_not_know_is_wrong_but_no_error(classifier: Classifier) -> None:
    examples = [("the sun", "sun"), ("the moon", "moon")]
    outputs = classifier.predict(examples)
    assert outputs[1][1] is None
    scores = classifier.scores(examples, outputs)
    assert scores["accuracy"] in (0.0, 50.0)
    assert scores["loss"] == pytest.approx(outputs[0][1])


def test_images_are_classified_from_files_of_any_size(trained: Trained, tmp_path: Path) -> None:
    from PIL import Image

    classifier = load_pipeline(trained("image-classification"))
    path = write_images(tmp_path / "images", 1) / "upper" / "0.png"
    with Image.open(path) as image:
        image.resize((80, 80), Image.Resampling.NEAREST).convert("RGB").save(tmp_path / "large.jpg", quality=95)
    found = classifier.classify([path, str(tmp_path / "large.jpg")], top=9)
    for one in found:
        assert {label for label, _ in one} == {"lower", "upper"}
        assert sum(p for _, p in one) == pytest.approx(1.0, abs=1e-5)
    assert dict(found[0]) == pytest.approx(dict(found[1]), abs=0.05)
    with pytest.raises(HeedfulError, match=r"there is no image absent\.png"):
        classifier.classify(["absent.png"])


def test_images_of_a_class_the_model_does_not_know_are_counted(trained: Trained, tmp_path: Path) -> None:
    classifier = load_pipeline(trained("image-classification"))
    folder = write_images(tmp_path / "images", 2)
    assert len(classifier.read_examples(folder, Drops())) == 4
    (folder / "upper").rename(folder / "sideways")
    drops = Drops()
    assert len(classifier.read_examples(folder, drops)) == 2
    assert "2 of a class the model does not know (first: sideways/" in drops.describe()
