# shellcheck shell=bash
# What demo.sh and test.sh share: installing what is missing, and running quietly. Sourced with the root as directory.

# need PACKAGE:PROBE...: each Debian package whose probe fails is installed with apt. A probe is a command, or a header
# (it has a dot), or a file (it begins with a slash). Where there is no apt, what is missing is named and the script
# ends.
need() {
  local missing=() probes=() item package probe
  for item in "$@"; do
    package=${item%%:*} probe=${item#*:}
    has "$package" "$probe" && continue
    missing+=("$package") probes+=("$probe")
  done
  ((${#missing[@]} == 0)) && return
  if ! command -v apt-get > /dev/null; then
    echo "missing: ${probes[*]}" >&2
    echo "Install what provides them (Debian calls the packages ${missing[*]}) and run this again." >&2
    exit 1
  fi
  local as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo > /dev/null; then
      echo "missing packages, and neither root nor sudo to install them: apt-get install ${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  echo "Installing with apt-get${as_root[*]:+ and sudo}: ${missing[*]}"
  quietly "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 update
  quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y \
    --no-install-recommends "${missing[@]}"
}

# has PACKAGE PROBE
has() {
  case $2 in
    /*) [[ -e $2 ]] ;;
    *.*)
      if command -v dpkg-query > /dev/null; then
        [[ $(dpkg-query -W -f='${Status}' "$1" 2> /dev/null) == "install ok installed" ]]
      else
        echo "#include <$2>" | c++ -std=c++20 -E -x c++ - > /dev/null 2>&1
      fi
      ;;
    *) command -v "$2" > /dev/null ;;
  esac
}

# quietly COMMAND...: its output is shown only if it fails, and then the script ends.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" > "$log" 2>&1 < /dev/null || status=$?
  if ((status != 0)); then
    tail -n 200 "$log" >&2
    echo "failed ($status): $*" >&2
    rm -f "$log"
    exit "$status"
  fi
  rm -f "$log"
}

# shellcheck disable=SC2034  # used by the scripts that source this
build_packages=(cmake:cmake ninja-build:ninja g++:c++ libcli11-dev:CLI/CLI.hpp libfmt-dev:fmt/core.h
  nlohmann-json3-dev:nlohmann/json.hpp zlib1g-dev:zlib.h)
