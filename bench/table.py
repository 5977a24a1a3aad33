# SPDX-License-Identifier: Apache-2.0
"""Figures as they are collected, and the table made of them."""
import datetime
import json
import os
import platform


def quantile(values, q):
    v = sorted(values)
    return v[min(len(v) - 1, int(len(v) * q))]


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat", "rb") as f:
        fields = f.read().rpartition(b")")[2].split()
    return int(fields[11]) + int(fields[12])


class Table:
    def __init__(self):
        self.rows = []
        self.raw = {}  # every single measurement, by workload
        self.absent = {}  # peer: why
        self.notes = []

    def row(self, what, who, value, unit, base=None, against="", budget=""):
        """value: a list, of which the first counts; base: what it is divided by for the ratio."""
        self.rows.append({"what": what, "who": who, "value": value, "unit": unit, "ratio": value[0] / base if base else None, "against": against, "budget": budget})

    def times(self, what, times, base, budget):
        """times: {who: [seconds]}, fastest first; the budget is of what is ours."""
        self.raw[what] = times
        base_value = quantile(times[base], 0.5) if base in times else None
        for n, v in sorted(times.items(), key=lambda x: quantile(x[1], 0.5)):
            self.row(what, n, [quantile(v, q) * 1e3 for q in (0.5, 0.95, 0.99)], "ms", base_value and base_value * 1e3, base, budget if n.startswith("skep") else "")

    def rates(self, what, rates, unit, scale, base, budget):
        """rates: {who: [units a second]}, fastest first."""
        self.raw[what] = rates
        base_value = quantile(rates[base], 0.5) / scale if base in rates else None
        for n, v in sorted(rates.items(), key=lambda x: -quantile(x[1], 0.5)):
            self.row(what, n, [quantile(v, 0.5) / scale, min(v) / scale], f"{unit} (p50, least)", base_value, base, budget if n.startswith("skep") else "")

    def markdown(self):
        who = "root" if os.getuid() == 0 else "an ordinary user"
        out = ["# Benchmarks", "", f"`make bench` on {datetime.date.today()}, Linux {platform.release().split('-')[0]}, {os.cpu_count()} cores, as {who}. Times are p50 / p95 / p99;", "the ratio is between medians of the same run, in which the contenders took turns.", ""]
        last = None
        for r in self.rows:
            if r["what"] != last:
                out += ["", f"**{r['what']}**", "", "| | " + r["unit"] + " | ratio | budget |", "|---|---|---|---|"]
                last = r["what"]
            value = " / ".join(f"{v:.2f}" if v < 100 else f"{v:.0f}" for v in r["value"])
            ratio = f"{r['ratio']:.2f} × {r['against']}" if r["ratio"] else ""
            out.append(f"| {r['who']} | {value} | {ratio} | {r['budget']} |")
        out += ["", "Peers not in the table: " + ("; ".join(f"{n} ({why})" for n, why in self.absent.items()) or "none") + "."]
        out += [f"\n{n}." for n in self.notes]
        return "\n".join(out) + "\n"

    def save(self, path):
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"raw": self.raw, "rows": self.rows, "absent": self.absent}, f, indent=1)
