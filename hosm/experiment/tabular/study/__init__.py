"""What the benchmark of tables measures."""
