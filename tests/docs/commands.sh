#!/usr/bin/env bash
# commands.sh SOURCE_FOLDER FERRY: every command of README.md, CONTRIBUTING.md and docs/ does what it says as it is pasted: page by
# page in a fresh folder, in which there is what a clone and its reader have. Those that are not run are named with the reason.
# What trains or measures is made small, by flags behind those of the page.
# shellcheck source-path=SCRIPTDIR source=../e2e/expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/expect.sh" "$2"
source_folder="$(realpath "$1")"
ferry="$(realpath "$ferry")"
export COMMAND_OF_FERRY="$scratch/command"
ran="" code="" out="" err=""

# PATTERN  REASON: of lines that are not run.
readonly not_run=(
  '^scripts/(install|demo|test|setup|gpu-check|explore)\b' "builds, for minutes: install.prefix, e2e.readme, e2e.gpu_check and explore.* run what they run"
  '^(cmake|ctest) ' "builds: docs.linking_projects and docs.linking_installed do that"
  '^(g\+\+|cc) |^\./first$' "builds: docs.linking_installed does that"
  '^(FERRY_POLICY=[a-z]* )?build/dev/examples/|plan\.py$' "programs, built and run by examples.* and docs.plan_in_python"
  '^ferry bench( link)?$' "measures for ten seconds: e2e.bench, and link with --write-hardware here"
  '^(build/(release/)?bench|bench)/' "a benchmark of a release build, or of a Python with PyTorch"
  '^(FERRY_DEVICE=cuda )?build/gpu/' "needs a GPU"
)
# Lines whose command ends with an error, as the page says.
readonly fails='--policy keep .*2> oom\.txt$'

# The ferry of these pages: COMMAND_OF_FERRY is the built one.
make_command() {
  mkdir "$scratch/bin"
  ln -s "$ferry" "$COMMAND_OF_FERRY"
  cat >"$scratch/bin/ferry" <<'SH'
#!/usr/bin/env bash
command="$COMMAND_OF_FERRY" small=()
unset COMMAND_OF_FERRY
[[ " $* " == *" --gpu "* || " $* " == *" --profile "* ]] || here=1
case "$1 $2" in
  "train "*)
    small=(--layers 12 --steps 4 --validate-every 0 --sample 0)
    [[ " $* " == *" --init "* ]] || small+=(--preset tiny)
    [[ " $* " != *" --tokens "* && " $* " != *" --compare "* ]] || small+=(--context 16 --batch 1)
    [[ " $* " != *" --slow-link "* ]] || small+=(--steps 8)
    [[ " $* " != *" --policy keep "* ]] || small=()  # it ends before it has begun
    ;;
  "bench policies") small=(--budgets 3 ${here:+--gpt 2,32,2,16,2 --rounds 1}) ;;
  "bench breakeven") small=(${here:+--gpt 2,64,1,16,2}) ;;
  "bench link") small=(--largest 1MiB) ;;
esac
[[ " $* " != *" policies "*--gp?" "* || -n "$here" ]] || small+=(--plan-ms 20)
exec "$command" "$@" "${small[@]}"
SH
  printf '#!/bin/sh\necho "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 1.20 GiB is free."\n' >"$scratch/bin/python"
  chmod +x "$scratch/bin/ferry" "$scratch/bin/python"
}

# What a page's reader has: made once.
make_files() {
  mkdir "$scratch/files" "$scratch/files/docs"
  (
    set -e
    cd "$scratch/files"
    cp "$source_folder/LICENSE" book.txt
    printf '\x01\x02\x03\x04%.0s' {1..10000} >tokens.bin
    short=(train --preset tiny --steps 2 --validate-every 0 --sample 0)
    FERRY_TRACE=trace.json FERRY_STATS=stats.jsonl "$ferry" "${short[@]}" --json run.json
    for policy in auto offload; do "$ferry" "${short[@]}" --policy "$policy" --json "$policy.json"; done
    "$ferry" "${short[@]}" --layers 12 --save model.safetensors
    echo '{"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "vocab_size": 50257, "n_positions": 1024}' >config.json
    python >oom.txt
    ln -s "$source_folder/examples" examples
  ) >"$scratch/log" 2>&1 || complain "expected what readers have: $(<"$scratch/log")"
}

# lines PAGE: its commands, without what is said about them: blocks of shell, whether fenced or indented, and the README's table.
lines() {
  awk -v is_readme="$([[ "$1" == */README.md ]] && echo 1)" '
    /^ *```/ { inside = !inside; shell = inside && $1 == "```sh"; next }
    inside { if (shell) print; next }
    /^    (ferry|scripts\/|build\/|bench\/|cmake|FERRY_[A-Z_]*=)/ { print substr($0, 5) }
    is_readme && /^\| .* \| `ferry / { sub(/^[^`]*`/, ""); sub(/`.*/, ""); print }' "$1" | sed -E 's/[[:space:]]+#.*//; /^$/d'
}

declare -A matched
# is_run LINE: notes which of the patterns has kept it from being run.
is_run() {
  local i
  for ((i = 0; i < ${#not_run[@]}; i += 2)); do
    if [[ "$1" =~ ${not_run[i]} ]]; then
      matched[$i]=1
      return 1
    fi
  done
}

# follow PAGE: all of it in one shell, so that what is exported stays; at its end the settings are looked at.
commands=0
follow() {
  local line expected folder="$scratch/page"
  rm -rf "$folder"
  cp -r "$scratch/files" "$folder"
  {
    # shellcheck disable=SC2016  # for the page's shell
    echo 'wrong() { echo "$1: exit code $2: $(<err)"; }'
    while read -r line; do
      is_run "$line" || continue
      commands=$((commands + 1))
      printf '{ %s\n} >out 2>err; code=$?\n' "$line"
      expected="0"
      if [[ "$line" =~ $fails ]]; then expected="[13]"; fi
      # shellcheck disable=SC2016
      printf '[[ "$code" == %s && ! -s err ]] || wrong %q "$code"\n' "$expected" "$line"
    done < <(lines "$1")
    echo 'ferry env >out 2>err || wrong "ferry env, at the end" "$?"'
  } >"$scratch/commands"
  ran="${1#"$source_folder/"}"
  out="$(cd "$folder" && bash "$scratch/commands" 2>&1)"
  code=$?
  [[ -z "$out" ]] || complain "these did not work as pasted"
}

make_command
PATH="$scratch/bin:$PATH"
export FERRY_DEVICE=host HOME="$scratch"  # no other command of that name is found
make_files
cd "$scratch" || exit 1
for page in "$source_folder"/{README,CONTRIBUTING}.md "$source_folder"/docs/*.md; do follow "$page"; done
ran="" code="" out="" err=""
((commands >= 50)) || complain "expected more commands than $commands"
for ((i = 0; i < ${#not_run[@]}; i += 2)); do
  [[ -v matched[$i] ]] || complain "no page has a command that is not run because: ${not_run[i + 1]}"
done
echo "$commands commands"
finish
