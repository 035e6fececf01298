"""The recipe sections that all jobs share: tokenizer, training and decoding. For the data section see `jobs.data_settings`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

from heedful.errors import UsageError
from heedful.jobs.options import NoRepeat, Repetition
from heedful.jobs.registry import PAIRED, WRITERS
from heedful.settings import Count, CountOrNone, Share, setting


@dataclass(frozen=True)
class TokenizerSettings:
    """How text becomes tokens."""

    kind: Literal["bpe", "wordpiece", "sentencepiece", "char", "byte", "word"] = setting(
        "bpe",
        "`bpe` (over bytes: decoding restores any text), `wordpiece`, `sentencepiece` (unigram; runs of spaces become one), "
        "`char`, `byte`, `word` (split at spaces)",
    )
    size: Annotated[int, Interval(ge=8, le=10_000_000)] = setting(8000, "tokens in the vocabulary, special tokens included")
    joint: bool = setting(True, "one vocabulary for both languages of a pair, or one each")
    file: str = setting("", "a ready-made `tokenizer.json` (Hugging Face) or BERT `vocab.txt` instead of training one")
    sample: Count = setting(2_000_000, "maximum number of pairs, lines or texts to learn a vocabulary from")
    extend: Annotated[int, Interval(ge=0, le=1_000_000)] = setting(
        0, "maximum number of tokens to add to the vocabulary of a pretrained translation model for new text; 0 keeps it"
    )

    def check_tie(self, tie: str | None) -> None:
        """Raise an error if the model ties embeddings that do not have the same vocabulary."""
        if tie == "all" and not self.joint:
            raise UsageError("model.tie=all needs one vocabulary for both languages; use tie=target or tokenizer.joint=true")


@dataclass(frozen=True)
class TrainingSettings:
    """How the model is trained."""

    steps: Count = setting(10_000, "optimizer steps")
    seed: Annotated[int, Interval(ge=0, le=2**63 - 1)] = setting(1, "seed of every random number: weights, dropout, data order")
    batch_tokens: Annotated[int, Interval(ge=1, le=2**31)] = setting(
        4096, "padded tokens of the longer side (patches, for images) per batch, over all workers"
    )
    batch_examples: CountOrNone = setting(0, "most examples per batch; 0 sets no limit")
    accumulate: Annotated[int, Interval(ge=1, le=100_000)] = setting(1, "batches whose gradients are summed for one step")
    workers: CountOrNone = setting(0, "processes; 0 chooses by a short trial")
    shard: bool = setting(False, "shard the weights over the processes (FSDP2), for models that do not fit into one")
    device: str = setting("auto", "`auto`, `cpu`, `cuda` or `mps`")
    precision: Literal["auto", "float32", "bf16"] = setting("auto", "`auto` uses bf16 where the device is fast at it")
    schedule: Literal["inverse-sqrt", "linear", "constant"] = setting(
        "inverse-sqrt", "learning rate after the warm-up: `inverse-sqrt` (the paper), `linear` down to zero, `constant`"
    )
    warmup: Count = setting(4000, "steps over which the learning rate rises to its peak")
    learning_rate: Annotated[float, Interval(ge=0, le=100)] = setting(
        0.0, "peak learning rate; 0 is the paper's, (d_model · warmup)^-0.5"
    )
    optimizer: Literal["adam", "muon"] = setting("adam", "`adam`, or `muon` for the matrices inside the layers")
    beta1: Share = setting(0.9, "of Adam")
    beta2: Share = setting(0.98, "of Adam")
    epsilon: Annotated[float, Interval(ge=0, le=1)] = setting(1e-9, "of Adam")
    weight_decay: Annotated[float, Interval(ge=0, le=100)] = setting(
        0.0, "fraction by which every matrix shrinks at each step, times the learning rate (AdamW)"
    )
    clip: Annotated[float, Interval(ge=0, le=1e9)] = setting(1.0, "maximum norm of the gradient; 0 disables clipping")
    label_smoothing: Share = setting(0.1, "probability mass given to the wrong tokens")
    validate_every: Count = setting(500, "steps between validations")
    validate_pairs: Count = setting(1000, "pairs or examples scored at each validation; final scoring uses all")
    metric: str = setting("", "the metric that chooses the best checkpoint; empty for the job's usual one, such as `bleu`")
    patience: CountOrNone = setting(0, "early stopping after this many validations without a new best; 0 disables it")
    checkpoint_every: Count = setting(500, "steps between checkpoints")
    history: CountOrNone = setting(
        0,
        "steps between snapshots of the weights, to show later how the model developed (`heedful page`); 0 keeps none",
    )
    average: Annotated[int, Interval(ge=1, le=10_000)] = setting(
        5, "the final weights are the mean of the last checkpoints, this many"
    )
    ema: Share = setting(0.0, "decay of a running mean of the weights (EMA) that is validated and saved instead; 0 disables it")
    bpe_dropout: Share = setting(0.0, "probability that a BPE merge is undone during training")
    r_drop: Annotated[float, Interval(ge=0, le=1000)] = setting(
        0.0, "weight of the disagreement between two passes with different dropout (R-Drop); steps cost twice as much"
    )
    r_drop_from: Share = setting(0.0, "R-Drop begins after this share of the steps")
    log_every: Count = setting(50, "steps between log lines")

    def check_model(self, kind: str, tokenizer: TokenizerSettings) -> None:
        """Raise an error if a training method is switched on that does not work with this kind of model."""
        if self.r_drop and kind not in WRITERS:
            raise UsageError(f"training.r_drop is for models that write text ({', '.join(WRITERS)}), not for {kind}")
        if self.optimizer == "muon" and not muon_is_possible(kind):
            raise UsageError("training.optimizer=muon is for the matrices of Transformer layers, not for a recurrent model")
        if self.bpe_dropout and (kind not in PAIRED or tokenizer.kind != "bpe"):
            raise UsageError(
                "training.bpe_dropout undoes merges of BPE: it is for translation and summarization with tokenizer.kind=bpe"
            )


def muon_is_possible(kind: str) -> bool:
    """Whether Muon can be used: it is for the matrices of Transformer layers."""
    return kind != "recurrent"


@dataclass(frozen=True)
class DecodingSettings:
    """How the model writes."""

    beam: Annotated[int, Interval(ge=1, le=1000)] = setting(4, "beam width; 1 is greedy")
    length_penalty: Annotated[float, Interval(ge=0, le=10)] = setting(0.6, "the α of beam search: larger favours longer outputs")
    max_extra: Annotated[int, Interval(ge=0, le=1_000_000)] = setting(50, "longest output: input length + this")
    max_tokens: CountOrNone = setting(0, "longest output regardless of its input; 0 for no limit")
    no_repeat_ngram: NoRepeat = setting(0, "never repeat an n-gram of this many tokens; 0 for no limit")
    repetition_penalty: Repetition = setting(1.0, "above 1: tokens already written become less probable")
    validation_beam: Annotated[int, Interval(ge=1, le=1000)] = setting(1, "beam width for validation during training")
