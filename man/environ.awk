#!/usr/bin/awk -f
# SPDX-License-Identifier: BSD-3-Clause
#
# environ.awk - gin_environ(7) with what libgin's table says of each variable
#
#	unit_param --list | awk -f man/environ.awk - man/man7/gin_environ.7
#
# The entry of a variable begins with what the table has: name, meaning, values and default. What
# follows up to the next entry is written by hand and stays. Entries are in the table's order; a new
# variable gets one, an old one that the table lacks is dropped.

function head(row,    field, kind) {
	split(row, field, "\t")
	kind = field[2]
	if (kind == "text")
		kind = "any text"
	if (kind ~ /^number/)
		kind = "a " kind
	return ".It Ev " field[1] "\n" toupper(substr(field[4], 1, 1)) substr(field[4], 2) ".\n" \
		".br\nValues: " kind "\n.br\nDefault: " (field[3] == "" ? "none" : field[3]) "\n"
}

NR == FNR { name[++count] = $1; row[count] = $0; next }

# A list inside an entry has entries of its own.
/^\.Bl/ && entry { depth++ }
/^\.El/ && entry && depth-- == 0 {
	for (i = 1; i <= count; i++)
		printf "%s%s", head(row[i]), kept[name[i]]
	entry = ""
}
/^\.It Ev GIN_/ && !depth { entry = $3; byTable = 1; next }
entry {
	if (!byTable)
		kept[entry] = kept[entry] $0 "\n"
	if (/^Default:/)
		byTable = 0
	next
}
{ print }
