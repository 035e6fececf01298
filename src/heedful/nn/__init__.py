"""Building blocks, one idea of the paper per file. This package imports nothing else of heedful."""

from heedful.nn.attention.full import scaled_dot_product_attention
from heedful.nn.decoder import Decoder, DecoderLayer
from heedful.nn.dropout import Dropout
from heedful.nn.embeddings import TokenEmbedding
from heedful.nn.encoder import Encoder, EncoderLayer
from heedful.nn.fast.attention import fused_attention
from heedful.nn.feedforward import FeedForward
from heedful.nn.masks import causal_mask, padding_mask
from heedful.nn.multihead import MultiHeadAttention
from heedful.nn.pooling import AttentionPooling, first_token, mean_pooling
from heedful.nn.positions import LearnedPositions, SinusoidalPositions
from heedful.nn.residual import Residual
from heedful.nn.trace import Trace

__all__ = [
    "AttentionPooling",
    "Decoder",
    "DecoderLayer",
    "Dropout",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "LearnedPositions",
    "MultiHeadAttention",
    "Residual",
    "SinusoidalPositions",
    "TokenEmbedding",
    "Trace",
    "causal_mask",
    "first_token",
    "fused_attention",
    "mean_pooling",
    "padding_mask",
    "scaled_dot_product_attention",
]
