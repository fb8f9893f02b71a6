#!/usr/bin/env bash
# Create the virtual environment of the ramdisk's agent that tests run: scripts/agent.sh FOLDER
#
# Tests run an unmodified ironic-python-agent as a process without rights. Root runs it as user 65534,
# who must be able to read interpreter and folder. Otherwise /usr/bin/python3 and /var/tmp are used,
# and FOLDER is a link. Silent if everything exists.
set -euo pipefail

folder=${1:?usage: agent.sh FOLDER}
wanted='ironic-python-agent>=13,<14'
cd "$(dirname "$0")/.."

nobody() { # run a command as the agent will be run
    if [ "$(id -u)" = 0 ]; then
        # setpriv itself may still read more when it starts the command; the shell may not.
        setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs -- \
            sh -c 'exec "$@"' sh "$@"
    else
        "$@"
    fi
}

ready() { # a link may lie where this user may not look: what it leads to counts
    nobody "$(readlink -m "$folder")/bin/python" -c '
import importlib.metadata, sys
sys.exit(not importlib.metadata.version("ironic-python-agent").startswith("13."))' 2> /dev/null
}

interpreter() {
    local name path
    for name in ${PYTHON:-python3 python3.13 python3.12 python3.11 /usr/bin/python3}; do
        path=$(command -v "$name") || continue
        if nobody "$path" -c 'import ensurepip, sys, venv
sys.exit(sys.version_info < (3, 10))' > /dev/null 2>&1; then
            echo "$path"
            return
        fi
    done
    echo "No Python of 3.10 or newer with venv that user 65534 may run" >&2
    return 1
}

if ready; then exit 0; fi

python=$(interpreter)
rm -rf "$folder"
# The whole path counts: a folder of the root user may be open below a closed one.
if nobody ls "$PWD" > /dev/null 2>&1; then
    place=$folder
else
    place=/var/tmp/ironic-lite-agent-$(id -u)-$(pwd | cksum | cut -d ' ' -f 1)
    ln -s "$place" "$folder"
fi
echo "installing $wanted into $place"
"$python" -m venv --clear "$place"
"$place/bin/python" -m pip install --quiet --disable-pip-version-check "$wanted"
ready
