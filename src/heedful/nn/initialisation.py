"""Initial values of matrices: Xavier (Glorot and Bengio, 2010), LeCun (1998), He (2015), and a fixed deviation.

A matrix maps n_in numbers to n_out. Xavier: variance 2 / (n_in + n_out). LeCun: 1 / n_in. He: 2 / n_in, for ReLU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from torch import Tensor, nn

Init = Literal["xavier-uniform", "xavier-normal", "lecun-uniform", "lecun-normal", "he-uniform", "he-normal", "normal-0.02"]
STD = 0.02  # standard deviation of normal-0.02, the initialisation of GPT-2, BERT and ViT

FILL: dict[Init, Callable[[Tensor], Tensor]] = {
    "xavier-uniform": nn.init.xavier_uniform_,
    "xavier-normal": nn.init.xavier_normal_,
    "lecun-uniform": lambda matrix: nn.init.kaiming_uniform_(matrix, nonlinearity="linear"),
    "lecun-normal": lambda matrix: nn.init.kaiming_normal_(matrix, nonlinearity="linear"),
    "he-uniform": lambda matrix: nn.init.kaiming_uniform_(matrix, nonlinearity="relu"),
    "he-normal": lambda matrix: nn.init.kaiming_normal_(matrix, nonlinearity="relu"),
    "normal-0.02": lambda matrix: nn.init.normal_(matrix, std=STD),
}


def initialise(model: nn.Module, init: Init, keep: Iterable[nn.Parameter] = ()) -> None:
    """Fill every matrix of a model, except those in `keep`; biases of linear maps become zero, and norms stay as they are.

    Matrices stacked in one parameter are initialised one by one: a module with such parameters has `stacked`, which gives
    the number of rows of each matrix by the name of the parameter.
    """
    kept = {id(parameter) for parameter in keep}
    stacked: dict[int, Sequence[int]] = {}
    for module in model.modules():
        give = getattr(module, "stacked", None)
        rows: dict[str, Sequence[int]] = give() if callable(give) else {}
        for name, parameter in module.named_parameters():
            if name in rows:
                stacked[id(parameter)] = rows[name]
            elif isinstance(module, nn.RNNBase):  # one matrix per gate
                stacked[id(parameter)] = [module.hidden_size] * (parameter.size(0) // module.hidden_size)
    for parameter in model.parameters():
        if parameter.dim() > 1 and id(parameter) not in kept:
            whole = [parameter.size(0)]
            rows_of = whole if init == "normal-0.02" else stacked.get(id(parameter), whole)
            for matrix in parameter.data.split(list(rows_of)):
                FILL[init](matrix)
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
