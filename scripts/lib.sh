# Shared by the scripts beside it; read with `.`, not run.
# shellcheck shell=bash

root_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC2034
state_dir=$root_dir/.cache/local_cluster

say() { printf '\n==> %s\n' "$*"; }

fail() {
    printf '\nError: %s\n' "$*" >&2
    exit 1
}

# apt knows proxies only by their names in lower case.
export_proxy() { [ -z "$2" ] || export "$1=$2"; }
export_proxy http_proxy "${http_proxy:-${HTTP_PROXY:-}}"
export_proxy https_proxy "${https_proxy:-${HTTPS_PROXY:-}}"
export_proxy no_proxy "${no_proxy:-${NO_PROXY:-}}"

# As root, or through sudo; the proxy settings go along.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo --preserve-env=http_proxy,https_proxy,no_proxy,HTTP_PROXY,HTTPS_PROXY,NO_PROXY,DEBIAN_FRONTEND "$@"
    else
        fail "this step needs root: $*. Run make as root, or install sudo and allow it to $(id -un)."
    fi
}

require_apt() {
    command -v apt-get >/dev/null ||
        fail "apt-get is not there, and $1 is missing. Only Debian and Ubuntu are set up by make: install $1 yourself and run make again."
}

# Package lists are fetched once in a run of a script, and only when something has to be installed.
apt_updated=
apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    if [ -z "$apt_updated" ]; then
        as_root apt-get update -qq || printf 'Warning: some package lists could not be fetched.\n' >&2
        apt_updated=yes
    fi
    as_root apt-get install -qq --yes --no-install-recommends "$@" >/dev/null ||
        fail "apt-get could not install $*. Its own words are above."
}
