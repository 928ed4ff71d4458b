# Sourced by the other scripts: finds the checkout, makes and reuses its .venv.
# setup EXTRAS   installs completiond[EXTRAS] unless the stamp of an earlier install still fits.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONUNBUFFERED=1
VENV=$PWD/.venv
BIN=$VENV/bin
STAMP=$VENV/installed
SHOWN=$VENV/shown

say() { printf '%s\n' "$*" >&2; }

interrupted() {
    say "Stopped. Run it again and it goes on; what is there already stays."
    exit 130
}

find_python() {
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    say "Python 3.11 or newer is needed; install it (with its venv module) and run this again."
    return 1
}

# What an install depends on: the two files, and the place, which an editable install remembers.
fingerprint() {
    { printf '%s\n' "$PWD"; cat pyproject.toml constraints.txt; } | "$1" -c \
        'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'
}

# The stamp is one line: the fingerprint and the extras. `serve,dev` has all that others want.
installed() {
    [ -x "$BIN/python" ] && [ -f "$STAMP" ] || return 1
    local wanted have
    wanted=$(fingerprint "$BIN/python") || return 1
    have=$(cat "$STAMP")
    [ "$have" = "$wanted $1" ] || [ "$have" = "$wanted serve,dev" ]
}

setup() {
    installed "$1" && return
    exec 9>"${TMPDIR:-/tmp}/completiond-setup-$(id -u).lock"
    if command -v flock >/dev/null; then flock 9; fi
    if ! installed "$1"; then install "$1"; fi
    exec 9>&-
}

# Of what pip says, what takes time: large files, and the end.
phases() {
    local line
    while IFS= read -r line; do
        case $line in
            *Downloading\ *" MB)"*) say "  ${line#"${line%%Downloading*}"}" ;;
            "Installing collected packages: "*) say "  Unpacking $(wc -w <<<"${line#*: }") packages" ;;
        esac
    done
}

install() {
    local python
    python=$(find_python)
    say "Installing completiond[$1] into .venv (a few minutes the first time) ..."
    trap interrupted INT
    rm -f "$STAMP" "$SHOWN"
    if ! "$BIN/python" -c 'import pip' 2>/dev/null; then
        rm -rf "$VENV"
        "$python" -m venv "$VENV" || {
            say "The venv module does not work; on Debian and Ubuntu, install python3-venv."
            return 1
        }
    fi
    "$BIN/python" -m pip install -qq --upgrade 'pip>=25'
    "$BIN/python" -m pip install --progress-bar off -c constraints.txt -e ".[$1]" | phases
    printf '%s %s\n' "$(fingerprint "$BIN/python")" "$1" >"$STAMP"
    trap - INT
}
