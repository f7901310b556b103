#!/usr/bin/env bash
# The vector code on NEON, without an ARM machine: builds for aarch64 and runs the tests of the stages that have such code under qemu.
# For people, not for ctest: it takes some 15 minutes.
# usage: tests/package/neon.sh FOLDER [CASES]      FOLDER: to build in; CASES: hard blocks a unit (default 2^26)
#   needs, on Debian 12 with `dpkg --add-architecture arm64`: g++-aarch64-linux-gnu qemu-user libhwy-dev:arm64 libfmt-dev:arm64 libgomp1:arm64
#   status: 0 when everything matched
set -euo pipefail

stop() { printf '%s\n' "$*" >&2; exit 2; }
[[ $# -ge 1 && $1 != -* ]] || stop 'usage: tests/package/neon.sh FOLDER [CASES]'
command -v aarch64-linux-gnu-g++ >/dev/null || stop 'needs aarch64-linux-gnu-g++ (Debian: g++-aarch64-linux-gnu)'
command -v qemu-aarch64 >/dev/null || stop 'needs qemu-aarch64 (Debian: qemu-user)'
folder=$1 cases=${2:-0x4000000}
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# Boost is headers only, but its CMake file lies in the folder of the machine that has it.
boost=$(dirname "$(find /usr/lib /usr/share -name BoostConfig.cmake -print -quit 2>/dev/null)")
cmake -S "$source_dir" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSTICKYBIT_TESTS=ON \
  -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
  -DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64 -DBoost_DIR="$boost" >"$folder.log"
cmake --build "$folder" --target test_rounding test_sfu test_softmax test_block_fma

run() { qemu-aarch64 "$folder/bin/$1" "${@:2}"; }
run test_rounding '~[exhaustive]*array*'
run test_sfu '~[exhaustive]*arrays*'
run test_softmax
run test_block_fma '[simd],[panel]'
STICKYBIT_CASES=$cases run test_block_fma '*STICKYBIT_CASES*'
