"""Building blocks, one idea of the paper a file. This room imports nothing else of the package."""

from heedful.nn.attention import MultiHeadAttention, attention, fused_attention, keep_attention
from heedful.nn.embeddings import TokenEmbedding
from heedful.nn.feedforward import FeedForward
from heedful.nn.layers import Decoder, DecoderLayer, Encoder, EncoderLayer
from heedful.nn.masks import causal_mask, padding_mask
from heedful.nn.pooling import AttentionPooling, first_token, mean_pooling
from heedful.nn.positions import LearnedPositions, SinusoidalPositions
from heedful.nn.residual import Dropout, Residual

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
    "attention",
    "causal_mask",
    "first_token",
    "fused_attention",
    "keep_attention",
    "mean_pooling",
    "padding_mask",
]
