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
            what="a translation model",
            verbs=("translate",),
            example='translate DIRECTORY "some text"',
            pipeline="pipelines.translator:Translator",
            task="tasks.translation:TranslationTask",
            data=data.PairSettings,
            generate=("dates",),
            kinds=PAIRED,
            preset="base",
            fixed=VOCABULARIES,
            metrics=("bleu", "chrf", "exact", "loss"),
            fits=True,
        ),
        Job(
            "summarization",
            what="a summarization model",
            verbs=("summarize",),
            example="summarize DIRECTORY --input documents.txt",
            pipeline="pipelines.summarizer:Summarizer",
            task="tasks.summarization:SummarizationTask",
            data=data.SummarySettings,
            generate=("topics",),
            kinds=PAIRED,
            preset="tiny",
            fixed=VOCABULARIES,
            metrics=("rougeL", "rouge1", "rouge2", "loss"),
        ),
        Job(
            "language-model",
            what="a language model",
            verbs=("generate",),
            example='generate DIRECTORY "Once upon a time"',
            pipeline="pipelines.writer:Writer",
            task="tasks.language_model:LanguageModelTask",
            data=data.TextSettings,
            generate=("topics",),
            kinds=("gpt",),
            preset="gpt-mini",
            fixed=("vocab",),
            metrics=("loss",),
        ),
        Job(
            "bert-pretraining",
            what="a masked language model",
            verbs=("fill", "embed"),
            example='fill DIRECTORY "a word is [MASK] here"',
            pipeline="pipelines.masked:MaskedModel",
            task="tasks.pretraining:PretrainingTask",
            data=data.DocumentSettings,
            generate=("topics",),
            kinds=("bert",),
            preset="bert-tiny",
            fixed=BERT,
            head="pretraining",
            metrics=("loss", "masked_accuracy"),
            shortest=BERT_SHORTEST,
        ),
        Job(
            "classification",
            what="a text classifier",
            verbs=("classify", "embed"),
            example='classify DIRECTORY "some text"',
            pipeline="pipelines.classifier:Classifier",
            task="tasks.classification:ClassificationTask",
            data=data.ClassificationSettings,
            generate=("languages", "long-recall", "listops"),
            kinds=("bert",),
            preset="bert-tiny",
            fixed=BERT,
            head="sequence",
            metrics=("accuracy", "macro_f1", "loss"),
            shortest=BERT_SHORTEST,
        ),
        Job(
            "tagging",
            what="a tagger",
            verbs=("tag", "embed"),
            example='tag DIRECTORY "some text"',
            pipeline="pipelines.tagger:Tagger",
            task="tasks.tagging:TaggingTask",
            data=data.TagSettings,
            generate=("dates",),
            kinds=("bert",),
            preset="bert-tiny",
            fixed=BERT,
            head="token",
            metrics=("f1", "accuracy", "loss"),
            shortest=BERT_SHORTEST,
        ),
        Job(
            "question-answering",
            what="a question-answering model",
            verbs=("answer", "embed"),
            example='answer DIRECTORY "a question?" --passage passage.txt',
            pipeline="pipelines.answerer:Answerer",
            task="tasks.answering:AnsweringTask",
            data=data.QuestionSettings,
            generate=("facts",),
            kinds=("bert",),
            preset="bert-tiny",
            fixed=BERT,
            head="token",
            metrics=("f1", "exact"),
            shortest=BERT_SHORTEST,
        ),
        Job(
            "image-classification",
            what="an image classifier",
            verbs=("classify",),
            example="classify DIRECTORY image.png",
            pipeline="pipelines.image_classifier:ImageClassifier",
            task="tasks.image_classification:ImageTask",
            data=data.ImageSettings,
            generate=("digits",),
            kinds=("vit",),
            preset="vit-digits",
            fixed=("classes", "image_size", "channels"),
            metrics=("accuracy", "top5", "loss"),
        ),
        Job(
            "embedding",
            what="a sentence encoder",
            verbs=("embed",),
            example='embed DIRECTORY "a dog runs" "ein Hund rennt"',
            pipeline="pipelines.embedder:Embedder",
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
