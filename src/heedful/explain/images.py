"""The explanation of a Vision Transformer that classifies an image."""

from __future__ import annotations

from torch import Tensor

from heedful.data.images import Pixels, data_uri
from heedful.explain.encoder import SUMMARIES
from heedful.explain.explanation import Candidate, Explanation, Picture, Prediction, Token, TokenSequence
from heedful.explain.from_trace import attention_map, candidates_of, check_size, norms_of
from heedful.explain.logit_lens import lens_of
from heedful.jobs.registry import JOBS
from heedful.models import kind_of
from heedful.nn.pooling import class_scores
from heedful.pipelines.image_classifier import ImageClassifier

ABOUT = "Rows and columns are the patches of the image, named by row and column, after [CLS]."
POOLING = "Rows are the learned queries, one per class, columns the patches of the image."
PICTURE_SIZE = 384  # pixels


def explain_image(pipeline: ImageClassifier, pixels: Pixels, top: int = 5, model: str = "", name: str = "image") -> Explanation:
    """How an image (C, H, W) was classified. Its sequence is [CLS], then the patches row by row."""
    net, config = pipeline.model, pipeline.model.config
    image = pipeline.tensor_of((pixels, ""))
    rows, columns = image.size(2) // config.patch, image.size(3) // config.patch
    check_size(config.layers * config.heads * (rows * columns + 1) ** 2, rows * columns)
    picture = Picture(data_uri(pixels, PICTURE_SIZE), rows, columns)
    patches = [Token(None, f"{row + 1},{column + 1}") for row in range(rows) for column in range(columns)]
    sequences = {"input": TokenSequence([Token(None, "[CLS]", True), *patches], image=picture)}
    if config.pooling == "attention":
        sequences["queries"] = TokenSequence([Token(number, label) for number, label in enumerate(pipeline.labels)])
        sequences["patches"] = TokenSequence(patches, image=picture)
    with pipeline.working():
        trace = net.trace(image.to(pipeline.device))

        def say(states: Tensor) -> list[list[Candidate]]:
            probabilities = class_scores(net.pooled(net.encoder.norm(states)), net.classifier).softmax(-1)
            return candidates_of(probabilities, top, pipeline.labels)

        lens = lens_of(trace, "encoder", "input", say, [SUMMARIES[config.pooling]])
    (best,) = lens.layers[-1]
    return Explanation(
        job=pipeline.task,
        verb=JOBS[pipeline.task].verbs[0],
        kind=kind_of(config),
        model=model,
        input=name,
        output=f"{best[0].text} {best[0].probability:.1%}",
        sequences=sequences,
        attention=[
            *attention_map(trace, "encoder", ABOUT, "input", "input", sequences),
            *attention_map(trace, "pooling", POOLING, "queries", "patches", sequences),
        ],
        norms=[norms_of(trace, "encoder", "input")],
        lens=[lens],
        candidates=[Prediction(None, best[0].id, best)],
    )
