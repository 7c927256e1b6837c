#!/usr/bin/env bash
# `ferry devices`: what is here, what this build does not have, and the same for machines.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

run FERRY_DEVICE_BYTES=64MiB FERRY_PINNED_BYTES=96MiB FERRY_LINK_GBPS=1.5,0 FERRY_COMPUTE_THREADS=3 devices
expect_code 0
expect_silence
expect_out "host:"
expect_out "device memory    64.0 MiB"
expect_out "pinned memory    96.0 MiB"
expect_out "compute threads  3 (FERRY_COMPUTE_THREADS)"
expect_out "device to host   1.5 GB/s"
expect_out "host to device   unpaced"
expect_out "sim: a virtual clock"

run devices --json "$scratch/devices.json"
expect_code 0
expect_out "balanced with this machine's compute"
expect_out "25 GB/s, 10 us latency (PCIe 4 with 16 lanes)"
grep -q '"name": "host"' "$scratch/devices.json" || complain "expected the host device in the JSON file"
grep -q '"name": "sim"' "$scratch/devices.json" || complain "expected the sim device in the JSON file"
expect_json "$scratch/devices.json" devices in_this_build auto


# As OpenMP would have them, unless FERRY_COMPUTE_THREADS says otherwise.
OMP_NUM_THREADS=1,2 run FERRY_LINK_GBPS=1 devices --json "$scratch/one.json"
expect_out "compute threads  1 (OMP_NUM_THREADS)"
grep -q '"compute_threads": 1,' "$scratch/one.json" || complain "expected one thread in the JSON file"
grep -q '"compute_threads_from": "OMP_NUM_THREADS"' "$scratch/one.json" || complain "expected where it comes from in the JSON file"
# Unless somebody says how many, copies have a core of their own where there are two.
OMP_NUM_THREADS=none run FERRY_LINK_GBPS=1 devices
(($(nproc) == 1)) || expect_out "(cores of this process but one, which is for copies)"
run FERRY_LINK_GBPS=1 FERRY_COMPUTE_THREADS=auto devices
(($(nproc) == 1)) || expect_out "(cores of this process but one, which is for copies)"

# What CUDA there is differs from machine to machine; whatever it is, a reason or a GPU is named, and `auto` follows.
if [[ "$out" == *"auto: cuda:0 here, the first GPU"* ]]; then
  expect_out "compute capability"
  expect_out "free of"
  expect_json "$scratch/devices.json" gpus pci_bus_id numa_node runtime_version driver_version
else
  expect_out "auto: host here, because there is no GPU to use"
  expect_json "$scratch/devices.json" why_not
fi

# No GPU to be seen, on any machine.
CUDA_VISIBLE_DEVICES=-1 run devices --json "$scratch/none.json"
expect_code 0
expect_silence
expect_out "auto: host here"
grep -q '"auto": "host"' "$scratch/none.json" || complain "expected auto to be the host device"
grep -q '"available": false' "$scratch/none.json" || complain "expected a device that is not available"
if [[ "$out" != *"cuda: not in this build; for NVIDIA GPUs build with -DFERRY_CUDA=ON"* ]]; then
  expect_out "use FERRY_DEVICE=host"
  expect_out "CUDA runtime     1"
fi

run FERRY_LINK_GBPS=3@0,1@7 devices
expect_code 0
expect_out "device to host   3 GB/s, 10 us latency (to begin with)"

run FERRY_LINK_GBPS=fast devices
expect_code 2
expect_one_line_of_error
expect_err_has "FERRY_LINK_GBPS='fast'"

run FERRY_LINK_GBPS=1 devices --json -
expect_code 0
expect_silence
expect_json "$scratch/out" devices auto

run FERRY_LINK_GBPS=1 devices --json "$scratch/no/such/folder/devices.json"
expect_code 1
expect_one_line_of_error
expect_err_has "cannot be saved"

finish
