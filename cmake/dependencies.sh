#!/bin/sh
# Sets up `make GOAL`: installs the Debian or Ubuntu packages that are missing, or prints the line that would.
# usage: sh cmake/dependencies.sh demo|test|bench|gpu
#   SUDO   how to become root (default: sudo, where there is one). Empty: never.
#   status 0: go on; 2: something is missing
# POSIX sh: a bare system has no bash, git or python.
set -eu

say() { printf 'stickybit: %s\n' "$*"; }
stop() { say "$@" >&2; exit 2; }

needed='g++ cmake ninja-build libfmt-dev libcli11-dev nlohmann-json3-dev libhwy-dev'
case ${1-} in
  demo) ;;
  # clang and its runtime: libFuzzer, for the file reader. a|b: either will do; not every release has the unversioned name.
  test) needed="$needed catch2 libgtest-dev libboost-dev liblzma-dev clang libclang-rt-dev|libclang-rt-18-dev python3 python3-dev python3-venv"
    # A test opens pages in a browser. Ubuntu has one as a snap only: there the test says that it is skipped, unless one is installed.
    grep -qs '^ID=ubuntu' /etc/os-release || needed="$needed chromium" ;;
  bench) needed="$needed libopenblas-dev" ;;
  gpu)
    command -v "${CUDACXX:-nvcc}" >/dev/null ||
      stop "'make gpu' needs nvcc, from CUDA 12 or newer, in PATH or CUDACXX (not from apt: too old). Nothing else needs it."
    ;;
  *) stop "usage: sh cmake/dependencies.sh demo|test|bench|gpu" ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  say "no apt here, so packages were not checked; CMake says what is missing of: $needed"
  exit 0
fi

# A tool counts wherever it came from; a library only as a package.
installed() {
  case $1 in
    g++) compiler=${CXX:-g++}; command -v "${compiler%% *}" >/dev/null ;;
    cmake) command -v cmake >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    clang) command -v clang++ >/dev/null ;;
    python3) command -v python3 >/dev/null ;;
    python3-dev) python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' 2>/dev/null ;;
    python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    chromium) { command -v chromium || command -v google-chrome-stable || command -v google-chrome; } >/dev/null ;;
    *) dpkg-query -W -f='${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed ;;
  esac
}

either_installed() {
  for name in $(echo "$1" | tr '|' ' '); do
    if installed "$name"; then return 0; fi
  done
  return 1
}

# The first name that apt knows, else the first: before `apt-get update` it may know none.
choose() {
  for name in $(echo "$1" | tr '|' ' '); do
    if [ -n "$(apt-cache show "$name" 2>/dev/null)" ]; then echo "$name"; return; fi
  done
  echo "${1%%|*}"
}
choose_all() { for each in $missing; do choose "$each"; done | tr '\n' ' ' | sed 's/ $//'; }

missing=
for each in $needed; do
  either_installed "$each" || missing="$missing $each"
done
if [ -z "$missing" ]; then exit 0; fi

by_hand() {
  {
    say "$1 As root, run:"
    printf '\n  apt-get update && apt-get install -y --no-install-recommends %s\n\n' "$(choose_all)"
  } >&2
  exit 2
}

if [ "$(id -u)" -eq 0 ]; then
  as_root=
else
  as_root=${SUDO-sudo}
  # First word: SUDO may carry options.
  if [ -z "$as_root" ] || ! command -v "${as_root%% *}" >/dev/null; then
    by_hand 'packages are missing, and there is no sudo.'
  fi
fi

# $as_root unquoted: nothing, or a command with its options. apt waits for another apt rather than fail.
apt_get() {
  $as_root env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes \
    apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" >/dev/null
}

say "not installed yet:$(echo "$missing" | sed 's/|[^ ]*//g')"
say 'apt-get update ...'
apt_get update || say 'apt-get update failed; going on with the package lists at hand' >&2
chosen=$(choose_all)
say "apt-get install $chosen ... (a minute or so)"
# shellcheck disable=SC2086  # a list of names
apt_get install --no-install-recommends $chosen || by_hand 'apt-get could not install everything (see above).'
