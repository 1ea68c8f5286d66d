"""Data sets with new entities, and growing ones: their folders, the published sets, and making one's own."""
