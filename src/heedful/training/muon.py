"""Muon (Jordan et al., 2024): momentum whose matrix is made orthogonal before every step.

The gradient of a matrix has a few large singular values and many small ones. Adam mostly follows the large ones; Muon
sets all of them to about 1, so that each batch teaches more. Embeddings, biases and gains stay with Adam.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from heedful.nn.decoder import DecoderLayer
from heedful.nn.encoder import EncoderLayer
from heedful.nn.multihead import MultiHeadAttention

MOMENTUM = 0.95
ROUNDS = 5  # of the Newton–Schulz iteration; more change little
# Each round maps a singular value s to a s + b s³ + c s⁵, which raises small ones fast and leaves all of them near 1.
A, B, C = 3.4445, -4.7750, 2.0315
STEP = 0.4  # root mean square of an update, times the learning rate: about twice that of Adam


def orthogonal(stack: Tensor) -> Tensor:
    """Matrices (n, R, C) with the same singular vectors and all singular values near 1 (Newton–Schulz iteration)."""
    if stack.size(1) > stack.size(2):
        return orthogonal(stack.mT).mT
    x = stack / (torch.linalg.matrix_norm(stack, keepdim=True) + 1e-7)
    for _ in range(ROUNDS):
        squares = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(squares, squares, squares, beta=B, alpha=C), x, beta=A)
    return x


def hidden_matrices(model: nn.Module) -> dict[str, tuple[int, int, int]]:
    """Name of every matrix inside a layer → (how many equal ones it is made of, their rows, their columns).

    W_Q, W_K and W_V share one parameter, but each is a matrix of its own.
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


@torch.no_grad()
def ahead_of(gradients: Tensor, momentum: Tensor) -> Tensor:
    """Advance the momentum, and return Nesterov's: where it will be after the next step in the same direction."""
    momentum.lerp_(gradients, 1.0 - MOMENTUM)
    return torch.lerp(gradients, momentum, MOMENTUM)


@torch.no_grad()
def direction(stack: Tensor) -> Tensor:
    """The update of matrices (n, R, C) with this momentum at a learning rate of 1."""
    # An orthogonal matrix has entries of root mean square 1/√max(R, C).
    return orthogonal(stack).mul_(STEP * max(stack.shape[1:]) ** 0.5)


class Muon:
    """Updates a stack of matrices of one shape: weights, gradients and momentum, (n, R, C) each."""

    def __init__(self, weights: Tensor, gradients: Tensor, momentum: Tensor) -> None:
        self.weights, self.gradients, self.momentum = weights, gradients, momentum

    @torch.no_grad()
    def step(self, rate: float, decay: float) -> None:
        """A step along the Nesterov momentum."""
        if len(self.weights):
            ahead = ahead_of(self.gradients, self.momentum)
            self.weights.mul_(1.0 - decay).add_(direction(ahead), alpha=-rate)
