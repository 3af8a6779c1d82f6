#!/usr/bin/awk -f
# SPDX-License-Identifier: BSD-3-Clause
#
# example.awk - print the example of a manual page
#
#	awk -f man/example.awk man/man3/ginCommInit.3 >x.c && cc -fsyntax-only -Iinclude x.c
#
# Prints the first .Bd -literal block of the EXAMPLES section with its mdoc escapes undone. Exits
# with 1 when the page has none.

function plain(text,    out, at, escape) {
	while ((at = index(text, "\\"))) {
		out = out substr(text, 1, at - 1)
		escape = substr(text, at + 1, 1)
		text = substr(text, at + 2)
		if (escape == "(") {
			escape = "(" substr(text, 1, 2)
			text = substr(text, 3)
		}
		out = out ((escape in meaning) ? meaning[escape] : escape)
	}
	return out text
}

BEGIN {
	meaning["e"] = "\\"
	meaning["&"] = ""
	meaning["(aq"] = "'"
	meaning["(dq"] = "\""
	meaning["(ga"] = "`"
	meaning["(ha"] = "^"
	meaning["(rs"] = "\\"
	meaning["(ti"] = "~"
}

/^\.Sh/ { inExamples = ($2 == "EXAMPLES"); next }
/^\.Ed/ && inBlock { exit }
/^\.\\"/ { next }
inBlock { print plain($0); next }
/^\.Bd -literal/ && inExamples { inBlock = found = 1 }

END { exit !found }
