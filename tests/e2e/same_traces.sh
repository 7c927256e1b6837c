#!/usr/bin/env bash
# scripts/same-traces: steps on the sim device are what they were, and it says so where they are not.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

# compare ARGUMENT...: as `run`.
compare() {
  ran="same-traces $*"
  "$root/scripts/same-traces" "$@" >"$scratch/out" 2>"$scratch/err"
  code=$?
  out="$(<"$scratch/out")"
  err="$(<"$scratch/err")"
}

root="$3"
compare --ferry "$ferry"
[[ "$code" == 0 ]] ||
  complain "expected the same traces; if steps are meant to change: scripts/same-traces --update, and the reason in the commit"

# A command that simulates something else is noticed.
cat >"$scratch/other" <<'TEXT'
#!/usr/bin/env bash
while (($# > 0)); do
  case "$1" in --trace | --json) echo another >"$2" ;; esac
  shift
done
TEXT
chmod +x "$scratch/other"
compare --ferry "$scratch/other"
expect_code 1
expect_out "chain_of_eight,keep,20%,link=1"

compare --nonsense
expect_code 2
expect_err "same-traces: unknown argument '--nonsense'; see scripts/same-traces --help"
compare --ferry "$scratch/none"
expect_code 2
expect_err "same-traces: there is no $scratch/none; build it, or name it with --ferry"
compare --help
expect_code 0
expect_out "--update"

finish
