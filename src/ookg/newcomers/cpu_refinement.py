"""Refinement of new entities' vectors on the CPU, by the kernels of `ookg.kernels.cpu_refinement`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ookg.kernels.adam import FIRST_DECAY, SECOND_DECAY
from ookg.kernels.cpu_compile import gap_kind
from ookg.kernels.cpu_refinement import row_gradients, update_vectors
from ookg.models.embedding import Embedding
from ookg.models.geometry import Move, kernel_of
from ookg.types import Array

if TYPE_CHECKING:
    from ookg.newcomers.refinement import Problem, RefineSettings


class NumbaRefinement:
    """The steps of `ookg.newcomers.refinement.ReferenceRefinement`, with gradients in closed form."""

    name = "numba"

    def __init__(self, embedding: Embedding, problem: Problem, start: Tensor, settings: RefineSettings) -> None:
        geometry = embedding.geometry
        self.problem, self.settings = problem, settings
        self.vectors = start.clone().contiguous()
        mean, square = torch.zeros_like(self.vectors), torch.zeros_like(self.vectors)
        self.tables = (self.vectors.numpy(), start.contiguous().numpy(), mean.numpy(), square.numpy())
        self.entities = embedding.entities.contiguous().numpy()
        relations, relation = np.unique(problem.relation, return_inverse=True)
        self.turns = _turns(embedding, relations)
        self.owners = (problem.keys.view(np.uint64), problem.offsets, problem.slots, problem.owners)
        self.links = (relation, problem.neighbor, problem.is_head)
        self.answers = (problem.answers, problem.first, problem.last)
        kernel = kernel_of(geometry)
        margin, temperature = float(settings.margin), float(settings.temperature)
        self.loss = (settings.negatives, margin, temperature, gap_kind(geometry), kernel.squared)
        self.unit_norm = kernel.unit_norm
        self.gradients = torch.empty(len(problem.owners), geometry.entity_width).numpy()

    def __call__(self, step: int) -> None:
        """Take the step with this number."""
        settings, updates = self.settings, step + 1
        row_gradients(
            (self.entities, self.turns, self.tables[0]),
            self.owners,
            self.links,
            self.answers,
            (step, np.uint64(self.problem.step_stream(step))),
            self.loss,
            self.gradients,
        )
        rate = settings.rate(step) / (1 - FIRST_DECAY**updates)
        factors = (2.0 * settings.prior, rate, 1 / (1 - SECOND_DECAY**updates))
        update_vectors(self.tables, self.gradients, self.owners[2], factors, self.unit_norm)


def _turns(embedding: Embedding, relations: Array) -> Array:
    """(1, relations, dim) translations, or (2, relations, dim) cos and sin of the rotations."""
    vectors = embedding.relations[torch.from_numpy(relations)]
    match kernel_of(embedding.geometry).move:
        case Move.TRANSLATION:
            return vectors.numpy()[None]
        case Move.ROTATION:
            return torch.stack((torch.cos(vectors), torch.sin(vectors))).numpy()
