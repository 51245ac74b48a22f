#!/usr/bin/env bash
# The unit tests and the tests of the validate playbook on the newest Python and ansible-core that this collection is tested with.
# Where no Python 3.13 is to be found nothing of it is tested: said so here and by the end-to-end tests, and an error in CI.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=${NEWEST_PYTHON:-3.13}

find_python() {
  local candidate
  for candidate in "python$wanted" "$(command -v pyenv >/dev/null && pyenv prefix "$(pyenv latest "$wanted" 2>/dev/null)" 2>/dev/null)/bin/python$wanted"; do
    if "$candidate" -c 'import venv' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

if ! python=$(find_python); then
  echo "NOT TESTED: the newest ansible-core. No Python $wanted was found on this machine (python$wanted on PATH, or in pyenv)." \
    "Install it, or name another version with NEWEST_PYTHON=3.x." >&2
  [ -z "${CI:-}" ]
  exit
fi
echo "The newest ansible-core on Python $wanted (1 to 2 minutes the first time)"
[ -x .venv-newest/bin/python ] || "$python" -m venv .venv-newest
.venv-newest/bin/pip install --quiet --upgrade --upgrade-strategy eager -r requirements.txt hypothesis pytest
.venv-newest/bin/ansible-playbook --version | head -1
.venv-newest/bin/pytest tests/unit tests/integration/playbooks/test_validate.py --durations=3
