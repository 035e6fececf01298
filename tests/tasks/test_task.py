"""What every job promises the trainer: the same data for any number of processes, and losses that add up."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from conftest import TASKS, Trained, small_recipe, write_examples, write_pairs
from heedful.data.batches import Position
from heedful.errors import HeedfulError
from heedful.jobs.registry import JOBS as ALL_JOBS
from heedful.models.weights import named_weights
from heedful.pipelines import load_pipeline
from heedful.recipes import load_recipe
from heedful.runtime.processes import Processes
from heedful.runtime.screen import Silence
from heedful.tasks.task import Task
from heedful.training.run import train

Made = Callable[..., Task]


@pytest.fixture(scope="session")
def task_of(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A small job, its data prepared once for the same overrides."""
    made: dict[tuple[str, ...], Task] = {}

    def make(name: str, *overrides: str) -> Task:
        if (name, *overrides) not in made:
            folder = tmp_path_factory.mktemp(name)
            recipe = small_recipe(name, folder, *overrides)
            ALL_JOBS[name].task_class.prepare(recipe, folder / "data", Silence())
            made[name, *overrides] = ALL_JOBS[name].task_class(recipe, folder / "data")
        return made[name, *overrides]

    return make


def epoch_of(task: Task, epoch: int = 0, rank: int = 0, world: int = 1) -> list[Any]:
    """Every batch of an epoch."""
    items = task.batches(Position(epoch), rank, world)
    return [batch for _, batch in takewhile(lambda item: item[0].epoch == epoch, items)]


def examples_in(batch: Any) -> list[tuple[Any, ...]]:
    """The examples of a batch, each as values that can be compared; what is padding is left out."""
    if batch is None:
        return []
    tensors = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}
    rows: list[tuple[Any, ...]] = []
    for row in range(len(next(iter(tensors.values())))):
        row_values: list[Any] = []
        for name, tensor in tensors.items():
            mask = "source_mask" if name.startswith("source") else "target_mask" if name.startswith("target_") else "mask"
            if name == "answers":  # one for each hidden token of the batch, in order
                before = int(batch.where[:row].sum())
                row_values.append(tuple(tensor[before : before + int(batch.where[row].sum())].tolist()))
            elif mask in tensors and tensor.shape == tensors[mask].shape:
                row_values.append(tuple(tensor[row][tensors[mask][row]].tolist()))
            else:
                row_values.append(tuple(tensor[row].flatten().tolist()))
        rows.append(tuple(row_values))
    return rows


@pytest.mark.parametrize("name", TASKS)
def test_batches_follow_from_the_seed_and_the_epoch_alone(name: str, task_of: Made) -> None:
    task = task_of(name)
    first, again = ([examples_in(batch) for batch in epoch_of(task)] for _ in range(2))
    assert first == again
    assert len(first) > 1
    assert [examples_in(batch) for batch in epoch_of(task, 1)] != first
    other = type(task)(dataclasses.replace(task.recipe, training=dataclasses.replace(task.recipe.training, seed=2)), task.folder)
    assert [examples_in(batch) for batch in epoch_of(other)] != first


@pytest.mark.parametrize("name", TASKS)
def test_data_continues_from_any_position(name: str, task_of: Made) -> None:
    task = task_of(name)
    items = task.batches(Position(), 0, 1)
    read = [(position, examples_in(batch)) for position, batch in (next(items) for _ in range(len(epoch_of(task)) + 2))]
    assert read[-1][0].epoch == 1
    for index in (0, 1, len(read) - 3, len(read) - 2):
        position, batch = next(task.batches(read[index][0], 0, 1))
        assert (position, examples_in(batch)) == read[index + 1]


@pytest.mark.parametrize("name", TASKS)
def test_the_shares_of_two_processes_are_together_exactly_the_batch_of_one(name: str, task_of: Made) -> None:
    task = task_of(name)
    for epoch in (0, 1):
        whole, *shares = epoch_of(task, epoch), epoch_of(task, epoch, 0, 2), epoch_of(task, epoch, 1, 2)
        assert len(whole) == len(shares[0]) == len(shares[1])
        for batch, left, right in zip(whole, *shares, strict=True):
            assert sorted(examples_in(left) + examples_in(right)) == sorted(examples_in(batch))
            assert abs(len(examples_in(left)) - len(examples_in(right))) <= 1


@pytest.mark.parametrize("name", TASKS)
def test_the_losses_of_the_shares_add_up_to_the_loss_of_the_batch(name: str, task_of: Made) -> None:
    """So any number of workers trains the same model."""
    task = task_of(name, "training.label_smoothing=0.1")
    model = task.build_model()
    with torch.no_grad():  # a fresh model is nearly indifferent, and indifferent losses add up anyhow
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    batches = zip(*(epoch_of(task, 0, rank, world) for rank, world in ((0, 1), (0, 3), (1, 3), (2, 3))), strict=True)
    for whole, *shares in list(batches)[:3]:
        loss, plain, count = task.loss(model, whole)
        parts = [task.loss(model, share) for share in shares if share is not None]
        assert sum(part[2] for part in parts) == count
        torch.testing.assert_close(sum(part[0] for part in parts), loss, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(sum(part[1] for part in parts), plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", TASKS)
def test_a_batch_keeps_to_its_limits(name: str, task_of: Made) -> None:
    task = task_of(name, "training.batch_examples=3", "training.batch_tokens=200")
    sizes = [len(examples_in(batch)) for batch in epoch_of(task)]
    assert max(sizes) == 3
    assert min(sizes) >= 1


@pytest.mark.parametrize("name", TASKS)
def test_every_training_example_comes_once_an_epoch(name: str, task_of: Made) -> None:
    task: Any = task_of(name)
    rows = [example for batch in epoch_of(task) for example in examples_in(batch)]
    if name == "language-model":
        expected = (len(task.stream) - 1) // 16 - 1, (len(task.stream) - 1) // 16  # where windows begin changes
        assert len(rows) in expected
    elif name == "image-classification":
        assert sorted(map(len, rows)) == [2] * 54
    elif name in ("translation", "summarization"):
        assert len(rows) == len(task.data.train)
    else:
        assert len(rows) == len(task.train)
    if name != "language-model":  # whose text may repeat itself
        assert len(set(rows)) >= len(rows) - (5 if name in ("tagging", "translation") else 0)


@pytest.mark.parametrize("name", TASKS)
def test_two_processes_score_as_one_does(name: str, task_of: Made) -> None:
    """Each process predicts its share; the gathered outputs are in the order of the examples."""
    task = task_of(name)
    model = task.build_model()
    alone = task.score(model, task.valid, Processes(), quick=True)

    class Two(Processes):
        """Both processes in one: what the other would say is worked out here."""

        def gather(self, value: Any) -> list[Any]:
            return [value, task.pipeline(model, quick=True).predict(task.valid[1::2])]

    together = task.score(model, task.valid, Two(0, 2), quick=True)
    assert together.pop("samples") == alone.pop("samples")
    numbers = {key: value for key, value in alone.items() if isinstance(value, float)}
    assert numbers
    assert {key: together[key] for key in numbers} == pytest.approx(numbers, rel=1e-5)


@pytest.mark.parametrize("name", TASKS)
def test_what_is_held_out_is_never_trained_on(name: str, task_of: Made) -> None:
    task: Any = task_of(name)
    assert task.valid
    if name == "image-classification":
        trained = {image.tobytes() for image in task.images}
        assert not trained & {image.tobytes() for image, _ in task.valid}
    elif name == "bert-pretraining":
        trained = {tuple(task.train.source[i].tolist()) for i in range(len(task.train))}
        assert not trained & {tuple(ids) for pair in task.valid for ids in pair[:2]}
    elif name == "language-model":
        stream, held = task.tokenizer.decode(task.stream.tolist()), task.tokenizer.decode(task.valid[1][0])
        assert held not in stream
    else:
        store = task.data.train if hasattr(task, "data") else task.train
        trained = {tuple(store.source[i].tolist()) for i in range(len(store))}
        pipeline: Any = task.pipeline(task.build_model())
        rows = [pipeline.row_of(e)[0] if hasattr(pipeline, "row_of") else pipeline.encode_sources([e[0]])[0] for e in task.valid]
        assert not trained & {tuple(row) for row in rows}


# Pre-trained beginnings


@pytest.mark.parametrize("name", ["classification", "tagging", "question-answering"])
def test_fine_tuning_begins_with_the_pretrained_encoder_and_its_vocabulary(name: str, trained: Trained, tmp_path: Path) -> None:
    run = trained("bert-pretraining")
    data = write_examples(name, tmp_path)
    recipe = load_recipe(name, [f"data.train={data}", f"model.pretrained={run}", "data.max_length=40", "training.steps=2"])
    ALL_JOBS[name].task_class.prepare(recipe, tmp_path / "data", Silence())
    task: Any = ALL_JOBS[name].task_class(recipe, tmp_path / "data")
    before, model = load_file(run / "best" / "model.safetensors"), task.build_model()
    own = {key: value for key, value in model.named_parameters() if key.split(".")[0] in ("embedding", "encoder")}
    assert len(own) > 10
    for key, value in own.items():
        assert torch.equal(value, before[key]), key
    pretrained = load_pipeline(run)
    assert task.tokenizer.encode("the sun is over 7 stones") == pretrained.tokenizer.encode("the sun is over 7 stones")
    assert (task.config.vocab, task.config.d_model) == (pretrained.model.config.vocab, 16)
    assert task.config.head == {"classification": "sequence"}.get(name, "token")


def test_a_fine_tuned_classifier_is_used_as_any_other(trained: Trained, tmp_path: Path) -> None:
    data = write_examples("classification", tmp_path)
    small = ["data.max_length=40", "training.steps=2", "training.workers=1", "training.batch_tokens=300", "model.dropout=0.2"]
    recipe = load_recipe("classification", [f"data.train={data}", f"model.pretrained={trained('bert-pretraining')}", *small])
    train(recipe, tmp_path / "run", Silence())
    classifier = load_pipeline(tmp_path / "run")
    assert classifier.model.config.dropout == 0.2
    assert set(classifier.labels) == {line.split()[-1] for line in data.read_text().splitlines()}
    assert len(classifier.classify(["the sun"], top=3)[0]) == 3
    assert f"| began as | {trained('bert-pretraining')} |" in (tmp_path / "run" / "best" / "README.md").read_text()


def test_a_tagger_may_begin_as_a_classifier_that_pools_otherwise(trained: Trained, tmp_path: Path) -> None:
    recipe = load_recipe(
        "tagging", [f"data.train={write_examples('tagging', tmp_path)}", f"model.pretrained={trained('classification')}"]
    )
    ALL_JOBS["tagging"].task_class.prepare(recipe, tmp_path / "data", Silence())
    task = ALL_JOBS["tagging"].task_class(recipe, tmp_path / "data")
    assert load_pipeline(trained("classification")).model.config.pooling == "mean"
    assert (task.config.pooling, task.config.head, task.config.classes) == ("cls", "token", 4)
    task.build_model()


def test_a_pretrained_model_of_another_kind_is_refused(trained: Trained, tmp_path: Path) -> None:
    data = write_examples("classification", tmp_path)
    recipe = load_recipe("classification", [f"data.train={data}", f"model.pretrained={trained('language-model')}"])
    with pytest.raises(HeedfulError, match="best is a gpt model; classification needs a bert model"):
        ALL_JOBS["classification"].task_class.prepare(recipe, tmp_path / "data", Silence())


def test_examples_longer_than_the_pretrained_model_reads_are_refused_before_training(trained: Trained, tmp_path: Path) -> None:
    data = write_examples("classification", tmp_path)
    pretrained = f"model.pretrained={trained('bert-pretraining')}"
    recipe = load_recipe("classification", [f"data.train={data}", pretrained, "training.workers=1"])
    with pytest.raises(HeedfulError, match=r"data\.max_length 128 is more than the model's 40 positions"):
        train(recipe, tmp_path / "run", Silence())


@pytest.mark.parametrize("name", [*TASKS[1:6], "image-classification"])  # the facts of question answering take ten seconds
def test_the_default_data_of_a_recipe_is_there_without_any_file(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    ALL_JOBS[name].task_class.prepare(recipe, tmp_path / "data", Silence())
    task = ALL_JOBS[name].task_class(recipe, tmp_path / "data")
    assert min(len(task.valid), len(task.test)) > 50
    assert len(examples_in(next(task.batches(Position(), 0, 1))[1])) > 1


@pytest.mark.parametrize("task", ["translation", "summarization"])
def test_a_trained_encoder_decoder_goes_on_learning_with_its_own_vocabulary(task: str, trained: Trained, tmp_path: Path) -> None:
    before = load_pipeline(trained(task))
    if task == "translation":
        source, target = write_pairs(tmp_path, 60)
        data = [f"data.source={source}", f"data.target={target}"]
    else:
        data = [f"data.train={write_examples(task, tmp_path)}"]
    recipe = load_recipe(task, [*data, f"model.pretrained={trained(task)}"])
    job = ALL_JOBS[task].task_class
    job.prepare(recipe, tmp_path / "data", Silence())
    started = job(recipe, tmp_path / "data")
    assert started.config == before.model.config
    for name, tensor in named_weights(started.build_model()).items():
        assert torch.equal(tensor, named_weights(before.model)[name]), name
    assert started.pipeline(started.build_model()).tokenizers.keys() == before.tokenizers.keys()
