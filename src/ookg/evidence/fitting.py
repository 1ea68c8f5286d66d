"""Fitting the weights of evidence, on questions and claims whose answers are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from ookg.kernels.threads import one_torch_thread
from ookg.types import BoolArray, FloatArray, IntArray

STEPS = 100


def fit_ranking(features: Sequence[Tensor], answers: Tensor, left_out: Tensor, l2: float = 1e-4) -> FloatArray:
    """The weights under which the right answers are likeliest: softmax over each query's weighted sum of features.

    features: each (queries, entities); answers: (queries,) entity ids
    left_out: (queries, entities) other true answers, which are no rivals; l2: factor of the squared weights
    """
    weights = torch.zeros(len(features), device=answers.device, requires_grad=True)

    def loss() -> Tensor:
        total = sum((weight * feature for weight, feature in zip(weights, features, strict=True)), start=_zero(weights))
        return cross_entropy(total.masked_fill(left_out, -torch.inf), answers) + l2 * weights.square().sum()

    return _minimised(weights, loss)


def fit_logistic(features: FloatArray, truth: BoolArray, l2: FloatArray | float) -> FloatArray:
    """The weights of a logistic regression, (features,); l2: factor of the squared weights, for each or for all."""
    columns, labels = torch.from_numpy(features), torch.from_numpy(truth.astype(np.float64))
    factors = torch.from_numpy(np.broadcast_to(l2, features.shape[1:]).astype(np.float64))
    weights = torch.zeros(features.shape[1], dtype=torch.float64, requires_grad=True)

    def loss() -> Tensor:
        return (
            binary_cross_entropy_with_logits((columns * weights).sum(dim=1), labels)
            + (factors * weights.square()).sum()
        )

    return _minimised(weights, loss)


def fit_grouped_logistic(
    columns: FloatArray, groups: IntArray, truth: BoolArray, num_groups: int, l2: float, own_scale: float
) -> tuple[FloatArray, FloatArray]:
    """A logistic regression with weights that all groups share, (columns,), and each group's own, (groups, columns).

    columns: the constant first. l2: factor of all squared weights but the shared constant's. A group's own weights are
    own_scale times what is penalised, so the smaller it is, the nearer they stay to 0; the constant is not scaled.
    """
    values, labels = torch.from_numpy(columns), torch.from_numpy(truth.astype(np.float64))
    group, size = torch.from_numpy(groups), columns.shape[1]
    scales = torch.full((size,), own_scale, dtype=torch.float64)
    scales[0] = 1.0
    weights = torch.zeros((1 + num_groups) * size, dtype=torch.float64, requires_grad=True)

    def split() -> tuple[Tensor, Tensor]:
        return weights[:size], weights[size:].view(num_groups, size) * scales

    def loss() -> Tensor:
        shared, own = split()
        logits = (values * (shared + own[group])).sum(dim=1)
        return binary_cross_entropy_with_logits(logits, labels) + l2 * weights[1:].square().sum()

    _minimised(weights, loss)
    shared, own = (part.detach().numpy() for part in split())
    return shared.copy(), own.copy()


def _zero(like: Tensor) -> Tensor:
    return torch.zeros((), device=like.device)


@one_torch_thread()
def _minimised(weights: Tensor, loss: Callable[[], Tensor]) -> FloatArray:
    optimiser = torch.optim.LBFGS([weights], max_iter=STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    return weights.detach().double().cpu().numpy()
