# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings for all unit tests."""

from __future__ import annotations

from hypothesis import settings

# A busy machine must not fail a property test by its slowness alone.
settings.register_profile("trainyard", deadline=None)
settings.load_profile("trainyard")
