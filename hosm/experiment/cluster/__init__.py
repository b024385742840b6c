"""Everything that touches Ray: connecting, training, tuning, worker states, jobs."""
