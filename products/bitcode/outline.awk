# SPDX-License-Identifier: BSD-3-Clause
#
# outline.awk - gives each inline PTX of a module in LLVM's text a function, and calls the function instead
#
# Bitcode stores the text of inline PTX in each function that uses it, a third of the file. The functions are internal
# and alwaysinline: every reader's inliner puts the PTX back, before it inlines anything else.

# The types of arguments like "i64 %0, i32 7", or "" if an argument is another kind of value
function types(arguments, parts, n, i, out)
{
	n = split(arguments, parts, ", ")
	for (i = 1; i <= n; i++) {
		if (parts[i] !~ /^(i[0-9]+|ptr)( [a-z]+)* [-%a-zA-Z0-9._]+$/)
			return ""
		sub(/ .*/, "", parts[i])
		out = out (i > 1 ? ", " : "") parts[i]
	}
	return out == "" ? "none" : out
}

# The arguments %0, %1 ... of these types
function parameters(list, parts, n, i, out)
{
	n = list == "none" ? 0 : split(list, parts, ", ")
	for (i = 1; i <= n; i++)
		out = out (i > 1 ? ", " : "") parts[i] " %a" i
	return out
}

/ call .* asm .*"\(/ {
	at = index($0, " asm ")
	head = substr($0, 1, at)
	rest = substr($0, at + 1)
	type = head
	sub(/.* call /, "", type)
	what = substr(rest, 1, index(rest, "\"("))
	rest = substr(rest, length(what) + 2)
	arguments = substr(rest, 1, index(rest, ")") - 1)
	rest = substr(rest, length(arguments) + 2)
	list = types(arguments)
	attributes = match(rest, /#[0-9]+/) ? substr(rest, RSTART, RLENGTH) : ""
	key = type what list attributes
	if (list != "") {
		if (!(key in name)) {
			name[key] = "@ginPtx" (count + 0)
			result = type == "void " ? "" : "%r = "
			body[count++] = sprintf("define internal %s%s(%s) alwaysinline %s {\n  %scall %s%s(%s) %s\n  ret %s\n}\n",
				type, name[key], parameters(list), attributes, result, type, what, parameters(list),
				attributes, type == "void " ? "void" : type "%r")
		}
		$0 = head name[key] "(" arguments ")" rest
	}
}

{ print }

END {
	for (i = 0; i < count; i++)
		print body[i]
}
