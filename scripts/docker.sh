#!/usr/bin/env bash
# Docker Engine of this machine, for the local cluster: `docker.sh start` installs and starts it where none answers,
# `docker.sh resume` starts one that is installed, `docker.sh stop` ends only what `start` began. Running any twice changes nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

oldest_docker=23
source_file=/etc/apt/sources.list.d/trainyard-docker.sources
pin_file=/etc/apt/preferences.d/trainyard-docker
engine_dir=$state_dir/engine
pid_file=$engine_dir/dockerd.pid
log_file=$engine_dir/dockerd.log

docker_answers() { command -v docker >/dev/null && as_root docker version >/dev/null 2>&1; }

systemd_runs() { [ -d /run/systemd/system ]; }

# Docker older than 23 asks for every capability that the kernel knows, and fails in a machine that lacks one.
distribution_is_too_old() {
    local candidate
    candidate=$(apt-cache policy docker.io | sed -n 's/^  Candidate: //p')
    [ -n "$candidate" ] || fail "apt knows no package docker.io. Check the machine's apt sources."
    dpkg --compare-versions "$candidate" lt "$oldest_docker"
}

next_release() {
    . /etc/os-release
    case $VERSION_CODENAME in
        bookworm) printf 'trixie' ;;
        *) fail "docker.io of $PRETTY_NAME is older than $oldest_docker. Install a newer Docker Engine and run make again." ;;
    esac
}

codename() { sed -n 's/^VERSION_CODENAME=//p' /etc/os-release; }

# Adds the next release's packages, for Docker's three alone.
add_next_release() {
    local following sources
    following=$(next_release)
    sources=$(python3 "$root_dir/roles/local_cluster/files/apt_sources.py" /etc/apt "$(codename)" "$following")
    printf '%s\n' "$sources" | as_root tee "$source_file" >/dev/null
    sed "s/@RELEASE@/$following/" "$root_dir/images/node/docker-pin" | as_root tee "$pin_file" >/dev/null
    apt_updated=
}

install_engine() {
    require_apt "Docker Engine"
    say "Docker Engine: installing it (about 1 minute)"
    apt_install iptables ca-certificates
    if distribution_is_too_old; then
        say "Docker Engine: this distribution's is older than $oldest_docker, taking the next release's"
        add_next_release
        apt_install docker.io docker-cli containerd
    elif apt-cache show docker-cli >/dev/null 2>&1; then
        # Since Debian 13 the client is a package of its own.
        apt_install docker.io docker-cli
    else
        apt_install docker.io
    fi
}

start_by_hand() {
    say "Docker Engine: no init system here, starting dockerd itself (log: ${log_file#"$root_dir"/})"
    mkdir -p "$engine_dir"
    as_root setsid --fork dockerd --pidfile "$pid_file" </dev/null >>"$log_file" 2>&1
}

wait_until_it_answers() {
    local second
    for second in $(seq 60); do
        if docker_answers; then
            return
        fi
        sleep 1
    done
    tail -n 20 "$log_file" >&2 2>/dev/null || true
    fail "Docker Engine does not answer after $second seconds. Its log is above, or in: journalctl -u docker"
}

begin() {
    if docker_answers; then
        return
    elif systemd_runs; then
        say "Docker Engine: starting its service"
        as_root systemctl start docker
    else
        start_by_hand
    fi
    wait_until_it_answers
}

start() {
    command -v dockerd >/dev/null || docker_answers || install_engine
    begin
    say "Docker Engine: $(as_root docker version --format '{{ .Server.Version }}') answers"
}

# For `make clean`: what an engine holds can only be removed while it runs.
resume() { ! command -v dockerd >/dev/null || begin; }

stop_by_hand() {
    local pid second
    pid=$(cat "$pid_file" 2>/dev/null) || return 0
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ] || return 0
    say "Docker Engine: stopping the dockerd that make started (pid $pid)"
    as_root kill "$pid"
    for second in $(seq 30); do
        [ -d "/proc/$pid" ] || return 0
        sleep 1
    done
    fail "dockerd (pid $pid) did not end within $second seconds after SIGTERM. See $log_file"
}

stop() {
    stop_by_hand
    as_root rm -rf "$engine_dir"
    if [ -e "$source_file" ] || [ -e "$pin_file" ]; then
        say "Docker Engine: removing the additional apt source and its pin"
        as_root rm -f "$source_file" "$pin_file"
    fi
}

case ${1:-} in
    start) start ;;
    resume) resume ;;
    stop) stop ;;
    *) fail "Usage: $0 start|resume|stop" ;;
esac
