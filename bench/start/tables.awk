#!/usr/bin/awk -f
# SPDX-License-Identifier: BSD-3-Clause
#
# tables.awk - from raw results to tables
#
#	WAY RANKS REPETITION time PHASE MICROSECONDS
#	WAY RANKS REPETITION use POINT root|other RESIDENT PROPORTIONAL DESCRIPTORS THREADS

function remember(row)
{
	if (!(row in seen)) {
		seen[row] = 1
		rows[++count] = row
	}
}

function add(key, value)
{
	values[key] = values[key] " " value
}

# Sorts what was added under `key` into sorted[1..n] and returns n.
function sort(key,    i, j, n, x)
{
	n = split(values[key], sorted, " ")
	for (i = 2; i <= n; i++) {
		x = sorted[i] + 0
		for (j = i - 1; j && sorted[j] + 0 > x; j--)
			sorted[j + 1] = sorted[j]
		sorted[j + 1] = x
	}
	return n
}

function middle(n)
{
	return n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2
}

function round(x)
{
	return sprintf(x < 10 ? "%.2f" : x < 100 ? "%.1f" : "%.0f", x)
}

# Median, least and most in milliseconds.
function times(row, phase,    n)
{
	n = sort(row SUBSEP phase)
	return n ? round(middle(n) / 1e3) " (" round(sorted[1] / 1e3) "-" round(sorted[n] / 1e3) ")" : "-"
}

# Medians of the four numbers of a point.
function use(row, point, who,    i, n, text)
{
	for (i = 1; i <= 4; i++) {
		n = sort(row SUBSEP point SUBSEP who SUBSEP i)
		text = text (i > 1 ? " / " : "") (n ? sprintf("%.0f", middle(n)) : "-")
	}
	return text
}

# Of the first phase to that of PMIx alone, job by job.
function ratio(way, ranks,    n, r)
{
	for (r in jobs)
		if ((way, ranks, r) in first && (way "-alone", ranks, r) in first)
			add("ratio" SUBSEP way SUBSEP ranks, first[way, ranks, r] / first[way "-alone", ranks, r])
	n = sort("ratio" SUBSEP way SUBSEP ranks)
	return n ? sprintf("%.2f", middle(n)) : "-"
}

{ remember($1 SUBSEP $2) }

$4 == "time" {
	add($1 SUBSEP $2 SUBSEP $5, $6)
	jobs[$3] = 1
	if ($5 == "first")
		first[$1, $2, $3] = $6
}

$4 == "use" {
	for (i = 1; i <= 4; i++)
		add($1 SUBSEP $2 SUBSEP $5 SUBSEP $6 SUBSEP i, $(6 + i))
}

function label(way)
{
	return way == "pmix" ? "PMIx" : way == "gpu" ? "PMIx, a GPU each" : \
	       way == "id" ? "unique id" : "`GIN_ROOT`"
}

function timeTable(    i, part)
{
	print "\n## Time\n"
	print "Milliseconds from the moment that all ranks are ready until the slowest is done: median" \
	      " (least-most). PMIx\nalone is `PMIx_Init`, a put and commit of 512 bytes, a collecting" \
	      " fence and a get from every rank; libgin's first\ncommunicator has the loading of" \
	      " libgin-pmix.so in it, and the ratio is that of the two. With a GPU each rank has\na CUDA" \
	      " context before. Free: both device communicators and the window.\n"
	print "| start | ranks | PMIx alone | first comm | ratio | second comm | split | window 1 MiB |" \
	      " devcomm | 64 contexts | free | destroy |"
	print "|---|---|---|---|---|---|---|---|---|---|---|---|"
	for (i = 1; i <= count; i++) {
		split(rows[i], part, SUBSEP)
		if (part[1] ~ /-alone$/)
			continue
		print "| " label(part[1]) " | " part[2] " | " \
		      times(part[1] "-alone" SUBSEP part[2], "first") " | " times(rows[i], "first") " | " \
		      ratio(part[1], part[2]) " | " times(rows[i], "second") " | " times(rows[i], "split") " | " \
		      times(rows[i], "window") " | " times(rows[i], "devcomm") " | " times(rows[i], "contexts") " | " \
		      times(rows[i], "free") " | " times(rows[i], "destroy") " |"
	}
}

function useTable(    i, part)
{
	print "\n## What a rank holds\n"
	print "What is added: resident memory / proportional share of it (KiB) / file descriptors / threads," \
	      " of rank 0 and the\nmost of the other ranks; medians.\n"
	print "| start | ranks | PMIx alone | first comm, rank 0 | others | second comm, rank 0 | others |" \
	      " window, others | devcomm, others |"
	print "|---|---|---|---|---|---|---|---|---|"
	for (i = 1; i <= count; i++) {
		split(rows[i], part, SUBSEP)
		if (part[1] ~ /-alone$/)
			continue
		print "| " label(part[1]) " | " part[2] " | " \
		      use(part[1] "-alone" SUBSEP part[2], "first", "other") " | " use(rows[i], "first", "root") " | " \
		      use(rows[i], "first", "other") " | " use(rows[i], "second", "root") " | " \
		      use(rows[i], "second", "other") " | " use(rows[i], "window", "other") " | " \
		      use(rows[i], "devcomm", "other") " |"
	}
}

END {
	timeTable()
	useTable()
}
