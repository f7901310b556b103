#!/bin/bash
# compute-sanitizer over small random calls of every attention kernel, then each of a few calls a thousand times with identical bits.
#   sanitize_attention.sh [FOLDER OF stickybit-check-attention] [calls a tool] [repeats]
# Exit status 0: no error of any tool, and every code the emulator's.
set -u
folder=${1:-build/gpu/bin}; calls=${2:-6}; repeats=${3:-1000}; failed=0
check=$folder/stickybit-check-attention
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}
small='queries=150;keys=200;batch=1;heads=2;key_heads=1'
run() {
  echo "== $*"
  timeout "${LIMIT:-120}" "$@" 2>&1 | grep -v '^gpu:\|^driver:\|^cuda:' | tail -n 12
  local status=${PIPESTATUS[0]}
  [ "$status" = 0 ] || { echo "status $status"; failed=1; }
}
compute-sanitizer --version | tail -n 1
"$check" --kernel sm80 --cases 1 | head -n 3
for pass in "sm90" "sm80" "sm80 --backward"; do
  for tool in memcheck racecheck synccheck; do
    # shellcheck disable=SC2086
    run compute-sanitizer --tool $tool --error-exitcode 3 "$check" --kernel $pass --cases "$calls" --seed 11 --set "$small"
  done
  # shellcheck disable=SC2086
  run "$check" --kernel $pass --cases 4 --seed 12 --repeats "$repeats"
done
[ $failed = 0 ] && echo "verdict: no error" || echo "verdict: ERRORS"
exit $failed
