#!/usr/bin/env bash
# Builds the collection, installs it into a scratch directory and runs ansible-test sanity and ansible-doc on what was
# installed: ansible-test needs a real .../ansible_collections/trainyard/swift path, which the committed link is not.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
top=$root_dir
venv=$(realpath "${1:-$top/.venv}")
command -v shellcheck >/dev/null || apt_install shellcheck
export PATH="$venv/bin:$PATH"
python=$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# ansible-test fetches a pip of its own from a host that may be out of reach; its documented way out is this file.
for version in 24_2 25_2; do
  bootstrap=$HOME/.ansible/test/cache/get_pip_$version.py
  if [ ! -e "$bootstrap" ]; then
    mkdir -p "$(dirname "$bootstrap")"
    echo 'import ensurepip; ensurepip.bootstrap(upgrade=True)' >"$bootstrap"
  fi
done

cd "$top"
ansible-galaxy collection build --force --output-path "$scratch/dist" >/dev/null
# --force: in the checkout ansible-galaxy finds the link and would call it done. No dependencies: none is needed here.
ansible-galaxy collection install "$scratch"/dist/*.tar.gz --force --no-deps -p "$scratch/collections" >/dev/null
cd "$scratch/collections/ansible_collections/trainyard/swift"
if find . -name '.*' -type f | grep -q . || [ -e collections ] || [ -e inventory/hosts.yml ]; then
  echo "The built collection holds files that belong to the checkout alone; see build_ignore in galaxy.yml:" >&2
  ls -A >&2
  exit 1
fi
for ignore in tests/sanity/ignore-*.txt; do
  [ ! -s "$ignore" ] || { echo "$ignore is not empty: fix what it hides" >&2; exit 1; }
done
echo "ansible-test sanity on the installed collection (2 to 4 minutes the first time)"
git init -q . # ansible-test asks git which files there are
ansible-test sanity --python "$python" --color no
ANSIBLE_COLLECTIONS_PATH=$scratch/collections ansible-doc --metadata-dump --no-fail-on-errors trainyard.swift >"$scratch/doc.json"
python - "$scratch/doc.json" <<'PY'
import json
import sys

dump = json.load(open(sys.argv[1]))["all"]
count, bad = 0, []
for kind, plugins in dump.items():
    for name, doc in plugins.items():
        if not name.startswith("trainyard.swift."):
            continue
        count += 1
        if "error" in doc:
            bad.append(f"{kind} {name}: {doc['error']}")
sys.exit("\n".join(bad) or (0 if count else "ansible-doc found no plugin"))
PY
echo "ansible-doc: every plugin is documented"
