"""A training step of PyKEEN with the same model, sizes and loss, where PyKEEN is installed."""

from __future__ import annotations

from importlib.util import find_spec
from time import perf_counter

from torch import Tensor

from ookg.training.settings import TrainingSettings

BATCHES = 3


def pykeen_seconds(triples: Tensor, num_entities: int, num_relations: int, settings: TrainingSettings) -> float | None:
    """Seconds a step, the mean of a few; None where PyKEEN is not installed."""
    if find_spec("pykeen") is None:
        return None
    from pykeen.losses import NSSALoss
    from pykeen.models import TransE
    from pykeen.training import SLCWATrainingLoop
    from pykeen.triples import CoreTriplesFactory
    from torch.optim import Adam

    factory = CoreTriplesFactory(
        mapped_triples=triples[: BATCHES * settings.batch].clone(),
        num_entities=num_entities,
        num_relations=num_relations,
    )
    model = TransE(
        triples_factory=factory,
        embedding_dim=settings.dim,
        scoring_fct_norm=settings.norm,
        loss=NSSALoss(margin=settings.margin, adversarial_temperature=settings.temperature),
    ).to("cpu")
    loop = SLCWATrainingLoop(
        model=model,
        triples_factory=factory,
        optimizer=Adam(model.parameters(), lr=settings.lr),
        negative_sampler_kwargs={"num_negs_per_pos": settings.negatives},
    )

    def epoch() -> float:
        start = perf_counter()
        loop.train(
            factory,
            num_epochs=1,
            batch_size=settings.batch,
            use_tqdm=False,
            use_tqdm_batch=False,
            num_workers=0,
        )
        return (perf_counter() - start) / BATCHES

    return min(epoch() for _ in range(2))
