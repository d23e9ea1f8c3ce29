# SPDX-License-Identifier: Apache-2.0
# Functions for a Linux of Debian in QEMU, for scripts that have `as_root`, `log` and `fail`: tests/v4l2/run and tests/appliance/run.
# shellcheck shell=bash

# Downloads Debian's kernel for all machines to the folder $1, unless it is there, and unpacks it; its kernel for clouds has no media
# drivers. Sets `kernel`, where it lies, and `version`.
kernel() {
    kernel=$(realpath -m "$1")/kernel
    if ! compgen -G "$kernel/boot/vmlinuz-*" >/dev/null; then
        apt-cache show linux-image-amd64 >/dev/null 2>&1 || apt_get update
        local package
        package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-[0-9]/ {print $2; exit}')
        [ -n "$package" ] || fail "apt knows no linux-image-amd64; this test needs Debian's archive (main, amd64)"
        log "downloading $package to $1"
        rm -rf "$kernel.partial"
        mkdir -p "$kernel.partial"
        (cd "$1" && apt-get download -qq -o APT::Sandbox::User=root "$package")
        dpkg -x "$1/$package"_*.deb "$kernel.partial"
        rm "$1/$package"_*.deb
        mv "$kernel.partial" "$kernel"
    fi
    version=$(basename "$kernel"/boot/vmlinuz-*)
    version=${version#vmlinuz-}
    depmod -b "$kernel" "$version"
}

# Copies the module $1 of that kernel and those that it needs to the folder $2, and lists them there in the order of their loading,
# in a file of the module's name.
module() {
    local file
    mkdir -p "$2"
    while read -r _ file _; do
        cp "$file" "$2/"
        echo "${file##*/}"
    done < <(modprobe -d "$kernel" -S "$version" --show-depends "$1" | grep '^insmod') >"$2/$1"
    [ -s "$2/$1" ] || fail "the kernel $version has no module $1"
}
