# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this doc fragment is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

from __future__ import annotations


class ModuleDocFragment:
    """The option that all modules about jobs share."""

    DOCUMENTATION = r"""
options:
  jobs_dir:
    description:
      - Folder on the node's own disk in which everything about jobs is kept, one folder for each job and rank.
      - Network file systems are refused, since locks and atomic renames are needed.
      - With the runtime V(docker) it must be mounted at the same path into the container.
    type: path
    default: /var/lib/trainyard/jobs
"""
