/* SPDX-License-Identifier: BSD-3-Clause */
/* gin_trace.c - merges the files of GIN_TRACE of all ranks: a summary, and a picture */
#include "gin_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"usage: gin_trace [--summary] [--json FILE] TRACE...\n"
	"\n"
	"Reads the files that GIN_TRACE has named, of all ranks.\n"
	"\n"
	"  --summary    print bytes by pair and route, waits by rank, the slowest rank, and waits\n"
	"               that have not ended; without --json the default\n"
	"  --json FILE  write the calls for ui.perfetto.dev or chrome://tracing; -: to standard\n"
	"               output\n"
	"  -h, --help   print this text\n"
	"  --version    print the version\n";

const char *traceCall(uint32_t call)
{
	static const char *const names[] = {
		"?",	       "put",	       "putValue",    "signal",	       "waitSignal",
		"get",	       "atomic",       "waitCounter", "barrier",       "flush",
		"waitValue",   "send",	       "receive",     "readSignal",    "resetSignal",
		"readCounter", "resetCounter", "readValue",   "increaseShadow"};

	static const char *const ofEp[] = {"ep dispatch", "ep combine", "ep notify", "ep credit"};

	if (traceIsEp(call))
		return ofEp[call - ginCallEpDispatch];
	return call < sizeof(names) / sizeof(*names) ? names[call] : "?";
}

int traceIsEp(uint32_t call)
{
	return call >= ginCallEpDispatch && call <= ginCallEpCredit;
}

const char *traceRoute(uint32_t route)
{
	static const char *const names[] = {"-", "direct", "proxy", "gdaki"};

	return route < 4 ? names[route] : "?";
}

static int run(struct trace *t, int summary, const char *json)
{
	if (traceAlign(t) || (json && traceJson(t, json)))
		return 1;
	return summary && traceSummary(t) ? 1 : 0;
}

int main(int count, char **arguments)
{
	struct trace t = {0};
	const char *json = NULL;
	int summary = 0, files = 0, wrong = 0;

	for (int i = 1; i < count && !wrong; i++) {
		const char *a = arguments[i];
		if (!strcmp(a, "-h") || !strcmp(a, "--help")) {
			printf("%s", usage);
			return 0;
		} else if (!strcmp(a, "--version")) {
			printf("gin_trace %d.%d.%d\n", GIN_VERSION_MAJOR, GIN_VERSION_MINOR,
			       GIN_VERSION_PATCH);
			return 0;
		} else if (!strcmp(a, "--summary")) {
			summary = 1;
		} else if (!strcmp(a, "--json") && i + 1 < count) {
			json = arguments[++i];
		} else if (*a == '-') {
			wrong = 1;
		} else {
			files++;
			if (traceRead(&t, a))
				return 1;
		}
	}
	if (wrong || !files) {
		fprintf(stderr, "%s", usage);
		return 2;
	}
	int result = run(&t, summary || !json, json);
	free(t.sources);
	free(t.events);
	free(t.hosts);
	return result;
}
