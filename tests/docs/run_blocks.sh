#!/usr/bin/env bash
# Compiles and runs the code that a document shows:  run_blocks.sh DOCUMENT
#
#   <!-- test -->            before a fence of cpp, c or sh: the block must build and run with status 0. cpp without a
#   ```cpp                   main() is wrapped by surroundings.h; sh runs in the root of the source tree.
#   <!-- prints -->          before a fence of text: what the block before it prints, to the letter.
#
# A block of cpp or c without the mark is a failure: no code is shown that nobody runs. So is a link to a file that is
# not there. Environment: CXX, CC, SOURCE (root), LIBRARY (file), WORK (a folder of this test), COMMAND_DIR (folder of
# the command; empty: sh blocks are not run), BLOCKS_AT_LEAST (default 0).
set -euo pipefail
document=$1
name=$(basename "$document" .md)
mkdir -p "$WORK"
rm -f "$WORK/$name".*

# One file a block, named by its number, its line in the document and its language.
awk -v out="$WORK/$name" -v document="$document" '
  in_block && /^```[ \t]*$/ { in_block = 0; if (file != "") close(file); next }
  in_block { if (file != "") print > file; next }
  /^```/ {
    language = substr($0, 4); in_block = 1; file = ""
    if ((language == "cpp" || language == "c") && mark != "test") {
      printf "%s:%d: %s block without <!-- test --> before it\n", document, NR, language > "/dev/stderr"; bad = 1
    }
    if (mark == "test" && language !~ /^(cpp|c|sh)$/) {
      printf "%s:%d: <!-- test --> before a block of \"%s\"; expected cpp, c or sh\n", document, NR, language \
        > "/dev/stderr"
      bad = 1
    } else if (mark == "test") {
      file = sprintf("%s.%03d.line%d.%s", out, ++n, NR, language); printf "" > file
    } else if (mark == "prints") {
      file = sprintf("%s.%03d.prints", out, n); printf "" > file
    }
    mark = ""; next
  }
  /^<!-- (test|prints) -->$/ { mark = $2; next }
  /[^ \t]/ { mark = "" }
  END { if (in_block) { printf "%s: a fence is not closed\n", document > "/dev/stderr"; bad = 1 } exit bad }
' "$document"

for link in $(grep -oE '\]\([^)#]+' "$document" | cut -c3- | grep -v '^[a-z]*:' | sort -u); do
  if [[ ! -e $(dirname "$document")/$link ]]; then
    echo "$document: a link to $link, which does not exist" >&2
    exit 1
  fi
done

ran=0
export PATH="${COMMAND_DIR:+$COMMAND_DIR:}$PATH"
for block in "$WORK/$name".*.line*; do
  [[ -e $block ]] || continue
  number=$(basename "$block" | cut -d. -f2)
  line=${block##*.line} line=${line%%.*}
  program=$WORK/$name.$number.program
  case $block in
    *.cpp)
      if ! grep -q 'int main(' "$block"; then
        { echo '#include "surroundings.h"'; echo 'void block(Surroundings& s) {'; echo '  FT_NAMES_OF(s)'
          echo "#line $((line + 1)) \"$document\""; cat "$block"
          echo '}'; echo 'int main() { return run_block(block); }'; } > "$block.wrapped.cpp"
        source=$block.wrapped.cpp
      else
        source=$block
      fi
      "$CXX" -std=c++20 -O1 -Wall -Wextra -Werror -I"$SOURCE/include" -I"$SOURCE/tests/docs" "$source" "$LIBRARY" \
        -Wl,-rpath,"$(dirname "$LIBRARY")" -pthread -o "$program"
      ;;
    *.c)
      "$CC" -std=c99 -pedantic -O1 -Wall -Wextra -Werror -I"$SOURCE/include" -c "$block" -o "$program.o"
      "$CXX" "$program.o" "$LIBRARY" -Wl,-rpath,"$(dirname "$LIBRARY")" -pthread -lm -o "$program"
      ;;
    *.sh)
      if [[ -z ${COMMAND_DIR:-} ]]; then continue; fi
      { echo 'set -euo pipefail'; cat "$block"; } > "$program"
      chmod +x "$program"
      ;;
  esac
  runner=()
  if [[ $block == *.sh ]]; then runner=(bash); fi
  if ! (cd "$SOURCE" && "${runner[@]}" "$program") > "$WORK/$name.$number.printed"; then
    echo "$document:$line: the block failed; it printed:" >&2
    cat "$WORK/$name.$number.printed" >&2
    exit 1
  fi
  if [[ -e $WORK/$name.$number.prints ]] && ! diff -u "$WORK/$name.$number.prints" "$WORK/$name.$number.printed" >&2; then
    echo "$document:$line: the block does not print what the document says" >&2
    exit 1
  fi
  ran=$((ran + 1))
done
echo "$document: $ran blocks ran"
if ((ran < ${BLOCKS_AT_LEAST:-0})); then
  echo "$document: expected at least ${BLOCKS_AT_LEAST} blocks" >&2
  exit 1
fi
