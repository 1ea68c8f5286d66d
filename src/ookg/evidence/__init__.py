"""What the graph says beside the vectors: direct links, habits, paths, company, likeness; and how to weigh it all."""
