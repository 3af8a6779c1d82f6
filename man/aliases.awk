#!/usr/bin/awk -f
# SPDX-License-Identifier: BSD-3-Clause
#
# aliases.awk - the pages that only refer to another page
#
#	awk -f man/aliases.awk man/man?/*
#
# For each name in the NAME section of a page, other than the page's own name, prints
# "ALIAS PAGE", for example "man3/gin_putFrom.3 man3/gin_put.3".

FNR == 1 {
	count = split(FILENAME, part, "/")
	folder = part[count - 1] "/"
	page = part[count]
	section = page
	sub(/.*\./, ".", section)
}
/^\.Sh/ { inName = ($2 == "NAME") }
inName && $1 == ".Nm" && $2 section != page { print folder $2 section, folder page }
