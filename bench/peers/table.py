"""What was measured, as Markdown, CSV or JSON."""

import csv
import json
import math
import sys
from collections import Counter
from dataclasses import dataclass, field
from statistics import median

from works import Work


@dataclass
class Result:
    """Of one contestant on one work."""

    contestant: str
    seconds: list[float] = field(default_factory=list)  # of a call, one number a round; empty: not timed
    error: float = math.nan                             # relative rms, against fp64
    reason: str = ""                                    # why it was not timed

    @property
    def best(self) -> float:
        return min(self.seconds)


@dataclass
class Row:
    work: Work
    peers: list[Result]
    ours: Result

    @property
    def fastest_peer(self) -> Result | None:
        return min((p for p in self.peers if p.seconds), key=lambda p: p.best, default=None)


@dataclass
class Setting:
    """What the table says of itself."""

    cpu: str
    threads: int
    isas: list[str]
    versions: list[str]
    missing: list[str]       # peers that are not in this environment
    environment: list[str]   # variables that change how threads wait
    call_nanoseconds: float  # of a call of ours that does nothing
    load: float              # average of the machine's last minute, before


def three_digits(x: float) -> str:
    """167, 16.7, 1.67, 0.05."""
    rounded = float(f"{x:.3g}")  # 99.97 is 100
    return f"{rounded:.{max(0, min(2, 2 - math.floor(math.log10(rounded))))}f}" if x > 0 else "0"


def time_text(seconds: float) -> str:
    for unit, size in (("s", 1), ("ms", 1e-3)):
        if seconds >= size:
            return f"{three_digits(seconds / size)} {unit}"
    return f"{three_digits(seconds / 1e-6)} µs"


def cell(work: Work, result: Result) -> str:
    return f"{time_text(result.best)}, {three_digits(work.flops / result.best / 1e9)}" if result.seconds else "–"


def ratio(row: Row) -> str:
    fastest = row.fastest_peer
    return f"{fastest.best / row.ours.best:.2f} × {fastest.contestant}" if fastest else "–"


def error_text(result: Result) -> str:
    """4.1e-7."""
    if math.isnan(result.error):
        return "–"
    return f"{result.error:.1e}".replace("e-0", "e-") if result.error else "0"


def print_markdown(rows: list[Row], setting: Setting) -> None:
    names = [p.contestant for p in rows[0].peers] + [rows[0].ours.contestant]
    heading = ["work (B×S×H×D)", *names, "speed of ours", "relative rms errors, same order"]
    print(f"| {' | '.join(heading)} |\n|---|{'--:|' * len(names)}---|---|")
    for row in rows:
        results = [*row.peers, row.ours]
        cells = [row.work.name, *(cell(row.work, r) for r in results), ratio(row), ", ".join(map(error_text, results))]
        print(f"| {' | '.join(cells)} |")
    print(f"\n{setting.cpu}, {setting.threads} threads, {' and '.join(setting.isas)}; {', '.join(setting.versions)}.")
    print("Best time of a call and GFLOP/s on visible pairs; speed: time of the fastest peer by ours, measured in turns.")
    print(f"All are called from Python; a call of ours that does nothing takes {setting.call_nanoseconds:.0f} ns of the "
          "times above.")
    print(f"The machine's load average before: {setting.load:.1f}.")
    if setting.environment:
        print(f"Set for these runs: {', '.join(setting.environment)}.")
    if setting.missing:
        print(f"Not found: {', '.join(setting.missing)}.")
    reasons = Counter((r.contestant, r.reason) for row in rows for r in row.peers if r.reason)
    for (name, reason), works in reasons.items():
        print(f"No time (–): {name}, {works} of {len(rows)} works: {reason}.")


def records(rows: list[Row]) -> list[dict]:
    """One for each work and contestant."""
    return [{
        "work": row.work.name, "contestant": r.contestant, "rounds": len(r.seconds),
        "seconds_best": r.best if r.seconds else None, "seconds_median": median(r.seconds) if r.seconds else None,
        "gflops": row.work.flops / r.best / 1e9 if r.seconds else None, "visible_pairs": row.work.visible_pairs,
        "relative_rms_error": None if math.isnan(r.error) else r.error, "reason": r.reason,
    } for row in rows for r in (*row.peers, row.ours)]


def print_csv(rows: list[Row]) -> None:
    all_records = records(rows)
    writer = csv.DictWriter(sys.stdout, all_records[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(all_records)


def print_rows(rows: list[Row], setting: Setting, output: str) -> None:
    """output: md, csv or json. rows is not empty."""
    if output == "json":
        print(json.dumps({**vars(setting), "measurements": records(rows)}, indent=2, ensure_ascii=False))
    elif output == "csv":
        print_csv(rows)
    else:
        print_markdown(rows, setting)
