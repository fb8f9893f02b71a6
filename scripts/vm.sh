#!/usr/bin/env bash
# Take a virtual machine from power-off to a running image: scripts/vm.sh VENV [--boot ipxe ...]
#
# Everything is real except the hardware: UEFI, Linux, the agent, Redfish by sushy-tools, DHCP. It runs in
# namespaces of its own (processes, network, mounts), so nothing of it is left when it ends, and
# nothing of this machine's libvirt is seen. VM_FOLDER (/var/tmp/ironic-lite-vm) keeps the ramdisk and
# the logs of the last run. See docs/vm.rst.
set -euo pipefail

cd "$(dirname "$0")/.."
venv=$(realpath -s "${1:?usage: vm.sh VENV [ARGUMENTS]}")
shift
folder=$(realpath -m "${VM_FOLDER:-/var/tmp/ironic-lite-vm}")
limit=${VM_SECONDS:-5400} # for all of it
programs=(
    qemu-system-x86_64:qemu-system-x86 libvirtd:libvirt-daemon virsh:libvirt-clients
    dnsmasq:dnsmasq-base sfdisk:fdisk mformat:mtools grub-mkimage:grub-common ip:iproute2
    ssh:openssh-client
)
files=(
    /usr/share/qemu/firmware:ovmf /usr/lib/ipxe/snponly.efi:ipxe
    /usr/lib/grub/x86_64-efi/normal.mod:grub-efi-amd64-bin
    /usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so:libvirt-daemon-driver-qemu
    /usr/lib/python3/dist-packages/libvirt.py:python3-libvirt
    /dev/net/tun:"(the kernel's module tun)"
)

# Boot loaders that only some boot modes need.
case " $* " in *" bios "*)
    files+=(
        /usr/lib/ISOLINUX/isolinux.bin:isolinux
        /usr/lib/syslinux/modules/bios/ldlinux.c32:syslinux-common
    ) ;;
esac
case " $* " in *" pxe "*)
    files+=(
        /usr/lib/PXELINUX/pxelinux.0:pxelinux
        /usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed:grub-efi-amd64-signed
    ) ;;
esac

missing=()
for one in "${programs[@]}"; do
    PATH=$PATH:/usr/sbin:/sbin command -v "${one%%:*}" > /dev/null || missing+=("${one#*:}")
done
for one in "${files[@]}"; do [ -e "${one%%:*}" ] || missing+=("${one#*:}"); done
if [ "$(id -u)" != 0 ]; then
    echo "vm.sh: NOT RUN: needs root, for namespaces and a bridge" >&2
    exit 2
fi
if [ ${#missing[@]} -gt 0 ]; then
    echo "vm.sh: NOT RUN: missing ${missing[*]}; on Debian:" >&2
    echo "    apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 2
fi

scripts/ramdisk.sh "$folder/ramdisk"
if [[ " $* " == *" --image partition "* ]]; then
    tests/vm/system.sh "$folder/system" THE-INSTANCE-HAS-STARTED
fi
# The system Python, because it has the libvirt library.
if ! "$folder/venv/bin/python" -c 'import libvirt, sushy_tools, virtualbmc, virt.firmware' 2> /dev/null; then
    /usr/bin/python3 -m venv --clear --system-site-packages "$folder/venv"
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
        'sushy-tools>=2.0' bcrypt virtualbmc virt-firmware
fi

# The end of a namespace's first process ends all others; until then it must reap orphans, as bash
# does.
exec timeout --kill-after=30 "$limit" \
    unshare --net --mount --pid --fork --kill-child --mount-proc \
    bash -c '"$@"; exit $?' bash \
    "$venv/bin/python" -m tests.vm --folder "$folder" "$@"
