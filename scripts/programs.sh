#!/usr/bin/env bash
# Install programs that tests start and pip cannot install: ipmitool, ipmi_sim (an IPMI BMC), socat
# (consoles), the agent's tools for disks and images (parted, sgdisk, qemu-img), the servers of
# network boot (dnsmasq, nginx), the load balancer (haproxy), a registry of images (docker-registry)
# and a browser without a screen
# (chromium-headless-shell; CHROMIUM=/path names another). Packages without services are
# preferred, and services that come with a package are not started.
#
# Silent if all programs exist. It never fails and never asks for a password: without root or apt it
# prints what to install, and the tests that need it are skipped with a message.
set -uo pipefail

patience=300 # seconds apt may take for the packages, and as long for its lists

missing=()
command -v ipmitool > /dev/null || missing+=(ipmitool)
command -v ipmi_sim > /dev/null || missing+=(openipmi)
command -v socat > /dev/null || missing+=(socat)
command -v parted > /dev/null || missing+=(parted)
command -v sgdisk > /dev/null || missing+=(gdisk)
command -v qemu-img > /dev/null || missing+=(qemu-utils)
command -v dnsmasq > /dev/null || missing+=(dnsmasq-base)
command -v nginx > /dev/null || missing+=(nginx-light)
command -v haproxy > /dev/null || missing+=(haproxy)
command -v docker-registry > /dev/null || missing+=(docker-registry)
[ -n "${CHROMIUM:-}" ] || command -v chromium-headless-shell > /dev/null \
    || command -v chromium > /dev/null || missing+=(chromium-headless-shell)
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
policy=${POLICY:-/usr/sbin/policy-rc.d}
if [ ! -e "$policy" ]; then
    # While it says 101, packages start no service (Debian's policy for invoke-rc.d).
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
fi
get install --no-install-recommends "${missing[@]}" > /dev/null || unless "apt-get failed"
