"""A worker process of the service: loads models and does the work that the front process sends it, in continuous batches.

The messages between them are in `messages`. The process ends when the pipe is closed.
"""

from __future__ import annotations

import gc
import logging
import os
import queue
import signal
import threading
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from heedful.errors import HeedfulError, InputError, UsageError
from heedful.jobs.options import Backend
from heedful.jobs.registry import JOBS, VERBS
from heedful.runtime.fair_queue import FairQueue
from heedful.serving.at_once import AT_ONCE
from heedful.serving.messages import Cancel, Done, Failed, Load, Loaded, Piece, Stats, ToWorker, Unload, Work
from heedful.settings import JsonObject

if TYPE_CHECKING:
    from heedful.decoding.sentence import Sentence
    from heedful.pipelines.pipeline import AnyPipeline
    from heedful.serving.completion import Completion

TOGETHER = 16  # inputs of a verb without a search per batch, so that a search never waits for long
CHARACTERS = 8192  # characters of the inputs of such a batch
SHORT = 128  # source tokens that an external engine may decode at once; longer ones are decoded step by step among others
STATS = 50  # steps between reports of batch sizes

logger = logging.getLogger("heedful.serve.worker")


@dataclass
class Item:
    """A piece of work in progress."""

    work: Work
    sentences: list[Sentence] = field(default_factory=list)
    completion: Completion | None = None


def serve_models(
    pipe: Connection, threads: int, device: str, log_level: int = logging.WARNING, backend: Backend = "native"
) -> None:
    """The main function of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the front process decides when to stop
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    logging.basicConfig(level=log_level, format="%(message)s")
    with suppress(BrokenPipeError, ConnectionResetError):  # the front process has gone
        Worker(pipe, threads, device, backend).run()


KERNELS = 256  # that a worker keeps; the default of a thousand takes half a gigabyte


class Worker:
    """The models of one process and the loop that runs them."""

    def __init__(self, pipe: Connection, threads: int, device: str, backend: Backend = "native") -> None:
        self.pipe, self.threads, self.device, self.backend = pipe, threads, device, backend
        self.inbox: queue.SimpleQueue[ToWorker | None] = queue.SimpleQueue()
        self.models: dict[str, ServedModel] = {}

    def run(self) -> None:
        """Work until the pipe is closed."""
        import torch

        from heedful.runtime.device import keep_few_kernels

        torch.set_num_threads(self.threads)
        keep_few_kernels(KERNELS)
        threading.Thread(target=self.listen, daemon=True).start()
        while True:
            working = any(self.models.values())
            messages = [] if working else [self.inbox.get()]
            while not self.inbox.empty():
                messages.append(self.inbox.get())
            for message in messages:
                if message is None:
                    return
                self.handle(message)
            for model in self.models.values():
                if model:
                    if torch.get_num_threads() != (threads := 1 if model.narrow else self.threads):
                        torch.set_num_threads(threads)
                    model.step()

    def listen(self) -> None:
        """Receive messages in a thread, so that the front process never waits for a step to end."""
        try:
            while True:
                self.inbox.put(self.pipe.recv())
        except (EOFError, OSError):
            self.inbox.put(None)

    def handle(self, message: ToWorker) -> None:
        """Handle a message."""
        match message:
            case Load(key, folder):
                self.load(key, folder)
            case Unload(key):
                self.models.pop(key, None)
                spare_the_collector()
            case Cancel(id):
                for model in self.models.values():
                    model.cancel(id)
            case Work(id, key) as work:
                if key in self.models:
                    self.models[key].add(work)
                else:
                    self.pipe.send(Failed(id, "internal", "the model is not loaded"))

    def load(self, key: str, folder: str) -> None:
        """Load a model; an error is sent back as a sentence."""
        from heedful.interop.backend import use_backend
        from heedful.pipelines.decoder import DecoderPipeline
        from heedful.pipelines.load import load_pipeline
        from heedful.runtime.device import pick_device

        try:
            pipeline = load_pipeline(folder, pick_device(self.device))
            if isinstance(pipeline, DecoderPipeline):
                use_backend(pipeline, Path(folder), self.backend, logger.info)
            self.models[key] = ServedModel(key, pipeline, self.pipe)
            spare_the_collector()
            self.pipe.send(Loaded(key, facts_of(pipeline, folder)))
        except HeedfulError as error:
            self.pipe.send(Loaded(key, {}, str(error)))


def spare_the_collector() -> None:
    """Collect garbage now, and make later collections skip the modules and models that stay, because each would cause a
    noticeable delay."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def facts_of(pipeline: AnyPipeline, folder: str) -> JsonObject:
    """Facts about a model for the front process, which loads none itself."""
    from heedful.page.served import served_card
    from heedful.pipelines.encoder import EncoderPipeline
    from heedful.pipelines.model_directory import find_directory

    config = pipeline.model.config
    return {
        "task": pipeline.task,
        "what": JOBS[pipeline.task].what,
        "verbs": list(JOBS[pipeline.task].verbs),
        "folder": str(find_directory(Path(folder)).resolve()),
        "parameters": sum(parameter.numel() for parameter in pipeline.model.parameters()),
        "source_language": getattr(pipeline, "source_language", ""),
        "target_language": getattr(pipeline, "target_language", ""),
        "beam": getattr(pipeline, "beam", 1),
        "labels": list(getattr(pipeline, "labels", [])),
        "width": config.d_model,
        "max_length": pipeline.max_length if isinstance(pipeline, EncoderPipeline) else getattr(config, "context", 0),
        "vocabulary": getattr(config, "vocab", 0),
        "page": served_card(pipeline, Path(folder)),
    }


class ServedModel:
    """A running model: inputs wait, run in batches, and their answers are sent as soon as they are ready."""

    def __init__(self, key: str, pipeline: AnyPipeline, pipe: Connection) -> None:
        from heedful.pipelines.decoder import THREADED_WIDTH, DecoderPipeline

        self.key, self.pipeline, self.pipe = key, pipeline, pipe
        self.embedder: AnyPipeline | None = None
        self.waiting: FairQueue[Work] = FairQueue()  # for a verb without a search
        self.decoder = pipeline if isinstance(pipeline, DecoderPipeline) else None
        # Its steps are too small for several threads, which would wait for each other, for long on a busy machine.
        self.narrow = self.decoder is not None and pipeline.model.config.d_model < THREADED_WIDTH
        self.batch = self.decoder.batch(fair=True) if self.decoder else None
        self.engine = self.decoder.engine if self.decoder else None
        self.ready: FairQueue[Item] = FairQueue()  # for the engine
        self.items: dict[int, Item] = {}  # in the search, by id
        self.of_sentence: dict[int, Item] = {}  # by the identity of a sentence
        self.sizes: list[int] = []

    def __bool__(self) -> bool:
        """Whether there is something to do."""
        return bool(self.waiting or self.items)

    def add(self, work: Work) -> None:
        """Start an input, or send why it cannot be used."""
        try:
            if work.verb in AT_ONCE:
                self.pipe.send(Done(work.id, [AT_ONCE[work.verb](self.pipeline, work.given, work.options)], 0))
            elif self.decoder is None or self.batch is None:
                self.waiting.add(work, work.caller)
            else:
                item = Item(work)
                if work.verb == "complete":
                    from heedful.pipelines.writer import Writer
                    from heedful.serving.completion import Completion

                    assert isinstance(self.pipeline, Writer)
                    item.completion = Completion(self.pipeline, work.given, **work.options)
                    item.sentences = item.completion.sentences()
                else:
                    options = VERBS[work.verb].options.of(**work.options)
                    (item.sentences,) = self.decoder.sentences([work.given], options)
                if not item.sentences:
                    self.finish(item)
                    return
                self.items[work.id] = item
                self.of_sentence |= {id(sentence): item for sentence in item.sentences}
                if self.engine and all(len(s.source) <= SHORT and self.engine.can_decode(s) for s in item.sentences):
                    self.ready.add(item, work.caller)
                else:
                    self.batch.add(item.sentences, work.caller)
        except Exception as error:
            self.fail(work.id, error)

    def cancel(self, id: int) -> None:
        """Forget an input."""
        for work in [work for work in self.waiting if work.id == id]:
            self.waiting.remove(work, work.caller)
        item = self.items.get(id)
        if item:
            self.forget(item)

    def step(self) -> None:
        """Do one unit of work: one group of inputs, or one step of the search."""
        try:
            if self.waiting:
                self.run_group()
            if self.ready:
                self.run_engine()
            if self.batch:
                self.sizes.append(self.batch.rows or len(self.batch.waiting))
                finished = self.batch.step()
                self.write_pieces()
                for sentence in finished:
                    item = self.of_sentence.get(id(sentence))
                    if item and all(one.finished for one in item.sentences):
                        self.finish(item)
        except Exception as error:  # an error of the whole batch: every caller in it gets it, and the next ones a new batch
            for item in list(self.items.values()):
                self.fail(item.work.id, error)
            self.items, self.of_sentence, self.ready = {}, {}, FairQueue()
            self.batch = self.decoder.batch(fair=True) if self.decoder else None
        if len(self.sizes) >= STATS or (self.sizes and not self):
            self.pipe.send(Stats(self.key, self.sizes))
            self.sizes = []

    def run_group(self) -> None:
        """Run the first waiting inputs that have the same verb and options."""
        from heedful.pipelines.pipeline import run_each

        group: list[Work] = []

        def fits(work: Work, owner: Hashable) -> bool:
            if not group:
                return True
            size = sum(len(one.given) for one in (*group, work) if isinstance(one.given, str))
            return size <= CHARACTERS and (work.verb, work.options) == (group[0].verb, group[0].options)

        while len(group) < TOGETHER and (found := self.waiting.pop(fits)):
            group.append(found[0])
        first = group[0]
        self.sizes.append(len(group))
        try:
            verb = VERBS[first.verb]
            options = verb.options.of(**first.options)
            answers = run_each(self.ready_for(first.verb), [work.given for work in group], options)
        except Exception as error:
            for work in group:
                self.fail(work.id, error)
            return
        for work, results in zip(group, answers, strict=True):
            if isinstance(results, InputError):
                self.fail(work.id, results)
            else:
                self.pipe.send(Done(work.id, [result.as_json() for result in results], 0))

    def run_engine(self) -> None:
        """Let the external engine decode the first inputs waiting for it."""
        assert self.engine
        group = [found[0] for _ in range(TOGETHER) if (found := self.ready.pop())]
        self.sizes.append(sum(sentence.rows for item in group for sentence in item.sentences))
        left = self.engine.decode(sentence for item in group for sentence in item.sentences)
        assert not left
        for item in group:
            self.finish(item)

    def ready_for(self, verb: str) -> AnyPipeline:
        """The pipeline that a verb needs: every BERT can embed."""
        if verb != "embed" or self.pipeline.task == "embedding":
            return self.pipeline
        from heedful.pipelines.embedder import Embedder
        from heedful.pipelines.encoder import EncoderPipeline

        assert isinstance(self.pipeline, EncoderPipeline)
        self.embedder = self.embedder or Embedder.of(self.pipeline)
        return self.embedder

    def write_pieces(self) -> None:
        """Send newly written text to streaming callers, and end completions that reached a stop text."""
        for item in [item for item in self.items.values() if item.completion]:
            assert item.completion
            piece = item.completion.advance()
            if item.completion.stopped and not item.sentences[0].finished:
                self.finish(item)
            elif piece is not None:
                self.pipe.send(Piece(item.work.id, piece))

    def finish(self, item: Item) -> None:
        """Send the answers to an input."""
        self.forget(item)
        if item.completion:
            answers = [item.completion.answer()]
        else:
            assert self.decoder
            answers = [result.as_json() for result in self.decoder.results(item.work.given, item.sentences)]
        tokens = sum(len(h.tokens) for sentence in item.sentences for h in sentence.hypotheses[:1])
        self.pipe.send(Done(item.work.id, answers, tokens))

    def forget(self, item: Item) -> None:
        """Remove an input from the batch."""
        self.items.pop(item.work.id, None)
        for sentence in item.sentences:
            self.of_sentence.pop(id(sentence), None)
        if self.batch is not None and not self.ready.remove(item, item.work.caller):
            self.batch.remove([sentence for sentence in item.sentences if not sentence.finished], item.work.caller)

    def fail(self, id: int, error: Exception) -> None:
        """Send an error; details of unexpected ones only go to the log."""
        item = self.items.get(id)
        if item:
            self.forget(item)
        match error:
            case InputError():
                self.pipe.send(Failed(id, "input", str(error)))
            case UsageError():
                self.pipe.send(Failed(id, "usage", str(error)))
            case _:
                logger.error("a request failed", exc_info=error)
                self.pipe.send(Failed(id, "internal", "the request could not be answered"))
