#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""gin_info_json.py FILE RANKS HOSTS [HOSTID] - is this gin_info's JSON of that many ranks, 0: of none?"""
import json
import platform
import sys

document = json.load(open(sys.argv[1]))
ranks, hosts = int(sys.argv[2]), int(sys.argv[3])
every = list(range(max(ranks, 1)))


def whole(groups, name):
    """Each rank is in one group, and all groups differ."""
    seen = [rank for group in groups for rank in group["ranks"]]
    assert sorted(seen) == every, (name, seen)
    facts = [{k: v for k, v in g.items() if k != "ranks"} for g in groups]
    assert name == "hosts" or all(a != b for i, a in enumerate(facts) for b in facts[:i]), name


assert document["ok"] == (ranks > 0)
assert (document["error"] is None) == (ranks > 0)
assert document["nRanks"] == (ranks or None)
for variable in document["environment"]:
    whole(variable["values"], variable["name"])
    for value in variable["values"]:
        assert value["isSet"] or value["value"] == variable["default"], variable
        if "|" in variable["choices"] and not value["isBad"]:
            assert value["value"] in variable["choices"].split("|"), variable
names = [variable["name"] for variable in document["environment"]]
assert names == sorted(names) and "GIN_TIMEOUT" in names
if len(sys.argv) > 4:  # --env, with a value that is not text
    value = document["environment"][names.index("GIN_HOSTID")]["values"][0]["value"]
    assert value == sys.argv[4].encode(errors="surrogateescape").decode("latin-1"), value
    assert set(document) == {"ok", "error", "nRanks", "environment"}
    sys.exit(0)

for name in ["libgin", "hosts", "launcher", "system", "gpus", "nics"]:
    whole(document[name], name)
assert len(document["hosts"]) == hosts
assert all(host["name"] == platform.node() for host in document["hosts"])
for group in document["system"]:
    assert platform.release() in group["kernel"] and group["openFiles"] > 0
for group in document["gpus"]:
    assert len(group["devices"]) == group["count"] and (group["count"] > 0) == (not group["why"])
for group in document["nics"]:
    for port in group["ports"]:
        assert (port["gdaki"] is None) == (port["gdakiWhy"] is None) and (port["rdma"] or not port["gdaki"])
    assert bool(group["why"]) == (not any(port["rdma"] for port in group["ports"]))
assert ("routes" in document) == ("backends" in document) == (ranks > 0)
if ranks:
    whole(document["devices"], "devices")
    home = {rank: i for i, host in enumerate(document["hosts"]) for rank in host["ranks"]}
    route = document["environment"][names.index("GIN_ROUTE")]["values"]
    network = {rank for value in route if value["value"] == "network" for rank in value["ranks"]}
    matrix, reasons = document["routes"]["matrix"], document["routes"]["reasons"]
    assert len(matrix) == ranks
    for a, row in enumerate(matrix):
        assert len(row) == ranks
        for b, index in enumerate(row):
            due = "proxy" if {a, b} & network else "direct"
            due = due if home[a] == home[b] else "none"
            assert reasons[index]["backend"] == due, (a, b, reasons[index])
            assert reasons[index]["why"]
