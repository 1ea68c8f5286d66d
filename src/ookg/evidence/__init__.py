"""What the graph says beside the vectors: direct links, habits of relations, short paths; and how to weigh it all."""
