/* SPDX-License-Identifier: BSD-3-Clause */
/* text.c - prints the report as text, at most 100 columns wide */
#include "gin_info.h"
#include "table.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MATRIX_MOST = 32, LINES_MOST = 12 };

static const char *sizeText(uint64_t bytes, char out[32])
{
	if (bytes == UINT64_MAX)
		snprintf(out, 32, "unlimited");
	else if (bytes >= 1u << 30)
		snprintf(out, 32, "%.1f GiB", (double)bytes / (1u << 30));
	else if (bytes >= 1u << 20)
		snprintf(out, 32, "%.1f MiB", (double)bytes / (1u << 20));
	else
		snprintf(out, 32, "%.1f KiB", (double)bytes / 1024);
	return out;
}

static const char *countText(uint64_t count, char out[32])
{
	snprintf(out, 32, count == UINT64_MAX ? "unlimited" : "%llu", (unsigned long long)count);
	return out;
}

/* Prints a section once for each group of ranks with equal facts. */
static void section(const struct report *report, const char *title, size_t offset, size_t bytes,
		    void (*print)(const struct facts *f))
{
	int *of = reportGroups(report, offset, bytes), groups = 0;
	char words[320];

	for (int r = 0; of && r < report->n; r++)
		groups += of[r] == r;
	printf("\n%s\n", title);
	for (int r = 0; of && r < report->n; r++) {
		if (of[r] != r)
			continue;
		margin = 2;
		if (groups > 1) {
			groupText(report, of, r, words, sizeof(words));
			printf("  ");
			wrap(2, words);
			margin = 4;
		}
		print(&report->facts[r]);
	}
	margin = 2;
	free(of);
}

#define SECTION(title, member, print)                                                              \
	section(report, title, offsetof(struct facts, member),                                     \
		sizeof(((struct facts *)0)->member), print)

static void build(const struct facts *f)
{
	const struct buildFacts *b = &f->build;

	item("version", "%s, device ABI %d%s%s", b->version, b->abi,
	     strcmp(b->version, b->header) ? "; gin_info was compiled against " : "",
	     strcmp(b->version, b->header) ? b->header : "");
	item("library", "%s", b->library);
	item("compiler", "%s", b->compiler);
	item("PMIx plug-in", "%s", b->pmixWhy);
}

static void launcher(const struct facts *f)
{
	const struct launcherFacts *l = &f->launcher;

	item("launcher", "%s", l->name);
	if (*l->bootstrap)
		item("bootstrap", "%s: %s", l->bootstrap, l->why);
	const char *label = "variables";
	for (int i = 0; i < VARIABLES; i++) {
		if (!l->isSet[i])
			continue;
		item(label, "%s=%s", launcherVariables[i], l->value[i]);
		label = "";
	}
}

static const char *orUnknown(int count, char out[16])
{
	snprintf(out, 16, count ? "%d" : "unknown", count);
	return out;
}

static void systemOf(const struct facts *f)
{
	const struct systemFacts *s = &f->system;
	char a[32], b[32], cores[16], cpus[16], nodes[16];

	item("kernel", "%s", s->kernel);
	item("processors", "cores %s, hardware threads %s, NUMA nodes %s",
	     orUnknown(s->cores, cores), orUnknown(s->cpus, cpus), orUnknown(s->numaNodes, nodes));
	item("memory", "%s", s->memory ? sizeText(s->memory, a) : "unknown");
	if (s->shm)
		item("/dev/shm", "%s, %s free", sizeText(s->shm, a), sizeText(s->shmFree, b));
	else
		item("/dev/shm", "none");
	item("locked memory", "at most %s", sizeText(s->memlock, a));
	item("open files", "at most %s, hard limit %s", countText(s->files, a),
	     countText(s->filesHard, b));
}

static void domains(const struct gpuList *g, int count)
{
	uint8_t in[GPUS_MOST];
	char words[96];
	int several = 0;

	for (int first = 0; first < count; first++) {
		int members = 0;
		for (int i = 0; i < count; i++)
			members += in[i] = g->gpu[i].domain == first;
		if (members > 1)
			item(several++ ? "" : "NVLink", "%s",
			     listText("GPU", in, count, words, sizeof(words)));
	}
	if (!several)
		item("NVLink", "no two GPUs have peer access with native atomics");
}

static void addGpu(struct textTable *t, const struct gpuFacts *g, int ordinal)
{
	char number[16], compute[16], memory[32], node[16];
	const char *use = g->usable ? "usable" : g->why;

	snprintf(number, sizeof(number), "GPU %d", ordinal);
	snprintf(compute, sizeof(compute), "%d.%d", g->major, g->minor);
	snprintf(node, sizeof(node), g->numaNode < 0 ? "-" : "%d", g->numaNode);
	tableAdd(t, (const char *const[]){number, g->name, compute, sizeText(g->memory, memory),
					  g->bus, node, *g->cpus ? g->cpus : "-", use});
}

static void gpus(const struct facts *f)
{
	const struct gpuList *g = &f->gpus;
	int count = g->count < GPUS_MOST ? g->count : GPUS_MOST;
	struct textTable t = {.columns = 8};

	if (*g->why)
		item("no GPU", "%s", g->why);
	if (!count)
		return;
	tableAdd(&t, (const char *const[]){"GPU", "name", "compute", "memory", "PCI bus id", "NUMA",
					   "CPUs", "use"});
	for (int i = 0; i < count; i++)
		addGpu(&t, &g->gpu[i], i);
	tablePrint(&t);
	if (g->count > count)
		item("", "and %d more", g->count - count);
	domains(g, count);
	item("driver", "CUDA %d.%d, kernel module %s", g->driver / 1000, g->driver % 1000 / 10,
	     *g->module ? g->module : "unknown");
}

/* Writes "same switch: GPUs 0-1; other: GPU 2", for example. */
static void distancesText(const struct nicFacts *n, int count, char *out, size_t bytes)
{
	static const enum gpuDistance kinds[] = {distanceSwitch, distanceNuma, distanceOther,
						 distanceUnknown};
	uint8_t in[GPUS_MOST];
	char list[64];
	size_t used = 0;

	out[0] = '\0';
	for (int k = 0; k < 4 && used < bytes; k++) {
		int members = 0;
		for (int g = 0; g < count; g++)
			members += in[g] = n->distance[g] == kinds[k];
		if (members)
			used += (size_t)snprintf(out + used, bytes - used, "%s%s: %s",
						 used ? "; " : "", distanceWords(kinds[k]),
						 listText("GPU", in, count, list, sizeof(list)));
	}
}

static void addNic(struct textTable *t, const struct nicFacts *n, int gpuCount)
{
	char name[40], node[16], distances[256];

	if (n->rdma)
		snprintf(name, sizeof(name), "%s port %d", n->name, n->port);
	else
		snprintf(name, sizeof(name), "%s", n->name);
	snprintf(node, sizeof(node), n->numaNode < 0 ? "-" : "%d", n->numaNode);
	distancesText(n, gpuCount, distances, sizeof(distances));
	tableAdd(t,
		 (const char *const[]){name, *n->state ? n->state : "-", *n->link ? n->link : "-",
				       *n->rate ? n->rate : "-", node, distances});
}

static void gdaki(const struct nicList *n)
{
	if (*n->gdakiWhy)
		item("gdaki", "libgin sees no port: %s", n->gdakiWhy);
	for (int i = 0; i < n->count; i++)
		if (n->nic[i].rdma && *n->nic[i].gdakiWhy)
			item("gdaki", "%s port %d: %s%s", n->nic[i].name, n->nic[i].port,
			     n->nic[i].gdaki ? "usable: " : "not usable: ", n->nic[i].gdakiWhy);
	if (*n->gpuMemory)
		item("GPU memory", "%s", n->gpuMemory);
	if (*n->doorbell)
		item("doorbells", "%s", n->doorbell);
}

static void nics(const struct facts *f)
{
	int gpuCount = f->gpus.count < GPUS_MOST ? f->gpus.count : GPUS_MOST;
	struct textTable t = {.columns = 6};

	if (!f->nics.rdma)
		item("no RDMA NIC:", "%s", f->nics.why);
	if (!f->nics.count)
		return;
	tableAdd(&t, (const char *const[]){"device", "state", "link", "rate", "NUMA",
					   gpuCount ? "distance to GPUs" : ""});
	for (int i = 0; i < f->nics.count; i++)
		addNic(&t, &f->nics.nic[i], gpuCount);
	tablePrint(&t);
	if (f->nics.rdma)
		gdaki(&f->nics);
}

static const struct report *current; /* for backends(), which counts pairs of all ranks */

static void backends(const struct facts *f)
{
	for (int i = 0; i < f->backends.count; i++) {
		const char *name = f->backends.backend[i].name;
		if (f->backends.backend[i].usable)
			item(name, "usable; %ld of %ld pairs of ranks", pairsOf(current, name),
			     (long)current->n * current->n);
		else
			item(name, "not usable: %s", f->backends.backend[i].why);
	}
}

static char letterOf(const struct routeReason *reason)
{
	return strcmp(reason->backend, "none") ? reason->backend[0] : '.';
}

static void matrix(const struct report *report)
{
	printf("  from\\to");
	for (int to = 0; to < report->n; to++)
		printf(" %2d", to);
	for (int from = 0; from < report->n; from++) {
		printf("\n  %7d", from);
		for (int to = 0; to < report->n; to++)
			printf("  %c", letterOf(&report->reasons[*routeAt(report, from, to)]));
	}
	printf("\n  letter: first letter of the backend; dot: no route\n");
}

/* Prints the reasons of pairs with a route or, with `none`, of pairs without a route. */
static void reasons(const struct report *report, int none)
{
	int printed = 0, more = 0;

	for (int i = 0; i < report->reasonCount; i++) {
		char *pairs = NULL;
		size_t bytes;
		if (none != !strcmp(report->reasons[i].backend, "none"))
			continue;
		FILE *out = printed++ < LINES_MOST ? open_memstream(&pairs, &bytes) : NULL;
		more += !out;
		if (!out)
			continue;
		pairsText(report, i, out);
		fclose(out);
		item(none ? "no route" : report->reasons[i].backend, "%s: %s",
		     report->reasons[i].why, pairs);
		free(pairs);
	}
	if (more)
		item("", "and %d more reasons: gin_info --json has all", more);
}

static void routes(const struct report *report)
{
	printf("\nroutes\n");
	if (report->n > 1 && report->n <= MATRIX_MOST)
		matrix(report);
	reasons(report, 0);
	reasons(report, 1);
}

/* Adds a row for each group of ranks with equal values. */
static void differing(struct textTable *t, const struct report *report, int index, const int *of)
{
	char words[320];

	for (int r = 0; r < report->n; r++) {
		const struct paramFacts *p = &report->facts[r].params.param[index];
		if (of[r] == r)
			tableAdd(t, (const char *const[]){
					    p->isSet ? "*" : "", "", *p->value ? p->value : "-", "",
					    groupText(report, of, r, words, sizeof(words))});
	}
}

static void meaningText(const ginParamInfo_t *row, int isBad, char *out, size_t bytes)
{
	int choices = strchr(row->choices, '|') != NULL;

	snprintf(out, bytes, "%s%s%s%s%s", isBad ? "BAD VALUE; " : "", row->meaning,
		 choices ? " (" : "", choices ? row->choices : "", choices ? ")" : "");
}

static void variable(struct textTable *t, const struct report *report, int index)
{
	size_t offset = offsetof(struct facts, params.param[index]);
	const struct paramFacts *first = &report->facts[0].params.param[index];
	int *of = reportGroups(report, offset, sizeof(*first)), differs = 0;
	ginParamInfo_t row = paramRow(index);
	const char *value = *first->value ? first->value : "-";
	char words[320];

	for (int r = 0; of && r < report->n; r++)
		differs |= of[r] != 0;
	meaningText(&row, first->isBad, words, sizeof(words));
	tableAdd(t, (const char *const[]){!differs && first->isSet ? "*" : "", row.name,
					  differs ? "(differs)" : value,
					  *row.preset ? row.preset : "-", words});
	if (differs)
		differing(t, report, index, of);
	free(of);
}

static void environment(const struct report *report)
{
	struct textTable t = {.columns = 5};

	printf("\nenvironment variables (* is set; see gin_environ(7))\n");
	tableAdd(&t, (const char *const[]){"", "name", "value", "default", "meaning"});
	for (int i = 0; i < report->facts[0].params.count; i++)
		variable(&t, report, i);
	tablePrint(&t);
}

/* Prints one line for each group of ranks with equal facts: a description and the ranks. */
static void ranks(const struct report *report, const char *label, size_t offset, size_t bytes,
		  void (*describe)(const struct facts *f, char out[128]))
{
	int *of = reportGroups(report, offset, bytes), printed = 0, more = 0;
	char words[160], what[128];

	for (int r = 0; of && r < report->n; r++) {
		if (of[r] != r)
			continue;
		if (printed == LINES_MOST) {
			more++;
			continue;
		}
		describe(&report->facts[r], what);
		item(printed++ ? "" : label, "%s: %s", what,
		     groupRanks(report, of, r, words, sizeof(words)));
	}
	if (more)
		item("", "and %d more: gin_info --json has all", more);
	free(of);
}

static void describeHost(const struct facts *f, char out[128])
{
	snprintf(out, 128, "%s", f->host.name);
}

static void describeDevice(const struct facts *f, char out[128])
{
	if (f->device.ordinal < 0)
		snprintf(out, 128, "%s", f->device.name);
	else
		snprintf(out, 128, "GPU %d, %s", f->device.ordinal, f->device.name);
}

static void communicator(const struct report *report)
{
	margin = 2;
	printf("communicator\n");
	if (report->error) {
		item("none", "%s", report->error);
		item("host", "%s", report->facts->host.name);
		return;
	}
	item("ranks", "%d on %d host%s", report->n, report->hosts, report->hosts > 1 ? "s" : "");
	ranks(report, "hosts", offsetof(struct facts, host), sizeof(struct hostFacts),
	      describeHost);
	ranks(report, "devices", offsetof(struct facts, device), sizeof(struct deviceFacts),
	      describeDevice);
}

static void sections(const struct report *report)
{
	SECTION("libgin", build, build);
	SECTION("launcher", launcher, launcher);
	section(report, "host", offsetof(struct facts, system),
		offsetof(struct systemFacts, shmFree), systemOf);
	SECTION("GPUs", gpus, gpus);
	SECTION("NICs", nics, nics);
	if (!report->matrix)
		return;
	SECTION("backends", backends, backends);
	routes(report);
}

void printText(const struct report *report, int onlyEnv)
{
	current = report;
	communicator(report);
	if (!onlyEnv)
		sections(report);
	environment(report);
}
