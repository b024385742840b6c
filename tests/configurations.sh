#!/usr/bin/env sh
# The default tests under other vector instructions, numbers of threads and orders than the usual:
# what no result may rest on.
#
#   sh tests/configurations.sh list            the names
#   sh tests/configurations.sh NAME [ARG ..]   the tests under one of them, with arguments of pytest
#   sh tests/configurations.sh turn [ARG ..]   under the one whose turn it is at this commit
#   sh tests/configurations.sh all [ARG ..]    under each in turn; ends with a table
set -eu
cd "$(dirname "$0")/.."
NAMES="usual no-vectors avx2 avx512 mkl-avx2 two-threads order-1 order-2 order-3"

if ! grep -qw avx512f /proc/cpuinfo 2>/dev/null; then
  NAMES=$(echo "$NAMES" | sed 's/ avx512//') # an illegal instruction on this processor
fi

# torch.compile takes from its cache what it compiled for other instructions, so each has its own
caches=${TMPDIR:-/tmp}/hosm-compiled-$(id -u)

settings() { # of a configuration: the environment of the tests
  case $1 in
    no-vectors) echo "ATEN_CPU_CAPABILITY=default TORCHINDUCTOR_CACHE_DIR=$caches/$1" ;;
    avx2 | avx512) echo "ATEN_CPU_CAPABILITY=$1 TORCHINDUCTOR_CACHE_DIR=$caches/$1" ;;
    mkl-avx2) echo MKL_ENABLE_INSTRUCTIONS=AVX2 ;;
    two-threads) echo OMP_NUM_THREADS=2 ;;
    *) echo "" ;;
  esac
}

run() {
  name=$1
  shift
  case " $NAMES " in
    *" $name "*) ;;
    *) echo "error: configuration must be one of $NAMES, got $name" >&2 && exit 2 ;;
  esac
  workers=2
  case $name in
    order-*) set -- --random-order --random-order-seed "${name#order-}" "$@" ;;
    two-threads) workers=1 ;; # as many threads in all as elsewhere
  esac
  # shellcheck disable=SC2046 # settings are words
  env OMP_NUM_THREADS=1 $(settings "$name") python -m pytest -n $workers --dist worksteal "$@"
}

choice=${1:-list}
[ $# -eq 0 ] || shift
case $choice in
  list) echo "$NAMES" | tr ' ' '\n' ;;
  turn)
    count=$(git rev-list --count HEAD 2>/dev/null || echo 0)
    # shellcheck disable=SC2086 # names are words
    name=$(echo "$NAMES" | tr ' ' '\n' | sed -n "$((count % $(echo $NAMES | wc -w) + 1))p")
    echo "configuration of this commit: $name"
    run "$name" "$@"
    ;;
  all)
    table="" worst=0
    for name in $NAMES; do
      began=$(date +%s)
      if run "$name" "$@"; then verdict=passed; else verdict=FAILED worst=1; fi
      table="$table$(printf '%-12s %-7s %5d s' "$name" "$verdict" $(($(date +%s) - began)))\n"
    done
    printf '\n%b' "$table"
    exit $worst
    ;;
  *) run "$choice" "$@" ;;
esac
