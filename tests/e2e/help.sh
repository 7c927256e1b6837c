#!/usr/bin/env bash
# Every command explains itself, and a wrong call says what was wrong.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

run --help
expect_code 0
expect_out "train"
expect_out "plan"
expect_out "simulate"
expect_out "env"
expect_out "devices"
expect_silence

for command in train plan simulate env devices; do
  run "$command" --help
  expect_code 0
  expect_out "--json FILE"
  expect_silence
done

run --version
expect_code 0
expect_out "ferry $2"

run
expect_code 2
expect_err 'ferry: no command given; see `ferry --help`'

run bogus
expect_code 2
expect_one_line_of_error
expect_err_has "bogus"

run env --nope
expect_code 2
expect_one_line_of_error
expect_err_has "--nope"

run env --json
expect_code 2
expect_one_line_of_error

finish
