#!/usr/bin/env bash
# Run tests with other Pythons: scripts/pythons.sh NAME...
#
# For each interpreter, which is on PATH or named by its path: an environment with the libraries of
# packaging/locks in .venv-VERSION, `make quick`, and the tests of the wheel and the programs.
# Exit status 3 names the interpreters that are missing.
set -euo pipefail

cd "$(dirname "$0")/.."
missing=()
for name in "$@"; do
    if ! python=$(command -v "$name") || ! "$python" -c 'import ensurepip, venv' 2> /dev/null; then
        missing+=("$name")
        continue
    fi
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "-- Python $version"
    make quick VENV=".venv-$version" PYTHON="$python"
    ".venv-$version/bin/pytest" -q -n "${WORKERS:-2}" \
        tests/acceptance/test_wheel.py tests/acceptance/test_processes.py
done
if [ ${#missing[@]} -gt 0 ]; then
    echo "not tested, because it is not here: ${missing[*]}" >&2
    exit 3
fi
