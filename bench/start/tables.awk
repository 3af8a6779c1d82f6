#!/usr/bin/awk -f
# SPDX-License-Identifier: BSD-3-Clause
#
# tables.awk - makes tables from raw results, which are lines of these two kinds:
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

# Sorts the values added under `key` into sorted[1..n]; returns n.
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

# Median, smallest and largest, in milliseconds.
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

# Median ratio of the first phase to that phase of PMIx alone, of jobs with equal repetition number.
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
	print "Milliseconds from the moment when all ranks are ready until the slowest has finished: median" \
	      " (smallest-largest).\nPMIx alone is `PMIx_Init`, a put and commit of 512 bytes, a fence that" \
	      " collects data, and a get from every rank.\nlibgin's first communicator includes loading" \
	      " libgin-pmix.so. The ratio is first comm to PMIx alone. On GPUs, each\nrank has a CUDA" \
	      " context before. Free: frees both device communicators and the window.\n"
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
	print "\n## Resources of a rank\n"
	print "What each step adds: resident memory (KiB) / proportional set size (KiB) / file descriptors /" \
	      " threads. Medians, of\nrank 0 and of the other rank that adds most.\n"
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
