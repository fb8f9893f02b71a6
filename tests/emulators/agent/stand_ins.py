"""Programs that come first in the PATH of a test's agent, so that none of the host is reached.

Each notes its command line. Most do nothing else. On a disk that is a block device (`block`) those
that read and write it are the real ones behind the note: an agent without rights and with that
device alone harms nothing by them. What they cannot do then, telling the kernel of partitions, is
asked of `block` through its socket; nothing is mounted anywhere.
"""

from __future__ import annotations

import pathlib
import shlex
import shutil

NOTHING = (
    *("poweroff", "reboot", "shutdown", "halt", "systemctl", "init", "telinit", "kexec"),
    *("udevadm", "partprobe", "partx", "blkid", "wipefs", "sgdisk", "parted", "mdadm", "hdparm"),
    *("nvme", "shred", "dd", "blockdev", "mount", "umount", "modprobe", "multipath", "ipmitool"),
    *("efibootmgr", "lvm", "vgs", "pvs", "ip", "dmidecode", "lshw", "hexdump", "smartctl", "fio"),
    *("stress-ng", "chronyd", "ntpdate", "hwclock", "rdate", "lldptool", "mstflint", "lsblk"),
    *("chroot", "sync", "fuser"),
)
REAL = ("wipefs", "sgdisk", "dd", "blockdev", "blkid")
"""On a block device: these do as they say."""
NEEDED = (
    *(*REAL, "parted", "partprobe", "partx", "losetup", "unshare", "setpriv"),
    *("mkfs.ext4", "mkswap", "debugfs"),
)
"""What a machine must have for a disk that is a block device."""

LSBLK_FILE = """\
case " $* " in
    *.img*) echo 'UUID="6a1f6f5e-6c1c-4b7e-9c3e-0123456789ab" PARTUUID=""' ;;
    *" -J "* | *json* | *" -bia "*) echo '{"blockdevices": []}' ;;
esac
"""
"""lsblk refuses a regular file, and would show the disks of the host."""
PARTED_FILE = """\
for one in "$@"; do [ ! -f "$one" ] || disk=$one; done
[ "$(od -An -tx1 -j510 -N2 "$disk" | tr -d ' ')" = 55aa ] || exit 1
echo 'BYT;'; echo "$disk:16MiB:file:512:512:msdos:file:;"
echo '1:1.00MiB:2.00MiB:1.00MiB:::;'
"""
"""parted is asked whether there is a partition: if there is a master boot record, there is one."""
HEXDUMP = """\
for one in "$@"; do disk=$one; done
printf '0x%08x' "$(od -An -tu4 -j440 -N4 "$disk" | tr -d ' ')"
"""
"""hexdump is asked for the identifier in a master boot record, and for nothing else."""
POWEROFF = """\
[ -z "$MACHINE_RESET" ] || {python} -S -c '
import sys, urllib.request
body, kind = b"{{\\"ResetType\\": \\"ForceOff\\"}}", {{"Content-Type": "application/json"}}
urllib.request.urlopen(urllib.request.Request(sys.argv[1], body, kind), timeout=10)
' "$MACHINE_RESET"
"""
"""A machine that switches itself off: its BMC sees it, which ``MACHINE_RESET`` leads to."""

LOOK = """\
{python} -S -c '
import socket, sys
asked = socket.socket(socket.AF_UNIX)
asked.connect(sys.argv[1])
asked.recv(1)
' {socket}
"""
"""Let the partitions of the disk be looked at anew; no word of the agent goes along."""
PARTED = """\
case " $* " in
    *" print "*) exec {real} "$@" ;;
esac
for one in "$@"; do shift; [ -b "$one" ] && one={file}; set -- "$@" "$one"; done
{look}
{real} "$@" || exit
{look}
"""
"""parted gives up when it may not tell the kernel, but not on the file behind the device."""
PARTPROBE = """\
case " $* " in *" -d "*) exec {real} "$@" ;; esac
{look}"""
MOUNT = """\
case "$1" in /dev/*) {real} -R "rdump / $2" "$1" > /dev/null 2>&1 ;; esac
"""
"""Nothing is mounted, but what a root file system holds is in its place to be read."""
LSBLK = """\
exec {python} -S -c '
import glob, os, re, subprocess, sys
words = sys.argv[1:]
if any("json" in word for word in words):
    sys.exit(print("{{\\"blockdevices\\": []}}"))
disk = next(word for word in words if word.startswith("/"))
listed = next(word for word in words if "," in word)
columns = re.sub("^-[A-Za-z]*?o(?=[A-Z])", "", listed).upper().split(",")
found = [disk] if "--nodeps" in words else [disk, *sorted(glob.glob(disk + "p[0-9]*"))]
for one in found:
    command = ["blkid", "-p", "-o", "export", one]
    read = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    said = dict(line.split("=", 1) for line in read.stdout.splitlines() if "=" in line)
    said.update(NAME=os.path.basename(one), KNAME=os.path.basename(one))
    said.update(PARTUUID=said.get("PART_ENTRY_UUID", ""))
    said.update(TYPE="part" if re.search("p[0-9]+$", one) else "disk")
    print(*("%s=\\"%s\\"" % (name, said.get(name, "")) for name in columns))
' "$@"
"""
"""The real lsblk asks udev for labels, or is root."""


def write(folder: pathlib.Path, python: pathlib.Path, socket: pathlib.Path | None) -> None:
    """Write the programs into ``folder/bin``; their notes go to ``folder/calls.log``.

    :param python: that of the agent.
    :param socket: where the partitions of the disk are looked at, if it is a block device.
    """
    place = folder / "bin"
    place.mkdir(exist_ok=True)
    note = f'echo "$(basename "$0") $*" >> {shlex.quote(str(folder / "calls.log"))}'
    tails = {
        "lshw": "echo '{}'\n",
        "mdadm": 'case " $* " in *" --detail "*) exit 1 ;; esac\n',  # it is no volume
        "lsblk": LSBLK_FILE,
        "parted": PARTED_FILE,
        "hexdump": HEXDUMP,
        "poweroff": POWEROFF.format(python=python),
        **(_real(folder, python, socket) if socket is not None else {}),
    }
    for name in NOTHING:
        path = place / name
        path.write_text(f"#!/bin/sh\n{note}\n{tails.get(name, '')}exit 0\n")
        path.chmod(0o755)


def _real(folder: pathlib.Path, python: pathlib.Path, socket: pathlib.Path) -> dict[str, str]:
    disk = shlex.quote(str(folder / "disk.img"))
    look = LOOK.format(python=python, socket=shlex.quote(str(socket)))
    return {
        **{name: f'exec {shutil.which(name)} "$@"\n' for name in REAL},
        "lsblk": LSBLK.format(python=python),
        "parted": PARTED.format(real=shutil.which("parted"), look=look, file=disk),
        "partprobe": PARTPROBE.format(real=shutil.which("partprobe"), look=look),
        "partx": look,
        "mount": MOUNT.format(real=shutil.which("debugfs")),
    }
