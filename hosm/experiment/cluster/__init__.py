"""Everything that touches Ray: connecting, training, tuning, worker states, jobs.

A cluster of this machine alone listens on loopback. Ray reads that from a variable named for the
systems where it is the rule, at its import; without it, it replaces 127.0.0.1 by an address that
other machines reach. Where `RAY_ADDRESS` names a cluster to join, Ray's own rule holds.
"""

import os

if "RAY_ADDRESS" not in os.environ:
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
