"""The jobs and the verbs, each described here and nowhere else. Classes are named, not imported, so that PyTorch loads late."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from heedful.errors import UsageError
from heedful.jobs import data_settings as data
from heedful.jobs.options import ClassifyOptions, FillOptions, GenerateOptions, Options, SummarizeOptions, TranslateOptions
from heedful.jobs.results import Answer, Classification, Continuation, Embedding, Filling, Result, Summary, Tagging, Translation

if TYPE_CHECKING:
    from heedful.pipelines.pipeline import AnyPipeline
    from heedful.tasks.task import AnyTask

DataSettings: TypeAlias = data.PairSettings | data.TextSettings | data.ExampleSettings | data.ImageSettings
FILES = ("source", "valid_source", "test_source", "train", "valid", "test")  # settings of the data section that name them


@dataclass(frozen=True)
class Verb:
    """Something people do with a trained model: its inputs, options and results."""

    name: str
    about: str  # what it does, for its help
    inputs: str  # what its inputs are called, in the plural
    options: type[Options]
    result: type[Result]


@dataclass(frozen=True)
class Job:
    """What a model is trained for."""

    name: str  # `task` in recipes and config.json
    what: str  # what a model of this job is called
    verbs: tuple[str, ...]  # the first is the main one
    example: str  # arguments of `heedful` that use the model; DIRECTORY stands for it
    pipeline: str  # module:class that uses a model
    task: str = ""  # module:class that trains one; none for models that are only imported
    data: type[DataSettings] = data.ExampleSettings  # the data section of its recipes
    generate: tuple[str, ...] = ()  # built-in corpora; the first is the default
    kinds: tuple[str, ...] = ()  # kinds of model; the first is the default
    preset: str = ""  # the default preset of that kind
    fixed: tuple[str, ...] = ()  # settings of the model that the job and its data decide
    head: str = "none"  # of a BERT
    metrics: tuple[str, ...] = ()  # metrics that may choose the best checkpoint; the first is the default
    shortest: int = 1  # smallest `data.max_length`
    fits: bool = False  # whether its recipes may leave settings open to be fitted to the data (`fit = true`)

    @property
    def pipeline_class(self) -> type[AnyPipeline]:
        """The class that uses a model of this job."""
        found: type[AnyPipeline] = _named(self.pipeline)
        return found

    @property
    def task_class(self) -> type[AnyTask]:
        """The class that trains a model of this job."""
        found: type[AnyTask] = _named(self.task)
        return found

    @property
    def paired(self) -> bool:
        """Whether its examples are pairs of a source and a target text."""
        return self.data is data.PairSettings

    def check_data(self, data: DataSettings) -> None:
        """Raise an error if data settings contradict each other, or are not possible for this job."""
        if data.generate not in ("", *self.generate):
            raise UsageError(f"data.generate must be one of {', '.join(self.generate)}, not '{data.generate}'")
        if data.generate and any(getattr(data, name, "") for name in FILES):
            raise UsageError(f"data.generate={data.generate} generates its own data; leave it out to use files")
        for name in ("reverse", "both", "monolingual_target", "monolingual_source"):
            if data.generate and getattr(data, name, ""):
                raise UsageError(f"data.{name} needs files of pairs, not data.generate={data.generate}")
        for side in ("", "valid_", "test_"):
            if getattr(data, f"{side}target", "") and not getattr(data, f"{side}source"):
                raise UsageError(f"data.{side}target is given without data.{side}source")
        if (length := getattr(data, "max_length", self.shortest)) < self.shortest:
            raise UsageError(f"data.max_length must be at least {self.shortest}, not {length}")

    def check_metric(self, metric: str) -> None:
        """Raise an error if this job has no such metric."""
        if metric not in self.metrics:
            raise UsageError(f"training.metric must be one of {', '.join(self.metrics)}, not '{metric}'")


def _named(place: str) -> Any:
    """What `module:name` names."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"heedful.{module}"), name)


PAIRED = ("seq2seq", "recurrent")  # kinds of model that read one text and write another
WRITERS = (*PAIRED, "gpt")  # kinds of model that write text
VOCABULARIES = ("source_vocab", "target_vocab")
BERT = ("vocab", "head", "classes")
BERT_SHORTEST = 8  # tokens: room for the special ones, a question and a passage

JOBS: dict[str, Job] = {
    job.name: job
    for job in (
        Job(
            "translation",
            "a translation model",
            ("translate",),
            'translate DIRECTORY "some text"',
            "pipelines.translator:Translator",
            "tasks.translation:TranslationTask",
            data.PairSettings,
            ("dates",),
            PAIRED,
            "base",
            VOCABULARIES,
            metrics=("bleu", "chrf", "exact", "loss"),
            fits=True,
        ),
        Job(
            "summarization",
            "a summarization model",
            ("summarize",),
            "summarize DIRECTORY --input documents.txt",
            "pipelines.summarizer:Summarizer",
            "tasks.summarization:SummarizationTask",
            data.SummarySettings,
            ("topics",),
            PAIRED,
            "tiny",
            VOCABULARIES,
            metrics=("rougeL", "rouge1", "rouge2", "loss"),
        ),
        Job(
            "language-model",
            "a language model",
            ("generate",),
            'generate DIRECTORY "Once upon a time"',
            "pipelines.writer:Writer",
            "tasks.language_model:LanguageModelTask",
            data.TextSettings,
            ("topics",),
            ("gpt",),
            "gpt-mini",
            ("vocab",),
            metrics=("loss",),
        ),
        Job(
            "bert-pretraining",
            "a masked language model",
            ("fill", "embed"),
            'fill DIRECTORY "a word is [MASK] here"',
            "pipelines.masked:MaskedModel",
            "tasks.pretraining:PretrainingTask",
            data.DocumentSettings,
            ("topics",),
            ("bert",),
            "bert-tiny",
            BERT,
            "pretraining",
            ("loss", "masked_accuracy"),
            BERT_SHORTEST,
        ),
        Job(
            "classification",
            "a text classifier",
            ("classify", "embed"),
            'classify DIRECTORY "some text"',
            "pipelines.classifier:Classifier",
            "tasks.classification:ClassificationTask",
            data.ClassificationSettings,
            ("languages", "long-recall", "listops"),
            ("bert",),
            "bert-tiny",
            BERT,
            "sequence",
            ("accuracy", "macro_f1", "loss"),
            BERT_SHORTEST,
        ),
        Job(
            "tagging",
            "a tagger",
            ("tag", "embed"),
            'tag DIRECTORY "some text"',
            "pipelines.tagger:Tagger",
            "tasks.tagging:TaggingTask",
            data.TagSettings,
            ("dates",),
            ("bert",),
            "bert-tiny",
            BERT,
            "token",
            ("f1", "accuracy", "loss"),
            BERT_SHORTEST,
        ),
        Job(
            "question-answering",
            "a question-answering model",
            ("answer", "embed"),
            'answer DIRECTORY "a question?" --passage passage.txt',
            "pipelines.answerer:Answerer",
            "tasks.answering:AnsweringTask",
            data.QuestionSettings,
            ("facts",),
            ("bert",),
            "bert-tiny",
            BERT,
            "token",
            ("f1", "exact"),
            BERT_SHORTEST,
        ),
        Job(
            "image-classification",
            "an image classifier",
            ("classify",),
            "classify DIRECTORY image.png",
            "pipelines.image_classifier:ImageClassifier",
            "tasks.image_classification:ImageTask",
            data.ImageSettings,
            ("digits",),
            ("vit",),
            "vit-digits",
            ("classes", "image_size", "channels"),
            metrics=("accuracy", "top5", "loss"),
        ),
        Job(
            "embedding",
            "a sentence encoder",
            ("embed",),
            'embed DIRECTORY "a dog runs" "ein Hund rennt"',
            "pipelines.embedder:Embedder",
        ),
    )
}
TRAINABLE = {name: job for name, job in JOBS.items() if job.task}

VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb("translate", "Translate text; empty lines stay empty", "Texts", TranslateOptions, Translation),
        Verb("summarize", "Summarize documents", "Documents", SummarizeOptions, Summary),
        Verb(
            "generate",
            "Continue prompts; an empty prompt begins a new document",
            "Prompts",
            GenerateOptions,
            Continuation,
        ),
        Verb("fill", "Guess the words hidden by [MASK]", "Texts with [MASK]", FillOptions, Filling),
        Verb("embed", "Turn sentences into vectors", "Sentences", Options, Embedding),
        Verb("classify", "Classify texts, or image files", "Texts or image files", ClassifyOptions, Classification),
        Verb("tag", "Tag the words of sentences", "Sentences", Options, Tagging),
        Verb("answer", "Answer questions from a passage", "Questions", Options, Answer),
    )
}


def jobs_of(verb: str) -> list[Job]:
    """The jobs whose models a verb can use, starting with those whose main verb it is."""
    return sorted((job for job in JOBS.values() if verb in job.verbs), key=lambda job: job.verbs[0] != verb)
