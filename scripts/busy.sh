#!/usr/bin/env bash
# Run a command beside busy loops: scripts/busy.sh COUNT COMMAND...
#
# A test that passes on an idle machine and fails here depends on time, and is wrong.
set -euo pipefail

count=${1:?usage: busy.sh COUNT COMMAND...}
shift
loops=()
trap 'kill "${loops[@]}" 2> /dev/null || true' EXIT
for _ in $(seq "$count"); do
    (while :; do :; done) &
    loops+=($!)
done
"$@"
