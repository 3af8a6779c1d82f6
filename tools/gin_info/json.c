/* SPDX-License-Identifier: BSD-3-Clause */
/* json.c - prints the report as one JSON document; gin_info(1) describes the keys */
#include "gin_info.h"
#include "selftest.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static int depth; /* number of open objects and arrays */
static int used;  /* members that the innermost one has so far */

static void quote(const char *text)
{
	putchar('"');
	for (const unsigned char *at = (const unsigned char *)text; *at; at++)
		if (*at == '"' || *at == '\\')
			printf("\\%c", *at);
		else if (*at < 0x20 || *at >= 0x7f) /* the encoding is unknown */
			printf("\\u%04x", *at);
		else
			putchar(*at);
	putchar('"');
}

/* Starts a member. `name` is NULL in an array. */
static void begin(const char *name)
{
	printf("%s\n%*s", used++ ? "," : "", 2 * depth, "");
	if (name) {
		quote(name);
		printf(": ");
	}
}

static void text(const char *name, const char *value)
{
	begin(name);
	quote(value);
}

static void textOrNull(const char *name, const char *value)
{
	begin(name);
	if (value && *value)
		quote(value);
	else
		printf("null");
}

static void number(const char *name, uint64_t value)
{
	begin(name);
	printf("%llu", (unsigned long long)value);
}

/* Prints null for an unknown value and for no limit. */
static void numberOrNull(const char *name, int known, uint64_t value)
{
	if (known)
		number(name, value);
	else
		textOrNull(name, NULL);
}

static void flag(const char *name, int value)
{
	begin(name);
	printf(value ? "true" : "false");
}

static void openWith(const char *name, char bracket)
{
	begin(name);
	putchar(bracket);
	depth++;
	used = 0;
}

static void closeWith(char bracket)
{
	depth--;
	if (used)
		printf("\n%*s", 2 * depth, "");
	putchar(bracket);
	used = 1;
}

/* Prints the ranks of a group on one line. */
static void ranks(const struct report *report, const int *of, int first)
{
	const char *gap = "";

	begin("ranks");
	putchar('[');
	for (int r = 0; r < report->n; r++)
		if (of[r] == first) {
			printf("%s%d", gap, r);
			gap = ", ";
		}
	putchar(']');
}

/* Prints an array with one object for each group of ranks with equal facts. */
static void groups(const struct report *report, const char *name, size_t offset, size_t bytes,
		   void (*members)(const struct facts *f))
{
	int *of = reportGroups(report, offset, bytes);

	openWith(name, '[');
	for (int r = 0; of && r < report->n; r++) {
		if (of[r] != r)
			continue;
		openWith(NULL, '{');
		ranks(report, of, r);
		members(&report->facts[r]);
		closeWith('}');
	}
	closeWith(']');
	free(of);
}

static void build(const struct facts *f)
{
	text("version", f->build.version);
	text("header", f->build.header);
	number("deviceAbi", (uint64_t)f->build.abi);
	text("library", f->build.library);
	text("compiler", f->build.compiler);
	flag("pmix", f->build.pmix);
	text("pmixWhy", f->build.pmixWhy);
}

static void launcher(const struct facts *f)
{
	const struct launcherFacts *l = &f->launcher;

	text("name", l->name);
	textOrNull("bootstrap", l->bootstrap);
	textOrNull("why", l->why);
	openWith("variables", '{');
	for (int i = 0; i < VARIABLES; i++)
		if (l->isSet[i])
			text(launcherVariables[i], l->value[i]);
	closeWith('}');
}

static void systemOf(const struct facts *f)
{
	const struct systemFacts *s = &f->system;

	text("kernel", s->kernel);
	numberOrNull("cores", s->cores, (uint64_t)s->cores);
	numberOrNull("cpus", s->cpus, (uint64_t)s->cpus);
	numberOrNull("numaNodes", s->numaNodes, (uint64_t)s->numaNodes);
	numberOrNull("memoryBytes", s->memory != 0, s->memory);
	numberOrNull("memlockBytes", s->memlock != UINT64_MAX, s->memlock);
	numberOrNull("openFiles", s->files != UINT64_MAX, s->files);
	numberOrNull("openFilesHard", s->filesHard != UINT64_MAX, s->filesHard);
	number("shmBytes", s->shm);
	number("shmFreeBytes", s->shmFree);
}

static void gpu(const struct gpuFacts *g, int ordinal)
{
	openWith(NULL, '{');
	number("ordinal", (uint64_t)ordinal);
	text("name", g->name);
	begin("computeCapability");
	printf("\"%d.%d\"", g->major, g->minor);
	number("memoryBytes", g->memory);
	text("pciBusId", g->bus);
	numberOrNull("numaNode", g->numaNode >= 0, (uint64_t)g->numaNode);
	textOrNull("cpus", g->cpus);
	flag("usable", g->usable);
	textOrNull("why", g->why);
	number("domain", (uint64_t)g->domain);
	closeWith('}');
}

static void gpus(const struct facts *f)
{
	number("count", (uint64_t)f->gpus.count);
	textOrNull("why", f->gpus.why);
	numberOrNull("cudaVersion", f->gpus.driver, (uint64_t)f->gpus.driver);
	textOrNull("kernelModule", f->gpus.module);
	openWith("devices", '[');
	for (int i = 0; i < f->gpus.count && i < GPUS_MOST; i++)
		gpu(&f->gpus.gpu[i], i);
	closeWith(']');
}

static void nic(const struct nicFacts *n, int gpuCount)
{
	openWith(NULL, '{');
	text("name", n->name);
	flag("rdma", n->rdma);
	numberOrNull("port", n->rdma, (uint64_t)n->port);
	textOrNull("state", n->state);
	textOrNull("linkLayer", n->link);
	textOrNull("rate", n->rate);
	numberOrNull("numaNode", n->numaNode >= 0, (uint64_t)n->numaNode);
	if (*n->gdakiWhy)
		flag("gdaki", n->gdaki);
	else
		textOrNull("gdaki", "");
	textOrNull("gdakiWhy", n->gdakiWhy);
	openWith("gpus", '[');
	for (int g = 0; g < gpuCount && g < GPUS_MOST; g++)
		text(NULL, distanceWords(n->distance[g]));
	closeWith(']');
	closeWith('}');
}

static void nics(const struct facts *f)
{
	textOrNull("why", f->nics.why);
	openWith("ports", '[');
	for (int i = 0; i < f->nics.count; i++)
		nic(&f->nics.nic[i], f->gpus.count);
	closeWith(']');
	textOrNull("gdakiWhy", f->nics.gdakiWhy);
	textOrNull("gpuMemory", f->nics.gpuMemory);
	textOrNull("doorbells", f->nics.doorbell);
}

static void backends(const struct facts *f)
{
	openWith("backends", '[');
	for (int i = 0; i < f->backends.count; i++) {
		openWith(NULL, '{');
		text("name", f->backends.backend[i].name);
		flag("usable", f->backends.backend[i].usable);
		textOrNull("why", f->backends.backend[i].why);
		closeWith('}');
	}
	closeWith(']');
}

static void host(const struct facts *f)
{
	text("name", f->host.name);
}

static void device(const struct facts *f)
{
	numberOrNull("ordinal", f->device.ordinal >= 0, (uint64_t)f->device.ordinal);
	text("name", f->device.name);
}

static void routes(const struct report *report)
{
	openWith("routes", '{');
	openWith("reasons", '[');
	for (int i = 0; i < report->reasonCount; i++) {
		openWith(NULL, '{');
		text("backend", report->reasons[i].backend);
		text("why", report->reasons[i].why);
		closeWith('}');
	}
	closeWith(']');
	openWith("matrix", '[');
	for (int from = 0; from < report->n; from++) {
		begin(NULL);
		for (int to = 0; to < report->n; to++)
			printf("%s%d", to ? ", " : "[", *routeAt(report, from, to));
		putchar(']');
	}
	closeWith(']');
	closeWith('}');
}

static int printed; /* index of the environment variable that paramValue() prints */

static void paramValue(const struct facts *f)
{
	text("value", f->params.param[printed].value);
	flag("isSet", f->params.param[printed].isSet);
	flag("isBad", f->params.param[printed].isBad);
}

static void environment(const struct report *report)
{
	openWith("environment", '[');
	for (printed = 0; printed < report->facts[0].params.count; printed++) {
		ginParamInfo_t row = paramRow(printed);
		openWith(NULL, '{');
		text("name", row.name);
		text("choices", row.choices);
		text("default", row.preset);
		text("meaning", row.meaning);
		groups(report, "values", offsetof(struct facts, params.param[printed]),
		       sizeof(struct paramFacts), paramValue);
		closeWith('}');
	}
	closeWith(']');
}

#define GROUPS(name, section, members)                                                             \
	groups(report, name, offsetof(struct facts, section),                                      \
	       sizeof(((struct facts *)0)->section), members)

static void sections(const struct report *report)
{
	GROUPS("libgin", build, build);
	GROUPS("hosts", host, host);
	GROUPS("launcher", launcher, launcher);
	groups(report, "system", offsetof(struct facts, system),
	       offsetof(struct systemFacts, shmFree), systemOf);
	GROUPS("gpus", gpus, gpus);
	GROUPS("nics", nics, nics);
	if (report->matrix) {
		GROUPS("devices", device, device);
		GROUPS("backends", backends, backends);
		routes(report);
	}
}

void printJson(const struct report *report, int onlyEnv)
{
	depth = 1;
	used = 0;
	putchar('{');
	flag("ok", !report->error);
	textOrNull("error", report->error);
	numberOrNull("nRanks", !report->error, (uint64_t)report->n);
	if (!onlyEnv)
		sections(report);
	environment(report);
	printf("\n}\n");
}

/* One line for each rank: the values to all ranks, null for pairs that do not answer. */
static void matrixOf(const char *name, const struct selftestReport *report,
		     const struct selftestResult *result,
		     double (*value)(const struct selftestCell *))
{
	openWith(name, '[');
	for (int from = 0; from < report->nRanks; from++) {
		begin(NULL);
		putchar('[');
		for (int to = 0; to < report->nRanks; to++) {
			const struct selftestCell *cell =
				&result->cells[from * report->nRanks + to];
			printf("%s", to ? ", " : "");
			if (cell->state == selftestGood)
				printf("%.3f", value(cell));
			else
				printf("null");
		}
		putchar(']');
	}
	closeWith(']');
}

static double microseconds(const struct selftestCell *cell)
{
	return cell->latencyNs / 1e3;
}

static double gigabytes(const struct selftestCell *cell)
{
	return cell->mbPerS / 1e3;
}

static void faultsOf(const struct selftestReport *report, const struct selftestResult *result)
{
	openWith("faults", '[');
	for (long i = 0; result->cells && i < result->pairs; i++) {
		const struct selftestCell *cell = &result->cells[i];
		if (cell->state == selftestGood)
			continue;
		openWith(NULL, '{');
		number("from", (uint64_t)(i / report->nRanks));
		number("to", (uint64_t)(i % report->nRanks));
		text("state", selftestState(cell->state));
		text("backend", cell->backend);
		text("why", cell->why);
		textOrNull("fault", cell->fault);
		closeWith('}');
	}
	closeWith(']');
}

void printSelftestJson(const struct selftestReport *report)
{
	char settings[160];

	depth = 1;
	used = 0;
	putchar('{');
	number("nRanks", (uint64_t)report->nRanks);
	text("runsOn", report->device);
	openWith("selftest", '[');
	for (int i = 0; i < report->passes; i++) {
		const struct selftestResult *result = &report->result[i];
		openWith(NULL, '{');
		text("name", result->pass->name);
		text("settings", selftestSettings(result->pass, settings, sizeof(settings)));
		textOrNull("error", result->cells ? NULL : result->answer.why);
		number("pairs", (uint64_t)result->pairs);
		number("good", (uint64_t)result->count.good);
		number("broken", (uint64_t)result->count.broken);
		number("noRoute", (uint64_t)result->count.noRoute);
		if (result->cells) {
			matrixOf("latencyUs", report, result, microseconds);
			matrixOf("bandwidthGBs", report, result, gigabytes);
		}
		faultsOf(report, result);
		closeWith('}');
	}
	closeWith(']');
	printf("\n}\n");
}
