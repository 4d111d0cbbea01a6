#!/bin/sh
# Installs the package given, made by `make deb`, on a clean Debian in a folder of its own, and has
# the node there run a guest. Runs as root.
set -eu
package=$1
root=$(mktemp -d)
node=
finish() {
	[ -z "$node" ] || { kill "$node" 2>/dev/null; wait "$node" 2>/dev/null; } || true
	for folder in dev sys proc; do
		umount -l "$root/$folder" 2>/dev/null || true
	done
	rm -rf --one-file-system "$root"
}
trap finish EXIT
. /etc/os-release
mirror=$(apt-get indextargets --format '$(SITE)' "Codename: $VERSION_CODENAME" | head -n 1)
debootstrap --variant=minbase "$VERSION_CODENAME" "$root" "$mirror" >/dev/null
for file in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d; do
	[ ! -e "$file" ] || cp -rL "$file" "$(dirname "$root$file")/"
done
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys" && mount --make-rslave "$root/sys"
mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev"
cp "$package" "$root/tmp/weir.deb"
inside() {
	chroot "$root" env DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
inside apt-get update -qq
inside apt-get install -y -qq --no-install-recommends /tmp/weir.deb >/dev/null
inside weir --version
inside weir doctor
for file in /lib/systemd/system/weir.service /etc/weir/node.toml /usr/share/man/man1/weir-node.1.gz \
	/usr/share/bash-completion/completions/weir; do
	inside sh -c "[ -e $file ] || [ -e /usr$file ]" || { echo "$file is not installed" >&2; exit 1; }
done
# As the unit has it.
chroot "$root" weir node --config /etc/weir/node.toml &
node=$!
inside weir node --status >/dev/null || { sleep 1; inside weir node --status >/dev/null; }
inside weir stub create lan
echo 'FromDevice(lan) -> c :: Counter -> Discard; Idle -> ToDevice(lan);' >"$root/tmp/one.click"
inside weir create one /tmp/one.click --link lan=lan
inside weir ls
inside weir read one c.count
inside weir node --purge
node=
inside apt-get purge -y -qq weir >/dev/null
inside sh -c '! command -v weir'
echo "the package installs, runs a guest, and is removed"
