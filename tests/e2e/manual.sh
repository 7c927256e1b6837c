#!/usr/bin/env bash
# The manual page: whole, of the same source as the help, and roff that formatters take without a word.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

run manual
expect_code 0
expect_silence
page="$scratch/ferry.1"
cp "$scratch/out" "$page"
for section in NAME SYNOPSIS DESCRIPTION COMMANDS ENVIRONMENT "EXIT STATUS" EXAMPLES FILES "SEE ALSO"; do
  grep -qx ".SH $section" "$page" || complain "expected the section $section"
done
expect_out "ferry $2"

# Every command with its flags, and every setting.
plain="$(sed 's/\\-/-/g; s/\\f[BIR]//g' "$page")"
on_page() { grep -qF -- "$1" <<<"$plain" || complain "expected on the page: $1"; }
while read -r command; do
  on_page ".SS ferry $command"
  while read -r flag; do on_page "$flag"; done < <("$ferry" "$command" --help | sed -n 's/^  .*\(--[a-z-]*\).*/\1/p')
  while read -r call; do on_page "${call%% *}"; done < <("$ferry" "$command" --help | sed -n 's/^  \(ferry .*\)/\1/p')
done < <("$ferry" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
while read -r variable; do on_page "$variable"; done < <("$ferry" env | sed -n 's/^\(FERRY_[A-Z_]*\) .*/\1/p')
for code in 0 1 2 3 130; do grep -qx ".*fB$code.fR" "$page" || complain "expected the exit code $code"; done

# formatter NAME COMMAND...: what it complains of is a failure.
formatter() {
  if ! command -v "$1" >"$scratch/path"; then
    echo "skipped: there is no $1"
    return
  fi
  ran="$*" code=0 out=""
  err="$("$@" 2>&1)" || complain "expected that $1 takes the page"
  [[ -z "$err" ]] || complain "expected that $1 has nothing to complain of"
}
formatter groff -man -ww -z "$page"
formatter mandoc -Tlint -W error "$page"
if command -v man >"$scratch/path" && man -l "$page" >"$scratch/shown" 2>"$scratch/err"; then
  grep -q "ferry train" "$scratch/shown" || complain "expected commands in what man shows"
fi

finish
