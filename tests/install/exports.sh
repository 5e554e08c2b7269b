#!/usr/bin/env bash
# exports.sh LIBRARY INCLUDE_DIR: the shared library exports the functions that its two headers declare FLASHTILE_API,
# the public members of Plan, and nothing else. Fails on any other symbol and on any that is missing.
set -euo pipefail
library=$1 include=$2
failed=0

# C: every name that flashtile_c.h declares after FLASHTILE_API. C++: the same of flashtile.h, and what Plan has.
c_names=$(tr '\n' ' ' < "$include/flashtile/flashtile_c.h" |
  grep -oE 'FLASHTILE_API [a-z_0-9 *]*\bflashtile_[a-z_0-9]+\(' | grep -oE 'flashtile_[a-z_0-9]+\($' | tr -d '(')
cpp_names=$(tr '\n' ' ' < "$include/flashtile/flashtile.h" |
  grep -oE 'FLASHTILE_API (const char\*|[A-Za-z_0-9:]+) [a-z_]+\(' | grep -oE '[a-z_]+\($' | tr -d '(' |
  sed 's/^/flashtile::/')
plan_names='flashtile::Plan::~Plan
flashtile::Plan::operator=
flashtile::Plan::facts'
expected=$(printf '%s\n%s\n%s\n' "$c_names" "$cpp_names" "$plan_names" | sort -u)

# "A" is the version node itself.
exported=$(nm -DC --defined-only "$library" | awk '$2 != "A" { $1 = $2 = ""; print }' |
  sed -E 's/^ +//; s/@.*$//; s/\(.*$//' | sort -u)

for name in $(comm -13 <(echo "$expected") <(echo "$exported") | tr ' ' '_'); do
  echo "exported, but in no public header: $name"
  failed=1
done
for name in $(comm -23 <(echo "$expected") <(echo "$exported")); do
  echo "declared FLASHTILE_API, but not exported: $name"
  failed=1
done
echo "$(echo "$exported" | wc -l) names exported, $(echo "$expected" | wc -l) declared"
exit $failed
