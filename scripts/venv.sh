#!/usr/bin/env bash
# Make the virtual environment of this checkout: scripts/venv.sh FOLDER EXTRAS
#
# It holds the service and the commands for clients (cli/), both as they stand in the checkout. Their
# libraries are those of packaging/locks, checked by their hashes. If this index or this Python does
# not have one of them, the newest libraries that setup.cfg allows are installed instead, as with
# LOCK= in the environment. A library with another hash stops the installation.
#
# The interpreter is $PYTHON, or the first of python3, python3.13, python3.12, python3.11 that is 3.11
# or newer. On Debian the package python3-venv, which pip in a virtual environment needs, is
# installed if it is missing.
set -euo pipefail

folder=${1:?usage: venv.sh FOLDER EXTRAS}
extras=${2:?usage: venv.sh FOLDER EXTRAS}
cd "$(dirname "$0")/.."

recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' > /dev/null 2>&1; }

interpreter() {
    local name
    for name in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if recent "$name"; then
            echo "$name"
            return
        fi
    done
    echo "No Python of 3.11 or newer: install one, or name it: make PYTHON=/path/to/python3" >&2
    return 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -- "$@"; fi
}

python=$(interpreter)
if ! "$python" -c 'import ensurepip, venv' > /dev/null 2>&1; then
    if ! command -v apt-get > /dev/null; then
        echo "$python has no ensurepip: install the package with Python's venv module" >&2
        exit 1
    fi
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    as_root apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        "python$version-venv"
fi

# Recreate an environment that is incomplete or whose Python no longer exists.
if ! "$folder/bin/python" -m pip --version > /dev/null 2>&1; then
    "$python" -m venv --clear "$folder"
fi

install() { "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }

# pip builds the one library without a wheel, and our two packages, with what build.txt pins: in an
# environment of its own it would fetch setuptools without a hash.
locked() {
    install --require-hashes --requirement packaging/locks/build.txt &&
        install --no-build-isolation --require-hashes --requirement packaging/locks/test.txt &&
        install --no-build-isolation --no-deps --editable . --editable ./cli
}

if [ -n "${LOCK-yes}" ]; then
    report=$(mktemp)
    trap 'rm -f "$report"' EXIT
    if locked 2> "$report"; then
        cat "$report" >&2
        exit 0
    fi
    cat "$report" >&2
    if grep -q "DO NOT MATCH THE HASHES" "$report"; then
        echo "A library of this index is not the one that packaging/locks names. To install without" \
            "hashes: make venv LOCK=" >&2
        exit 1
    fi
    echo "packaging/locks cannot be installed from this index: installing what setup.cfg allows" >&2
fi
install --editable ".[$extras]" --editable ./cli
