/* SPDX-License-Identifier: BSD-3-Clause */
/* report.c - merges the trees of all ranks into the tree of the report, and prints it */
#include "gin_info.h"

#include <stdlib.h>
#include <string.h>

enum { MATRIX_MOST = 32, LINES_MOST = 12 };

/* The ranks of a group, on one line of JSON. */
static void addRanks(FILE *t, const struct report *report, const int *of, int first)
{
	const char *gap = "[";

	nodeStart(t, nodeLiteral, "", "ranks");
	for (int r = 0; r < report->n; r++)
		if (of[r] == first) {
			fprintf(t, "%s%d", gap, r);
			gap = ", ";
		}
	fputc(']', t);
	nodeEnd(t);
}

/*
 * An array with one object for each group of ranks that have equal sections. With a heading, the
 * text has a paragraph for each group.
 */
static void groups(FILE *t, const struct report *report, const char *heading, const char *key,
		   int section)
{
	int *of = reportGroups(report, section), count = 0;
	char words[320];

	for (int r = 0; of && r < report->n; r++)
		count += of[r] == r;
	if (*heading)
		add(t, nodeHeading, "", "", "\n%s", heading);
	bracket(t, nodeArray, key);
	for (int r = 0; of && r < report->n; r++) {
		const char *nodes = sectionOf(report, r, section);
		if (of[r] != r)
			continue;
		bracket(t, nodeObject, "");
		addRanks(t, report, of, r);
		if (*heading && count > 1)
			add(t, nodeGroup, "", "", "%s",
			    groupText(report, of, r, words, sizeof(words)));
		fwrite(nodes, 1, (size_t)(nodesEnd(nodes) - nodes), t);
		bracket(t, nodeObjectEnd, "");
	}
	bracket(t, nodeArrayEnd, "");
	free(of);
}

/* One line for each group of ranks with equal sections: their words, and the ranks. */
static void groupLines(FILE *t, const struct report *report, const char *label, int section)
{
	int *of = reportGroups(report, section), lines = 0;
	char words[160];

	for (int r = 0; of && r < report->n; r++)
		if (of[r] == r && lines++ < LINES_MOST)
			addLine(t, lines > 1 ? " " : label, "%s: %s",
				nodeFind(sectionOf(report, r, section), "words"),
				groupRanks(report, of, r, words, sizeof(words)));
	if (lines > LINES_MOST)
		addLine(t, " ", "and %d more: gin_info --json has all", lines - LINES_MOST);
	free(of);
}

static void communicator(FILE *t, const struct report *report)
{
	add(t, nodeHeading, "", "", "communicator");
	addFlag(t, "ok", !report->error);
	addOptional(t, report->error ? "none" : "", "error", report->error ? report->error : "");
	addNumber(t, "nRanks", !report->error, (uint64_t)report->n);
	if (report->error) {
		addLine(t, "host", "%s", nodeFind(sectionOf(report, 0, sectionHost), "words"));
		return;
	}
	addLine(t, "ranks", "%d on %d host%s", report->n, report->hosts,
		report->hosts > 1 ? "s" : "");
	groupLines(t, report, "hosts", sectionHost);
	groupLines(t, report, "devices", sectionDevice);
}

/* A line of the text: the first letter of each backend. */
static void addLetters(FILE *t, const struct report *report, int from)
{
	nodeStart(t, nodeRaw, "", "");
	fprintf(t, "  %7d", from);
	for (int to = 0; to < report->n; to++) {
		const char *backend = report->reasons[*routeAt(report, from, to)].backend;
		fprintf(t, "  %c", strcmp(backend, "none") ? *backend : '.');
	}
	fputc('\n', t);
	nodeEnd(t);
}

/* The routes of all pairs of ranks. Prints row by row, since there may be many. */
static void matrix(struct tree *tree, const struct report *report, int asJson)
{
	int isShown = report->n > 1 && report->n <= MATRIX_MOST;

	bracket(tree->out, nodeArray, "matrix");
	nodeStart(tree->out, nodeRaw, "", "");
	fputs(isShown ? "  from\\to" : "", tree->out);
	for (int to = 0; isShown && to < report->n; to++)
		fprintf(tree->out, " %2d%s", to, to + 1 < report->n ? "" : "\n");
	nodeEnd(tree->out);
	for (int from = 0; from < report->n; from++) {
		nodeStart(tree->out, nodeLiteral, "", "");
		for (int to = 0; to < report->n; to++)
			fprintf(tree->out, "%s%d", to ? ", " : "[", *routeAt(report, from, to));
		fputc(']', tree->out);
		nodeEnd(tree->out);
		if (isShown)
			addLetters(tree->out, report, from);
		treePrint(tree, asJson);
	}
	if (isShown)
		add(tree->out, nodeRaw, "", "", "  %s\n",
		    "letter: first letter of the backend; dot: no route");
	bracket(tree->out, nodeArrayEnd, "");
}

/* Lines with the reasons of pairs with a route or, with `none`, of pairs without a route. */
static void reasonLines(FILE *t, const struct report *report, int none)
{
	int lines = 0;

	for (int i = 0; i < report->reasonCount; i++) {
		const struct routeReason *reason = &report->reasons[i];
		if (none != !strcmp(reason->backend, "none") || lines++ >= LINES_MOST)
			continue;
		nodeStart(t, nodeLine, none ? "no route" : reason->backend, "");
		fprintf(t, "%s: ", reason->why);
		pairsText(report, i, t);
		nodeEnd(t);
	}
	if (lines > LINES_MOST)
		addLine(t, " ", "and %d more reasons: gin_info --json has all", lines - LINES_MOST);
}

static void routes(struct tree *tree, const struct report *report, int asJson)
{
	FILE *t = tree->out;

	add(t, nodeHeading, "", "", "\nroutes");
	bracket(t, nodeObject, "routes");
	bracket(t, nodeArray, "reasons");
	for (int i = 0; i < report->reasonCount; i++) {
		bracket(t, nodeObject, "");
		addString(t, "", "backend", report->reasons[i].backend);
		addString(t, "", "why", report->reasons[i].why);
		bracket(t, nodeObjectEnd, "");
	}
	bracket(t, nodeArrayEnd, "");
	matrix(tree, report, asJson);
	t = tree->out;
	reasonLines(t, report, 0);
	reasonLines(t, report, 1);
	bracket(t, nodeObjectEnd, "");
}

/* "*" if the variable is set on the rank. */
static const char *starOf(const struct report *report, int rank, int section)
{
	return *nodeFind(sectionOf(report, rank, section), "isSet") == 't' ? "*" : " ";
}

/* Adds a row for each group of ranks with equal values. */
static void differing(FILE *t, const struct report *report, int section, const int *of)
{
	char words[320];

	for (int r = 0; r < report->n; r++) {
		if (of[r] != r)
			continue;
		addLine(t, " ", "%s", starOf(report, r, section));
		addLine(t, "name", " ");
		addLine(t, "value", "%s", nodeFind(sectionOf(report, r, section), "value"));
		addLine(t, "default", " ");
		addLine(t, "meaning", "%s", groupText(report, of, r, words, sizeof(words)));
	}
}

static void variable(FILE *t, const struct report *report, int index)
{
	int section = sectionParams + index, differs = 0;
	const char *first = sectionOf(report, 0, section);
	int *of = reportGroups(report, section);
	ginParamInfo_t row = paramRow(index);
	int choices = strchr(row.choices, '|') != NULL;

	for (int r = 0; of && r < report->n; r++)
		differs |= of[r] != 0;
	bracket(t, nodeObject, "");
	addLine(t, " ", "%s", differs ? " " : starOf(report, 0, section));
	addString(t, "name", "name", row.name);
	addString(t, "", "choices", row.choices);
	addLine(t, "value", "%s", differs ? "(differs)" : nodeFind(first, "value"));
	addString(t, "default", "default", row.preset);
	addString(t, "", "meaning", row.meaning);
	addLine(t, "meaning", "%s%s%s%s%s", *nodeFind(first, "isBad") == 't' ? "BAD VALUE; " : "",
		row.meaning, choices ? " (" : "", choices ? row.choices : "", choices ? ")" : "");
	if (differs)
		differing(t, report, section, of);
	groups(t, report, "", "values", section);
	bracket(t, nodeObjectEnd, "");
	free(of);
}

void reportPrint(const struct report *report, int onlyEnv, int asJson)
{
	struct tree tree;

	treeOpen(&tree);
	bracket(tree.out, nodeObject, "");
	communicator(tree.out, report);
	if (!onlyEnv) {
		groups(tree.out, report, "libgin", "libgin", sectionLibgin);
		groups(tree.out, report, "", "hosts", sectionHost);
		groups(tree.out, report, "launcher", "launcher", sectionLauncher);
		groups(tree.out, report, "host", "system", sectionSystem);
		groups(tree.out, report, "GPUs", "gpus", sectionGpus);
		groups(tree.out, report, "NICs", "nics", sectionNics);
	}
	if (!onlyEnv && report->matrix) {
		groups(tree.out, report, "", "devices", sectionDevice);
		groups(tree.out, report, "backends", "backends", sectionBackends);
		routes(&tree, report, asJson);
	}
	add(tree.out, nodeHeading, "", "",
	    "\nenvironment variables (* is set; see gin_environ(7))");
	bracket(tree.out, nodeArray, "environment");
	bracket(tree.out, nodeTable, "");
	for (int i = 0; sectionParams + i < report->sections; i++)
		variable(tree.out, report, i);
	bracket(tree.out, nodeTableEnd, "");
	bracket(tree.out, nodeArrayEnd, "");
	bracket(tree.out, nodeObjectEnd, "");
	treePrint(&tree, asJson);
	treeFree(&tree);
}
