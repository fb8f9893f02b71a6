#!/usr/bin/env bash
# Build the system that machines are booted into: scripts/ramdisk.sh FOLDER
#
# FOLDER/agent.kernel, FOLDER/agent.initramfs and FOLDER/esp.img are what [conductor]deploy_kernel,
# deploy_ramdisk and bootloader want; FOLDER/grubhttp.efi is the loader of the boot interface http.
# It is Debian for x86-64 with an unmodified ironic-python-agent and our hardware manager that
# reports erasures (scripts/ramdisk/evidence). What stands already is not built again; remove FOLDER
# to start again. See docs/ramdisk.rst.
#
# Environment:
#   SUITE            Debian's release (bookworm), of MIRROR (http://deb.debian.org/debian)
#   COMPONENTS       of that (main); non-free-firmware has the firmware of many network cards
#   AGENT            what pip installs (ironic-python-agent>=13,<14)
#   EXTRA_PACKAGES   of Debian, such as firmware
#   EXTRA_WHEELS     of PyPI, such as hardware managers of your own
#   EVIDENCE         no: leave out the hardware manager that reports erasures (yes)
#   SSH_KEY          a file with the public keys that may log in as root; default: no login
set -euo pipefail

folder=$(realpath -m "${1:?usage: ramdisk.sh FOLDER}")
files=$(realpath "$(dirname "$0")/ramdisk")
suite=${SUITE:-bookworm}
mirror=${MIRROR:-http://deb.debian.org/debian}
components=${COMPONENTS:-main}
agent=${AGENT:-ironic-python-agent>=13,<14}
work=$folder/build
root=$work/root
packages=(
    linux-image-amd64 systemd-sysv udev dbus kmod iproute2 ca-certificates procps psmisc
    python3 python3-venv
    # what the agent runs: disks, their partitions and arrays, images, firmware, hardware
    fdisk gdisk parted dosfstools e2fsprogs mdadm lvm2 hdparm nvme-cli smartmontools lsscsi
    qemu-utils genisoimage efibootmgr dmidecode lshw ipmitool ethtool pciutils
    # what it tells boot sectors and disks by
    file bsdextrautils
    # what a rescue needs: a login, and a DHCP client that changes nothing (udhcpc)
    openssh-server sudo busybox
)
tools=(debootstrap cpio zstd mformat:mtools mcopy:mtools mmd:mtools grub-mkimage:grub-common)

say() { echo "$(date +%T) $*"; }

needs() { # say all at once what is missing
    local tool missing=()
    [ "$(id -u)" = 0 ] || { echo "ramdisk.sh: debootstrap needs root" >&2; exit 2; }
    for tool in "${tools[@]}"; do
        command -v "${tool%%:*}" > /dev/null || missing+=("${tool##*:}")
    done
    [ -e /usr/lib/grub/x86_64-efi/linux.mod ] || missing+=(grub-efi-amd64-bin)
    [ ${#missing[@]} -gt 0 ] || return 0
    echo "ramdisk.sh: missing; apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 2
}

once() { # once STAGE: not again when it has succeeded
    local status=0
    [ -e "$work/$1.done" ] && return
    say "$1"
    # Left of a || bash would go on behind a command that fails.
    set +e
    (set -e; "$1") > "$work/$1.log" 2>&1
    status=$?
    set -e
    [ "$status" = 0 ] || { tail -n 20 "$work/$1.log" >&2; return 1; }
    touch "$work/$1.done"
}

inside() { # a command in the new system, with /proc and without our environment
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive INITRD=No LC_ALL=C \
        unshare --mount --pid --fork --kill-child \
        sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$root" "$@"
}

system() {
    rm -rf "$root"
    debootstrap --variant=minbase --components="$components" "$suite" "$root" "$mirror"
}

programs() {
    local wanted=("${packages[@]}")
    read -r -a more <<< "${EXTRA_PACKAGES:-}"
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    # No services while it is built, and no second ramdisk in it.
    printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
    chmod +x "$root/usr/sbin/policy-rc.d"
    printf 'path-exclude=/usr/share/%s/*\n' doc man locale info > "$root/etc/dpkg/dpkg.cfg.d/small"
    inside apt-get update -q
    inside apt-get install -q -y --no-install-recommends "${wanted[@]}" "${more[@]}"
    rm "$root/usr/sbin/policy-rc.d"
}

evidence() { # evidence WHEELS: build our hardware manager, not in the checkout
    rm -rf "$work/evidence"
    cp -r "$files/evidence" "$work/evidence"
    "$work/pip/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$1" \
        "$work/evidence"
}

python_agent() {
    local wheels=$root/opt/wheels version
    version=$(inside python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    read -r -a more <<< "${EXTRA_WHEELS:-}"
    python3 -m venv --clear "$work/pip"
    if [ "${EVIDENCE:-yes}" = yes ]; then
        evidence "$wheels"
        more+=(ironic-lite-evidence)
    fi
    # Our pip fetches, for the Python in there: mirrors and certificates set up here count.
    "$work/pip/bin/pip" download --quiet --disable-pip-version-check --dest "$wheels" \
        --python-version "$version" --only-binary :all: \
        --platform manylinux_2_34_x86_64 --platform manylinux_2_28_x86_64 \
        --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
        --find-links "$wheels" "$agent" "${more[@]}"
    inside python3 -m venv --clear /opt/agent
    inside /opt/agent/bin/pip install --quiet --no-index --find-links /opt/wheels \
        "$agent" "${more[@]}"
    rm -rf "$wheels" "$work/pip"
}

units() {
    ln -sf /lib/systemd/systemd "$root/init"
    echo ramdisk > "$root/etc/hostname"
    printf '127.0.0.1 localhost ramdisk\n::1 localhost\n' > "$root/etc/hosts"
    : > "$root/etc/machine-id"
    : > "$root/etc/fstab"
    rm -f "$root/etc/resolv.conf"
    mkdir -p "$root/etc/ironic-python-agent.d"
    cat > "$root/etc/systemd/network/50-cards.network" <<'UNIT'
[Match]
Type=ether
[Network]
DHCP=ipv4
IPv6AcceptRA=no
# Work on the machine continues when the DHCP server goes away.
KeepConfiguration=dhcp
[DHCPv4]
# Use the same client id as the firmware, so that the machine keeps its address.
ClientIdentifier=mac
UNIT
    mkdir -p "$root/etc/systemd/system/systemd-networkd-wait-online.service.d"
    cat > "$root/etc/systemd/system/systemd-networkd-wait-online.service.d/any.conf" <<'UNIT'
[Service]
ExecStart=
ExecStart=/lib/systemd/systemd-networkd-wait-online --any --timeout=120
UNIT
    install -D "$files/network_data.py" "$root/usr/local/sbin/network-data"
    cat > "$root/etc/systemd/system/network-data.service" <<'UNIT'
[Unit]
Description=Networks of a node, from its virtual medium
Documentation=file:/usr/local/sbin/network-data
DefaultDependencies=no
ConditionKernelCommandLine=boot_method=vmedia
After=systemd-udev-trigger.service
Wants=network-pre.target
Before=network-pre.target systemd-networkd.service
[Service]
Type=oneshot
ExecStartPre=-/sbin/modprobe -a sr_mod
ExecStart=/usr/local/sbin/network-data
StandardOutput=journal+console
StandardError=journal+console
[Install]
WantedBy=multi-user.target
UNIT
    cat > "$root/etc/systemd/system/ironic-agent.service" <<'UNIT'
[Unit]
Description=Agent of the bare-metal service
Wants=network-online.target
After=network-online.target systemd-udev-trigger.service
# The agent ends after it has received the password of a rescue.
ConditionPathExists=!/etc/ipa-rescue-config/ipa-rescue-password
[Service]
Environment=PATH=/opt/agent/bin:/usr/sbin:/usr/bin:/sbin:/bin
# Kernel modules that the agent needs for mounts but does not load.
ExecStartPre=-/sbin/modprobe -a sr_mod isofs vfat loop
ExecStart=/opt/agent/bin/ironic-python-agent --config-dir /etc/ironic-python-agent.d
ExecStopPost=/bin/sh -c '[ ! -e /etc/ipa-rescue-config/ipa-rescue-password ] \
    || systemctl --no-block start rescue.service'
Restart=always
RestartSec=5
StandardOutput=journal+console
StandardError=journal+console
[Install]
WantedBy=multi-user.target
UNIT
    inside systemctl enable systemd-networkd systemd-networkd-wait-online ironic-agent \
        network-data
    # What an installed system does at its start, and one in memory need not.
    inside systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
        e2scrub_all.timer e2scrub_reap.service fstrim.timer mdmonitor.service \
        smartmontools.service lvm2-monitor.service blk-availability.service \
        systemd-firstboot.service systemd-journal-flush.service systemd-update-utmp.service \
        systemd-hwdb-update.service systemd-machine-id-commit.service ipmievd.service
    inside systemctl set-default multi-user.target
}

logins() {
    # Who has the ramdisk would have its host keys, too: each machine makes its own.
    rm -f "$root"/etc/ssh/ssh_host_*
    echo HostKey /etc/ssh/ssh_host_ed25519_key > "$root/etc/ssh/sshd_config.d/keys.conf"
    mkdir -p "$root/etc/systemd/system/ssh.service.d"
    cat > "$root/etc/systemd/system/ssh.service.d/keys.conf" <<'UNIT'
[Service]
ExecStartPre=
ExecStartPre=/bin/sh -c '[ -e /etc/ssh/ssh_host_ed25519_key ] \
    || ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key'
ExecStartPre=/usr/sbin/sshd -t
UNIT
    if [ -n "${SSH_KEY:-}" ]; then
        install -D -m 600 "$SSH_KEY" "$root/root/.ssh/authorized_keys"
    else
        inside systemctl disable ssh
    fi
    # The agent rescues nothing without this folder, in which it puts the hash of a password.
    install -d -m 700 "$root/etc/ipa-rescue-config"
    install -D "$files/rescue" "$root/usr/local/sbin/rescue"
    cat > "$root/etc/systemd/system/rescue.service" <<'UNIT'
[Unit]
Description=Login of a rescue
Documentation=file:/usr/local/sbin/rescue
[Service]
ExecStart=/usr/local/sbin/rescue
StandardOutput=journal+console
StandardError=journal+console
UNIT
}

slim() { # what no machine needs before its own system runs
    local modules=$root/lib/modules version
    version=$(ls "$modules")
    mv "$root/boot/vmlinuz-$version" "$folder/agent.kernel"
    rm -rf "$root"/boot/* "$root"/var/cache/* "$root"/var/lib/apt/* "$root"/var/log/* \
        "$root"/usr/share/{doc,man,locale,info,i18n,bash-completion} "$root"/usr/lib/udev/hwdb.d \
        "$root"/opt/agent/lib/*/site-packages/pip "$root"/opt/agent/lib/*/site-packages/*/tests
    cd "$modules/$version/kernel"
    rm -rf sound arch/x86/kvm net/{wireless,mac80211,bluetooth} \
        drivers/{gpu,media,staging,iio,isdn,input,bluetooth,mtd,video,comedi,platform,hwmon} \
        drivers/net/{wireless,can,wan,usb} drivers/usb/{serial,gadget} \
        fs/{afs,ceph,cifs,gfs2,jfs,nfs,nfsd,ocfs2,reiserfs,smb}
    inside depmod "$version"
}

packed() {
    # In the memory of the machine all belongs to root, as it does here.
    (cd "$root" && find . -xdev -print0 | cpio --null --quiet -o -H newc) > "$work/cpio"
    zstd -q -f -T0 -9 "$work/cpio" -o "$folder/agent.initramfs"
    rm "$work/cpio"
}

loader() { # an EFI system partition whose GRUB reads the medium it has been started from
    cat > "$work/first.cfg" <<'CFG'
search --no-floppy --file --set=root /boot/grub/grub.cfg
configfile ($root)/boot/grub/grub.cfg
CFG
    grub-mkimage -O x86_64-efi -p /boot/grub -c "$work/first.cfg" -o "$work/bootx64.efi" \
        part_gpt part_msdos fat iso9660 search search_fs_file normal configfile linux \
        echo serial terminal test all_video minicmd reboot
    rm -f "$folder/esp.img"
    truncate -s 4M "$folder/esp.img"
    mformat -i "$folder/esp.img" -v ESP -T 8192 -h 16 -s 32 ::
    mmd -i "$folder/esp.img" ::/EFI ::/EFI/BOOT
    mcopy -i "$folder/esp.img" "$work/bootx64.efi" ::/EFI/BOOT/BOOTX64.EFI
}

http_loader() { # a GRUB that reads its files from the HTTP server it has been started from
    echo 'configfile $prefix/grub.cfg' > "$work/http.cfg"
    grub-mkimage -O x86_64-efi -p /grub -c "$work/http.cfg" -o "$folder/grubhttp.efi" \
        normal configfile linux echo test net efinet http tftp \
        part_gpt part_msdos fat search search_fs_file chain minicmd
}

needs
mkdir -p "$work"
for stage in system programs python_agent units logins slim packed loader http_loader; do
    once "$stage"
done
ls -lh "$folder"/agent.kernel "$folder"/agent.initramfs "$folder"/esp.img "$folder"/grubhttp.efi
