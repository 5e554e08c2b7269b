#!/usr/bin/env bash
# Builds and passes all tests:  ./test.sh [--fast | PHASE...]
#
#   ci       everything, warnings are errors, all tests of ctest
#   x86      the same program on emulated processors without AVX-512, without AVX2, without FMA
#   aarch64  cross-compiled, NEON, under qemu-aarch64
#   asan     address and undefined behaviour sanitizers, reduced grid
#   tsan     thread sanitizer, reduced grid
#
# --fast is ci alone; without arguments all phases run, as in continuous integration. The last line counts tests, one that
# runs in two phases twice. Missing Debian packages are installed (with sudo only when needed).
# FLASHTILE_TEST_GRID=small asks the grids of the tests for their reduced form.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. .ci/common.sh
jobs=$(nproc)
counts=$(mktemp)  # a line "passed failed" for each program that ran
trap 'rm -f "$counts"' EXIT

# Not on emulated processors: the host's threads, forks, affinity and files about the machine; and what is large for the
# sake of memory and threads alone, where an emulator takes minutes to say the same.
not_emulated='-Threads.*:Machine.*:Cgroup.*:*.A9_3*:*.A9_4*:Memory.*:Invariance.Threads*:Invariance.Shares*'
not_emulated+=':*.A4_7*:*.A4_8_More*:*.A5_6*'

# run_tests NAME COMMAND...: one GoogleTest program, a shard for each CPU; says how many tests passed, 0 is a failure.
run_tests() {
  local name=$1 shard pids=() logs failed=0 passed
  shift
  logs=$(mktemp -d)
  for ((shard = 0; shard < jobs; ++shard)); do
    GTEST_TOTAL_SHARDS=$jobs GTEST_SHARD_INDEX=$shard "$@" --gtest_brief=1 > "$logs/$shard" 2>&1 < /dev/null &
    pids+=($!)
  done
  for shard in "${!pids[@]}"; do
    wait "${pids[shard]}" && continue
    failed=$((failed + 1))
    grep -v "warning: TCG doesn't support" "$logs/$shard" | tail -n 100  # said by the emulator at each start
  done
  passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$logs"/* | awk '{ n += $1 } END { print n + 0 }')
  # A shard that crashed names no failed test: it counts as one.
  failed=$(sed -n 's/^ *\([0-9]*\) FAILED TESTS*$/\1/p' "$logs"/* |
    awk -v shards="$failed" '{ n += $1 } END { print(n > shards ? n : shards) }')
  rm -rf "$logs"
  echo "$passed $failed" >> "$counts"
  echo "  $name: $passed tests passed"
  ((failed == 0 && passed > 0))
}

# build PRESET [TARGET...]
build() {
  quietly cmake --preset "$1"
  quietly cmake --build --preset "$1" ${2:+--target "${@:2}"}
}

phase_ci() {
  build ci
  local log status=0
  log=$(mktemp)
  ctest --preset ci -j "$jobs" > "$log" 2>&1 < /dev/null || status=$?
  if ((status != 0)); then grep -v ' Passed \|^ *Start ' "$log" | tail -n 300; fi
  sed -n 's/^\([0-9]*% tests passed.*\)/  ctest: \1/p' "$log"
  sed -n 's/^[0-9]*% tests passed, \([0-9]*\) tests* failed out of \([0-9]*\).*/\1 \2/p' "$log" |
    awk '{ print $2 - $1, $1 }' >> "$counts"
  rm -f "$log"
  ((status == 0)) || return "$status"
  # A wrong answer fails; a time decides nothing.
  build/ci/flashtile bench --rounds 1 > build/ci/bench.md
  echo "  flashtile bench: $(grep -c '^| --' build/ci/bench.md) problems, their table is build/ci/bench.md"
}

phase_x86() {
  if [[ $(uname -m) != x86_64 ]]; then
    echo "  left out: this is no x86-64 machine"
    return
  fi
  build ci flashtile_core_test
  # Choice and bits are what an emulated processor can tell: the tests on this one run the same AVX2 kernels, faster.
  local cpu filter="Model.*:Dyadic*:Dispatch.*:CpuFeatures.*:FloatEnv*:Storage.*:A9_*$not_emulated"
  filter+=':*.A9_9*:*.A9_10*:Model.HugeAndTiny*:Model.Masks'  # half of the time, and nothing that depends on the choice
  for cpu in Haswell Haswell,-fma Nehalem; do
    FLASHTILE_TEST_GRID=small run_tests "qemu-x86_64 -cpu $cpu" qemu-x86_64 -cpu "$cpu" build/ci/flashtile_core_test \
      --gtest_filter="$filter"
  done
}

phase_aarch64() {
  build aarch64 flashtile_core_test
  FLASHTILE_TEST_GRID=small run_tests "qemu-aarch64" qemu-aarch64 -L /usr/aarch64-linux-gnu \
    build/aarch64/flashtile_core_test --gtest_filter="$not_emulated"
}

phase_asan() {
  build asan flashtile flashtile_core_test flashtile_command_test
  export FLASHTILE_TEST_GRID=small ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1}
  local program
  for program in build/asan/flashtile_*_test; do run_tests "asan and ubsan, ${program##*/}" "$program"; done
}

phase_tsan() {
  build tsan flashtile_core_test
  # g++ 12's run time needs addresses that are not randomised far; a container may forbid to ask for that.
  local fixed=()
  if setarch -R true 2> /dev/null; then fixed=(setarch -R); fi
  # Whatever shares data between threads; the mathematics of a row does not.
  FLASHTILE_TEST_GRID=small TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1} run_tests "tsan" "${fixed[@]}" \
    build/tsan/flashtile_core_test --gtest_filter='Threads*:Machine*:Cgroup*:Environment*:Invariance*:Memory*:A6_*:A9_*'
}

phases=("$@")
if (($# == 0)); then phases=(ci x86 aarch64 asan tsan); fi
if [[ ${1-} == --fast ]]; then phases=(ci); fi
for phase in "${phases[@]}"; do
  if ! declare -F "phase_$phase" > /dev/null; then
    echo "phase = $phase; expected --fast, or some of ci, x86, aarch64, asan, tsan" >&2
    exit 2
  fi
done

need "${build_packages[@]}" gcc:cc libgtest-dev:gtest/gtest.h libgmock-dev:gmock/gmock.h pkg-config:pkg-config \
  binutils:nm python3:python3
# The baseline of flashtile bench, and the micro-benchmarks.
case " ${phases[*]} " in *" ci "*) need libopenblas0-pthread:libopenblas.so.0 libbenchmark-dev:benchmark/benchmark.h ;; esac
case " ${phases[*]} " in *" x86 "*) need qemu-user:qemu-x86_64 ;; esac
case " ${phases[*]} " in *" aarch64 "*) need qemu-user:qemu-aarch64 g++-aarch64-linux-gnu:aarch64-linux-gnu-g++ ;; esac

failed=()
for phase in "${phases[@]}"; do
  echo "$phase"
  began=$SECONDS status=0
  set +e  # a subshell in a condition would go on after errors
  (
    set -e
    "phase_$phase"
  )
  status=$?
  set -e
  echo "  $((SECONDS - began)) s"
  if ((status != 0)); then failed+=("$phase"); fi
done
if ((${#failed[@]} > 0)); then
  echo "FAILED: ${failed[*]} (of ${phases[*]}; $SECONDS s)"
else
  echo "passed: ${phases[*]} ($SECONDS s)"
fi
# In the words of ctest.
awk '{ passed += $1; failed += $2 } END { n = passed + failed
  printf "%d%% tests passed, %d tests failed out of %d\n", n ? 100 * passed / n : 0, failed, n }' "$counts"
((${#failed[@]} == 0))
