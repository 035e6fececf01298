"""Muon, an optimizer for the matrices inside the layers: momentum, and every step of a matrix made orthogonal.

A gradient of a matrix has a few large directions and many small ones. Adam follows the large ones; here all are followed
alike, so that a batch teaches more. Embeddings and vectors, to which this does not apply, stay with Adam.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from heedful.nn.decoder import DecoderLayer
from heedful.nn.encoder import EncoderLayer
from heedful.nn.multihead import MultiHeadAttention

MOMENTUM = 0.95
ROUNDS = 5  # of the iteration towards an orthogonal matrix; more change little
# What a round does to a singular value s: a s + b s³ + c s⁵, which takes small ones up fast and leaves all near 1.
A, B, C = 3.4445, -4.7750, 2.0315
STEP = 0.4  # size of the numbers of a step, by the learning rate: about twice those of Adam


def orthogonal(stack: Tensor) -> Tensor:
    """Matrices (n, R, C) with all their singular values near 1, their directions as they were (Newton and Schulz)."""
    if stack.size(1) > stack.size(2):
        return orthogonal(stack.mT).mT
    x = stack / (torch.linalg.matrix_norm(stack, keepdim=True) + 1e-7)
    for _ in range(ROUNDS):
        squares = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(squares, squares, squares, beta=B, alpha=C), x, beta=A)
    return x


def hidden_matrices(model: nn.Module) -> dict[str, tuple[int, int, int]]:
    """Name of every matrix inside a layer → (how many equal ones it is made of, their rows, their columns).

    W_Q, W_K and W_V stand in one parameter; each is a matrix of its own.
    """
    found = {}
    for layer_name, layer in model.named_modules():
        if not isinstance(layer, EncoderLayer | DecoderLayer):
            continue
        for name, part in layer.named_modules(prefix=layer_name):
            if isinstance(part, MultiHeadAttention) and len(set(part.widths)) == 1:
                found[f"{name}.project_in.weight"] = (3, part.widths[0], part.project_in.in_features)
            elif isinstance(part, nn.Linear):
                found.setdefault(f"{name}.weight", (1, part.out_features, part.in_features))
    return found


class Muon:
    """Takes care of matrices of one shape, (n, R, C) each: their weights, their gradients and the momentum of these."""

    def __init__(self, weights: Tensor, gradients: Tensor, momentum: Tensor) -> None:
        self.weights, self.gradients, self.momentum = weights, gradients, momentum
        self.size = STEP * max(weights.shape[1:]) ** 0.5  # the numbers of an orthogonal matrix are as small as it is wide

    @torch.no_grad()
    def step(self, rate: float, decay: float) -> None:
        """A step along the momentum, a little ahead of it (Nesterov)."""
        if len(self.weights):
            self.momentum.lerp_(self.gradients, 1.0 - MOMENTUM)
            ahead = torch.lerp(self.gradients, self.momentum, MOMENTUM)
            self.weights.mul_(1.0 - decay).add_(orthogonal(ahead), alpha=-rate * self.size)
