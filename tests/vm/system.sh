#!/usr/bin/env bash
# Build the image of a partition that boots only if somebody installs a loader: system.sh FOLDER WORD
#
# FOLDER/system.raw is an ext4 file system with Debian's kernel and GRUB, for BIOS and UEFI. Its init
# does nothing but say WORD on the serial line. What stands already is not built again.
set -euo pipefail

folder=$(realpath -m "${1:?usage: system.sh FOLDER WORD}")
word=${2:?usage: system.sh FOLDER WORD}
suite=${SUITE:-bookworm}
mirror=${MIRROR:-http://deb.debian.org/debian}
root=$folder/root
packages=linux-image-amd64,initramfs-tools,zstd,grub2-common,grub-pc-bin,grub-efi-amd64-bin

inside() {
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C \
        chroot "$root" "$@"
}

[ ! -e "$folder/system.raw" ] || exit 0
rm -rf "$root"
mkdir -p "$folder"
debootstrap --variant=minbase --include="$packages" "$suite" "$root" "$mirror" \
    > "$folder/system.log" 2>&1 || { tail -n 20 "$folder/system.log" >&2; exit 1; }

# Whatever its partition will be called, and wherever the loader comes from.
cat > "$root/etc/default/grub" <<'CFG'
GRUB_TIMEOUT=0
GRUB_TERMINAL=serial
GRUB_SERIAL_COMMAND="serial --unit=0 --speed=115200"
GRUB_CMDLINE_LINUX="console=ttyS0 quiet"
GRUB_DISABLE_LINUX_PARTUUID=true
CFG
cat > "$root/sbin/init" <<INIT
#!/bin/sh
echo $word > /dev/ttyS0
while :; do sleep 1000; done
INIT
chmod +x "$root/sbin/init"
: > "$root/etc/fstab"

# Only what a virtual machine needs to find its disk.
version=$(ls "$root/lib/modules")
(
    cd "$root/lib/modules/$version/kernel"
    find . -name '*.ko' ! -path './fs/*' ! -path './lib/*' ! -path '*/crypto/*' \
        ! -path '*/virtio/*' ! -path '*/ata/*' ! -name 'virtio_*' ! -name 'sd_mod.ko' \
        ! -name 'scsi_*' ! -name 't10-pi.ko' -delete
)
inside depmod "$version"
inside update-initramfs -u > "$folder/initramfs.log" 2>&1
rm -rf "$root"/var/{cache,lib}/apt "$root"/usr/share/{doc,man,locale,info,i18n,zoneinfo}
mkdir -p "$root"/boot/efi

size=$(($(du -sm "$root" | cut -f 1) + 100))
mkfs.ext4 -q -L system -d "$root" "$folder/system.part" "${size}M"
mv "$folder/system.part" "$folder/system.raw"
rm -rf "$root"
