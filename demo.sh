#!/usr/bin/env bash
# Exact attention on the real queries, keys and values of a real model, checked against the fp64 definition. Installs
# what is missing, builds the command into build/release and runs it; further arguments go to `flashtile run`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. .ci/common.sh

need "${build_packages[@]}"
echo "Building build/release/flashtile"
quietly cmake --preset release
quietly cmake --build --preset release --target flashtile_command
echo "build/release/flashtile run examples/data/minilm_layer.safetensors --check${*:+ $*}"
exec build/release/flashtile run examples/data/minilm_layer.safetensors --check "$@"
