"""What every test shares: one thread for tensors, so that suites do not fight over the cores."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
