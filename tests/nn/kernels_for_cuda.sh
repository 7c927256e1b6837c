#!/usr/bin/env bash
# kernels_for_cuda.sh NVCC LIB: compiles the kernels for sm_80 and sm_90, and as PTX for newer GPUs; no kernel may spill
# registers.
set -euo pipefail
nvcc="$1" lib="$2"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

"$nvcc" -std=c++20 -I "$lib" -I "$lib/../include" -Werror all-warnings -Xcompiler=-Wall,-Wextra,-Werror \
  -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90] -Xptxas -v -c "$lib/nn/kernels/kernels.cu" -o "$scratch/kernels.o" \
  2>&1 | tee "$scratch/log"

kernels="$(grep -c 'Compiling entry function' "$scratch/log")"
defined="$(grep -ho '^FERRY_KERNEL [a-z_]*' "$lib"/nn/kernels/*.hpp | sort -u | wc -l)"
echo "$kernels kernels compiled, of $defined for each of two architectures"
((kernels == 2 * defined))
! grep -E '[1-9][0-9]* bytes spill' "$scratch/log"
