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
expect_out "compute threads  3"
expect_out "device to host   1.5 GB/s"
expect_out "host to device   unpaced"
expect_out "cuda: not in this build"
expect_out "sim: a virtual clock"

run devices --json "$scratch/devices.json"
expect_code 0
expect_out "balanced with this machine's compute"
expect_out "25 GB/s, 10 us latency (PCIe 4 with 16 lanes)"
grep -q '"name": "host"' "$scratch/devices.json" || complain "expected the host device in the JSON file"
grep -q '"name": "sim"' "$scratch/devices.json" || complain "expected the sim device in the JSON file"
grep -q '"available": false' "$scratch/devices.json" || complain "expected absent devices in the JSON file"

run FERRY_LINK_GBPS=3@0,1@7 devices
expect_code 0
expect_out "device to host   3 GB/s, 10 us latency (to begin with)"

run FERRY_LINK_GBPS=fast devices
expect_code 2
expect_one_line_of_error
expect_err_has "FERRY_LINK_GBPS='fast'"

run FERRY_LINK_GBPS=1 devices --json "$scratch/no/such/folder/devices.json"
expect_code 1
expect_one_line_of_error
expect_err_has "cannot write"

finish
