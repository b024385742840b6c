"""Pictures: how much noise one holds, told from the picture alone."""
