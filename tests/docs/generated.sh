#!/usr/bin/env bash
# generated.sh SOURCE_FOLDER FERRY: what is generated in the documentation is what the code gives; scripts/docs makes it so,
# and notices when it is not.
set -uo pipefail
source_folder="$1"
ferry="$2"
failures=0
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
for variable in "${!FERRY_@}"; do unset "$variable"; done

complain() {
  printf '%s\n' "$1"
  failures=$((failures + 1))
}

"$source_folder/scripts/docs" --check --ferry "$ferry" ||
  complain "the documentation differs from the code; run: scripts/docs --ferry COMMAND"

# Every setting has a default, what it accepts and what it affects.
while read -r variable; do
  section="$(sed -n "/^### $variable\$/,/^##/p" "$source_folder/docs/settings.md")"
  for part in '- default: `' '- accepts: ' '- in C++: `ferry::config::'; do
    [[ "$section" == *"$part"* ]] || complain "docs/settings.md: expected of $variable: $part"
  done
  member="$(sed -n 's/^- in C++: `ferry::config::\(.*\)`$/\1/p' <<<"$section")"
  grep -qF "| [\`$variable\`](#${variable,,}) | " "$source_folder/docs/settings.md" || complain "$variable: expected in the table"
  grep -qE "^  [a-z_:]+ $member( =|;|\{)" "$source_folder/include/ferry/config.hpp" || complain "$variable: ferry::config has no member '$member'"
done < <("$ferry" env | sed -n 's/^\(FERRY_[A-Z_]*\) .*/\1/p')

# A copy that has gone stale is noticed, and put right.
mkdir -p "$scratch/examples" "$scratch/docs" "$scratch/scripts"
cp "$source_folder"/docs/{settings,linking}.md "$scratch/docs"
cp "$source_folder/scripts/docs" "$scratch/scripts"
cp -r "$source_folder/examples/02_raw_trainer" "$scratch/examples"
echo "// another line" >>"$scratch/examples/02_raw_trainer/trainer_ferry.cpp"
sed -i 's/70%/71%/' "$scratch/docs/settings.md"
stale="$("$scratch/scripts/docs" --check --ferry "$ferry" 2>&1)" && complain "expected stale pages to fail"
for words in "+++ what the code gives" "-- default: \`71%\`" "++// another line" "scripts/docs writes it"; do
  [[ "$stale" == *"$words"* ]] || complain "expected in what it says of stale pages: $words"
done
"$scratch/scripts/docs" --ferry "$ferry" >"$scratch/log" || complain "expected it to write the pages"
"$scratch/scripts/docs" --check --ferry "$ferry" || complain "expected fresh pages after it has written them"
cmp "$source_folder/docs/settings.md" "$scratch/docs/settings.md" || complain "expected the page as it was"

# expect_refusal TEXT ARGUMENT...
expect_refusal() {
  local said
  said="$("$scratch/scripts/docs" "${@:2}" 2>&1)" && complain "expected a refusal: ${*:2}"
  [[ "$said" == *"$1"* ]] || complain "expected, not '$said': $1"
}
expect_refusal "unknown argument '--chek'" --chek
expect_refusal "--ferry needs the path" --ferry
expect_refusal "there is no command '/nowhere/ferry'" --ferry /nowhere/ferry
sed -i '/^<!-- difference -->$/d' "$scratch/docs/linking.md"
expect_refusal "docs/linking.md has no line <!-- difference -->" --check --ferry "$ferry"

exit "$((failures > 0))"
