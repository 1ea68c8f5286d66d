"""Data sets with new entities: the folder format, the eleven published sets, their downloader, and making one's own."""

from ookg.datasets.dataset import PARTS, Dataset, Task, check_target, compact, write_dataset
from ookg.datasets.download import DownloadError, fetch
from ookg.datasets.folder import cache_folder, find_dataset, load_dataset
from ookg.datasets.published import PublishedSet, published_set, published_sets
from ookg.datasets.splitting import Split, SplitSettings, split
from ookg.datasets.summary import DatasetStatistics, statistics

__all__ = [
    "PARTS",
    "Dataset",
    "DatasetStatistics",
    "DownloadError",
    "PublishedSet",
    "Split",
    "SplitSettings",
    "Task",
    "cache_folder",
    "check_target",
    "compact",
    "fetch",
    "find_dataset",
    "load_dataset",
    "published_set",
    "published_sets",
    "split",
    "statistics",
    "write_dataset",
]
