#!/usr/bin/env bash
# Take features out of a copy of this checkout, and check the rest: scripts/without.sh NAME...
#
# The folders of the features go, and the tests that use their modules. Then the import contracts, the
# types, a start of the service and tests of the core must pass. `make without FEATURES="webhooks doctor"`.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cd "$here"
git ls-files -z | xargs -0 cp -P --parents -t "$copy"
cd "$copy"
for name in "$@"; do
    rm -r "ironic_lite/features/$name"
    grep -rlE "features\.$name\b|features import $name\b" tests --include='*.py' | xargs -r rm
done
# Tests that used a helper which is gone.
gone=$(cd "$here" && git ls-files tests/support | while read -r path; do
    [ -e "$copy/$path" ] || basename "$path" .py
done)
for name in $gone; do
    grep -rlE "support\.$name\b" tests --include='*.py' | xargs -r rm
done
export PYTHONPATH=$copy PATH=$here/.venv/bin:$PATH
unset OS_FEATURES__ENABLED
lint-imports | tail -n 1
mypy ironic_lite | tail -n 1
pytest -q -n "${WORKERS:-2}" tests/unit/test_features.py tests/acceptance/test_features.py \
    tests/acceptance/test_starts.py tests/api/test_nodes.py tests/api/test_provision.py \
    tests/api/test_openapi.py tests/flows/test_clean.py tests/flows/test_deploy.py \
    --deselect tests/api/test_openapi.py::test_every_answer_is_as_the_document_says
