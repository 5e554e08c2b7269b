"""Applies each one-line fault of mutants.toml to a copy of the tree and shows that the core tests notice it.

    run.py [--only NAME] [--work DIR] [--report FILE]      all faults; DIR keeps the copy and the results, to go on later
    run.py --check                                         only whether each fault fits the tree: its line occurs once

A fault is killed when a test fails, crashes or hangs. One that survives, does not compile or does not fit is a failure.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 900


def load():
    with open(pathlib.Path(__file__).with_name("mutants.toml"), "rb") as file:
        return tomllib.load(file)["mutant"]


def misfits(mutants):
    names = [m["name"] for m in mutants]
    yield from (f"{name}: the name is used twice" for name in sorted({n for n in names if names.count(n) > 1}))
    for m in mutants:
        count = (SOURCE / m["file"]).read_text().count(m["line"])
        if count != 1:
            yield f"{m['name']}: its line occurs {count} times in {m['file']}; expected once"
        if m["line"] == m["becomes"]:
            yield f"{m['name']}: changes nothing"


def copy_tree(to):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=SOURCE, check=True,
                            capture_output=True, text=True).stdout.split("\n")
    for name in filter(None, listed):
        source, target = SOURCE / name, to / name
        if not source.is_file() or (target.exists() and target.read_bytes() == source.read_bytes()):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)  # with a new time: a run that was broken off leaves objects of a fault


def build(tree):
    done = subprocess.run(["cmake", "--build", tree / "build", "--target", "flashtile_core_test"],
                          capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout[-2000:]


def first_failure(tree, tests):
    """The first test that fails, crashes or hangs; None when all pass."""
    command = [tree / "build" / "flashtile_core_test", f"--gtest_filter={tests}", "--gtest_fail_fast"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, errors="replace",
                              env={**os.environ, "FLASHTILE_TEST_GRID": "small"})
    except subprocess.TimeoutExpired:
        return "a test that hangs"
    if done.returncode == 0:
        return None if re.search(r"\[  PASSED  \] [1-9]", done.stdout) else "no test ran"
    failed = re.findall(r"\[  FAILED  \] (\S+?),? ", done.stdout + " ")
    running = re.findall(r"\[ RUN      \] (\S+)", done.stdout)
    return failed[0] if failed else (running[-1] if running else "start") + " (crash)"


def judge(tree, mutant):
    file = tree / mutant["file"]
    original = file.read_text()
    file.write_text(original.replace(mutant["line"], mutant["becomes"]))
    try:
        if error := build(tree):
            return "does not compile: " + error
        for tests in [mutant["filter"]] * ("filter" in mutant) + ["*"]:
            if killer := first_failure(tree, tests):
                return "killed by " + killer
        return "survived"
    finally:
        file.write_text(original)


def write_report(path, mutants, results):
    killed = sum(results.get(m["name"], "").startswith("killed") for m in mutants)
    with open(path, "w") as out:
        out.write("# Mutants\n\nOne-line faults kept as data (`tests/mutants/mutants.toml`). `cmake --build --preset ci "
                  "--target mutants` applies each\nto a copy of the tree and runs the core tests on the reduced grid. "
                  f"Printed by that target: {killed} of {len(mutants)} killed.\n\n"
                  "| fault | what it breaks | result |\n|---|---|---|\n")
        for m in mutants:
            out.write(f"| {m['name']} (`{m['file']}`) | {m['why']} | {results.get(m['name'], 'not run')} |\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only")
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    mutants = load()
    if wrong := list(misfits(mutants)):
        sys.exit("\n".join(wrong))
    if args.check:
        return print(f"{len(mutants)} faults fit the tree")

    work = args.work or pathlib.Path(tempfile.mkdtemp(prefix="mutants-"))
    tree, kept = work / "tree", work / "results.json"
    copy_tree(tree)
    subprocess.run(["cmake", "-S", tree, "-B", tree / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-DFLASHTILE_CLI=OFF"], check=True, capture_output=True)
    if error := build(tree):
        sys.exit("the tree itself does not compile: " + error)
    results = json.loads(kept.read_text()) if kept.exists() else {}
    if not results and (failure := first_failure(tree, "*")):
        sys.exit(f"the tree itself fails {failure}")
    for m in mutants:
        if (args.only and m["name"] != args.only) or results.get(m["name"], "").startswith("killed"):
            continue
        results[m["name"]] = judge(tree, m)
        print(f"{m['name']}: {results[m['name']]}", flush=True)
        kept.write_text(json.dumps(results, indent=1))
        if args.report:
            write_report(args.report, mutants, results)
    chosen = [m for m in mutants if not args.only or m["name"] == args.only]
    alive = [m["name"] for m in chosen if not results[m["name"]].startswith("killed")]
    sys.exit(f"not killed: {', '.join(alive)}" if alive else 0)


main()
