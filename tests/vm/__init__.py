"""A machine from power-off to a running image: a real firmware, kernel, ramdisk and agent.

``make vm-test`` runs `tests.vm.__main__` in namespaces of its own, as ``scripts/vm.sh`` makes them.
Nothing here is collected by pytest: it takes a quarter of an hour, root, and QEMU.
"""
