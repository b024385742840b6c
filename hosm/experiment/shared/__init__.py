"""What several studies share: rows of results, the files that they are in, the stopwatch."""
