#!/usr/bin/env bash
# Install what tests start themselves and pip cannot bring: ipmitool, ipmi_sim (an IPMI BMC), socat
# (consoles), and what an agent partitions disks and unpacks images with (parted, sgdisk, qemu-img).
#
# Silent where all are there. It never fails and never asks for a password: who is not root, or has
# no apt, is told what to install, and the tests that need it are skipped, each saying so.
set -uo pipefail

patience=300 # seconds apt may take for the packages, and as long for its lists

missing=()
command -v ipmitool > /dev/null || missing+=(ipmitool)
command -v ipmi_sim > /dev/null || missing+=(openipmi)
command -v socat > /dev/null || missing+=(socat)
command -v parted > /dev/null || missing+=(parted)
command -v sgdisk > /dev/null || missing+=(gdisk)
command -v qemu-img > /dev/null || missing+=(qemu-utils)
[ ${#missing[@]} -gt 0 ] || exit 0

unless() { # unless REASON
    echo "NOT INSTALLED: ${missing[*]}: $1; some tests are skipped. As root, on Debian:" >&2
    echo "    apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 0
}

get() {
    DEBIAN_FRONTEND=noninteractive timeout "$patience" \
        apt-get -q -y -o DPkg::Lock::Timeout=60 "$@"
}

[ "$(id -u)" = 0 ] || unless "not root"
command -v apt-get > /dev/null || unless "no apt-get"
echo "installing ${missing[*]}"
# Lists that could not be renewed may still do.
get update > /dev/null || echo "apt-get update failed" >&2
get install --no-install-recommends "${missing[@]}" > /dev/null || unless "apt-get failed"
