#!/usr/bin/env bash
# bootstrap.sh VENV REQUIREMENTS: a virtual environment with these Python requirements, and the Galaxy collections beside it.
# The variable PYTHON chooses the interpreter (3.11 or newer). Done once for each content of the requirement files.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root_dir"

venv=${1:?Usage: bootstrap.sh VENV REQUIREMENTS}
requirements=${2:?Usage: bootstrap.sh VENV REQUIREMENTS}
collections_dir=collections/ansible_collections
galaxy_timeout=20

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    fail "no Python 3.11 or newer (asked: ${PYTHON:-python3 python3.13 python3.12 python3.11}). Install one, or name it: make PYTHON=/path/to/python3."
}

# Debian and Ubuntu keep what makes a virtual environment in a package of its own.
see_to_venv_module() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null && return
    require_apt "Python's venv module"
    say "Python: installing its venv module (about 20 seconds)"
    apt_install "$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
}

# What a tool of these roles needs on the machine itself, next to Python.
see_to_commands() {
    local missing=()
    command -v ssh >/dev/null || missing+=(openssh-client)
    [ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
    [ "${#missing[@]}" -eq 0 ] && return
    require_apt "${missing[*]}"
    say "Installing ${missing[*]} (about 20 seconds)"
    apt_install "${missing[@]}"
}

make_venv() {
    local python=$1
    if [ -x "$venv/bin/python" ] && ! new_enough "$venv/bin/python"; then
        rm -rf "$venv"
    fi
    if [ ! -x "$venv/bin/python" ]; then
        say "Python: making $venv with $("$python" --version)"
        see_to_venv_module "$python"
        "$python" -m venv "$venv"
    fi
}

# Everything that decides what the environment holds: a requirements file may name another.
fingerprint() { cat "$requirements" requirements*.txt requirements.yml | sha256sum | cut -d ' ' -f 1; }

install_requirements() {
    say "Python: installing $requirements into $venv (1 to 2 minutes)"
    "$venv/bin/python" -m pip install -qq --upgrade "pip>=24"
    "$venv/bin/python" -m pip install -qq --requirement "$requirements" ||
        fail "pip could not install $requirements. Its own words are above; 'pip config list' shows which index it asks."
}

collection_is_there() { [ -e "$collections_dir/community/docker/MANIFEST.json" ]; }

# Done once for each content of requirements.yml.
install_collections() {
    local mark
    mark=$collections_dir/community/.requirements.$(sha256sum <requirements.yml | cut -d ' ' -f 1)
    [ -e "$mark" ] && collection_is_there && return
    fetch_collections
    rm -f "$collections_dir"/community/.requirements.*
    touch "$mark"
}

# Galaxy first; where it is out of reach, the same collections from PyPI's ansible package.
fetch_collections() {
    say "Ansible: installing the collections of requirements.yml (up to 1 minute)"
    if timeout "$galaxy_timeout" "$venv/bin/ansible-galaxy" collection install --requirements-file requirements.yml \
        --collections-path collections --timeout 10 >/dev/null 2>&1 && collection_is_there; then
        return
    fi
    printf 'Galaxy does not answer; taking them from the ansible package of the Python index.\n'
    "$venv/bin/python" scripts/collections_from_pypi.py --target collections \
        community.docker community.library_inventory_filtering_v1
}

main() {
    local mark python
    mark=$venv/.$(basename "$requirements" .txt).$(fingerprint)
    see_to_commands
    if [ ! -e "$mark" ]; then
        # On a line of its own: a failure inside an argument would not end the script.
        python=$(find_python)
        make_venv "$python"
        install_requirements
        rm -f "$venv/.$(basename "$requirements" .txt)".*
        touch "$mark"
    fi
    install_collections
}

main
