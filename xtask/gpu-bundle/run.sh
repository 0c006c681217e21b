#!/bin/sh
# Runs the tests, examples and benchmarks in this folder on a real NVIDIA GPU. Needs x86-64 Linux with a
# driver for CUDA 12 or newer, and no Rust. What each step prints is kept in results/ (or $OUT).
#
# compute-sanitizer runs where it is installed; CuPy and PyTorch are measured where python3 has them, and
# RMM where RMM_ROOT is a folder with its include, lib64 and g++ builds against it.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$here/results}
mkdir -p "$out"
failed=

if [ -z "${WORKSLAB_CUDA_LIBRARY:-}" ]; then
  for folder in /usr/local/nvidia/lib64 /usr/lib/x86_64-linux-gnu /usr/lib64; do
    [ -e "$folder/libcuda.so.1" ] && WORKSLAB_CUDA_LIBRARY=$folder/libcuda.so.1 && break
  done
fi
if [ -z "${WORKSLAB_CUDA_LIBRARY:-}" ]; then
  echo "no libcuda.so.1 was found; set WORKSLAB_CUDA_LIBRARY to it" >&2
  exit 2
fi
export WORKSLAB_CUDA_LIBRARY
LD_LIBRARY_PATH=$(dirname "$WORKSLAB_CUDA_LIBRARY")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

# step NAME COMMAND…: runs it, keeps what it prints, and goes on also if it fails.
step() {
  name=$1
  shift
  if "$@" >"$out/$name.log" 2>&1; then
    if head -1 "$out/$name.log" | grep -q '^skipped'; then
      echo "skipped $name: $(head -1 "$out/$name.log")"
      return
    fi
    echo "ok      $name: $(grep -E '^test result|every byte right|"nanoseconds"|ERROR SUMMARY' "$out/$name.log" | tail -1 | cut -c1-160)"
  else
    echo "FAILED  $name ($?); the end of $out/$name.log:"
    tail -15 "$out/$name.log"
    failed="$failed $name"
  fi
}

# matrix CASE COMMAND…: all tests of a backend but those that need what one real GPU is not: a second
# device, a device of 64 MiB, faults on demand.
matrix() {
  case=$1
  shift
  "$@" "$here/bin/matrix" "$case" --test-threads=1 \
    --skip each_device --skip more_than --skip another_device --skip the_same_code --skip random \
    --skip a_reservation_that_does_not_fit --skip a_stream_of_another \
    --skip a_device_that_is_not_there --skip reset_frees
}

step devices "$here/bin/workslab" devices
cat "$out/devices.log"
step matrix matrix case_3_cuda env
for example in "$here"/bin/0*; do
  step "example-$(basename "$example" | cut -c1-2)" "$example" cuda
done
# Where its kernels cannot be compiled, that is no success on this machine.
if grep -q '^skipped' "$out/example-08.log"; then
  failed="$failed example-08"
else
  cat "$out/example-08.log"
fi
data=$here/data/icon4py-dycore.json
step replay "$here/bin/workslab" replay "$data" --platform cuda
step replay-planned "$here/bin/workslab" replay "$data" --platform cuda --planned
step replay-guard "$here/bin/workslab" replay "$data" --platform cuda --guard --steps 3
# The ROCm backend's own code, over CUDA's driver.
over="env WORKSLAB_HIP_LIBRARY=$here/bin/libworkslab_hip_over_cuda.so"
step rocm-matrix matrix case_2_rocm $over
for example in "$here"/bin/0*; do
  step "rocm-example-$(basename "$example" | cut -c1-2)" $over "$example" rocm
done
step rocm-replay $over "$here/bin/workslab" replay "$data" --platform rocm
step rocm-replay-planned $over "$here/bin/workslab" replay "$data" --platform rocm --planned
step endurance "$here/bin/endurance"
cat "$out/endurance.log"
step bench "$here/bin/bench"
cat "$out/bench.log"
if python3 -c 'import cupy' 2>/dev/null || python3 -c 'import torch' 2>/dev/null; then
  step peers python3 "$here/peers/pools.py"
  cat "$out/peers.log"
else
  echo "skipped peers: python3 has neither CuPy nor PyTorch"
fi
if [ -n "${RMM_ROOT:-}" ]; then
  step rmm-build g++ -O2 -std=c++20 "$here/peers/rmm.cpp" -o "$out/rmm" \
    -I"$RMM_ROOT/include" -I"$RMM_ROOT/include/rapids" -L"$RMM_ROOT/lib64" \
    -lrmm -lrapids_logger -lcudart
  LD_LIBRARY_PATH="$RMM_ROOT/lib64:$LD_LIBRARY_PATH" step rmm "$out/rmm"
  rm -f "$out/rmm"
  cat "$out/rmm.log"
else
  echo "skipped RMM: RMM_ROOT is not set"
fi
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | tail -1)
if [ -n "$sanitizer" ]; then
  # Calls that fail on purpose are no findings.
  for tool in memcheck initcheck racecheck; do
    step "sanitizer-$tool" matrix case_3_cuda "$sanitizer" --tool "$tool" --report-api-errors no --error-exitcode 9
  done
else
  echo "skipped compute-sanitizer: it is not installed"
fi

if [ -n "$failed" ]; then
  echo "failed:$failed"
  exit 1
fi
echo "all steps that could run passed"
