# SPDX-License-Identifier: Apache-2.0
"""Every test here has the fixtures of fixtures.py."""
from fixtures import *  # noqa: F401,F403
