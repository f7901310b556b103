#!/usr/bin/env bash
# Does the front door open on a machine that has nothing? Runs a command of this source tree, uncommitted files
# included, in a bare Debian: minbase and make; no compiler, git, python or sudo. For people, not for ctest.
# usage (as root, with debootstrap): tests/package/bare_debian.sh FOLDER [COMMAND ...]      default: make demo
#   FOLDER becomes the system's root; FOLDER.tar keeps it as first made, and every run starts from that.
#   SUITE  Debian release (default bookworm)      MIRROR  default: the one that this machine's apt uses
#   status: the command's
# shellcheck disable=SC2016  # `$` in single quotes: for apt, and for the inner shell
set -euo pipefail

stop() { printf '%s\n' "$*" >&2; exit 2; }
[[ $# -ge 1 && $1 != -* ]] || stop 'usage: tests/package/bare_debian.sh FOLDER [COMMAND ...]'
[[ $(id -u) -eq 0 ]] || stop 'debootstrap and chroot need root'
root=$(realpath -m -- "$1")
shift
[[ $# -gt 0 ]] || set -- make demo
suite=${SUITE:-bookworm}
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
pristine=$root.tar

if [[ ! -e $pristine ]]; then
  [[ ! -e $root ]] || stop "$root exists and $pristine does not: this script did not make it, so will not replace it"
  mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $suite" | sed 1q)}
  [[ -n $mirror ]] || stop "this machine's apt has no $suite: set MIRROR"
  proxy=
  eval "$(apt-config shell proxy Acquire::http::Proxy)"
  echo "Making a bare $suite (a minute or two) ..."
  http_proxy=${proxy:-${http_proxy-}} debootstrap --variant=minbase --include=make "$suite" "$root" "$mirror" >"$root.log" ||
    stop "debootstrap failed: see $root.log"
  tar -C "$root" -cf "$pristine.part" . && mv "$pristine.part" "$pristine"
fi

rm -rf --one-file-system "$root"
mkdir "$root"
tar -C "$root" -xpf "$pristine"

# How this machine reaches its mirror: names, proxies and certificates, but no apt hooks.
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
apt-config dump --no-empty | grep -E '^Acquire::(https?|Check-|Retries)' >"$root/etc/apt/apt.conf.d/90this-machine" || true
if [[ -e /etc/ssl/certs/ca-certificates.crt ]]; then
  mkdir -p "$root/etc/ssl/certs"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
fi

mkdir "$root/root/stickybit"
cd "$source_dir"
git ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' file; do if [[ -e $file ]]; then printf '%s\0' "$file"; fi; done |
  tar --null --no-recursion --files-from=- -cf - | tar -C "$root/root/stickybit" --no-same-owner -xf -

# In a mount namespace of its own, so that /proc goes away with the command.
SECONDS=0
status=0
env -i TERM="${TERM-dumb}" HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin ${http_proxy:+http_proxy="$http_proxy"} \
  unshare --mount -- sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" env -C /root/stickybit "$@"' \
  "$root" "$@" </dev/null || status=$?
printf '\n%s in a bare %s: status %d after %d s\n' "$*" "$suite" "$status" "$SECONDS"
exit "$status"
